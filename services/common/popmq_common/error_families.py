"""The families of errors (errors.py has their members): who can do something about it."""

from typing import ClassVar


class PopMQError(Exception):
    """Something went wrong."""

    retriable: ClassVar[bool] = False

    def __init__(self, /, **fields: object) -> None:
        self.fields: dict[str, str] = {name: str(value) for name, value in fields.items()}
        super().__init__(self._text())

    def _text(self) -> str:
        template = " ".join((type(self).__doc__ or "").split())
        try:
            return template.format_map(self.fields)
        except KeyError as missing:  # an error about an error must still be readable
            return f"{template} (no field {missing})"


class BadRequest(PopMQError):
    """The request cannot be served as it is: {reason}."""


class NotFound(PopMQError):
    """It does not exist."""


class Refused(PopMQError):
    """Not now."""


class Unavailable(PopMQError):
    """A service did not answer."""

    retriable = True


class StorageFault(PopMQError):
    """The disk does not hold what was written to it."""
