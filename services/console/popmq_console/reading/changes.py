"""What was changed through this console since its start, for the page of access."""

from collections import deque
from typing import Final, NamedTuple

CHANGES_MAX: Final = 500


class Change(NamedTuple):
    at_ms: int
    user: str
    """Empty: nobody had to log in."""
    command: str
    """The command that does the same."""
    outcome: str


class Changes:
    """The newest first, at most `CHANGES_MAX`."""

    def __init__(self) -> None:
        self._made: deque[Change] = deque(maxlen=CHANGES_MAX)

    def add(self, change: Change) -> None:
        self._made.appendleft(change)

    def all(self) -> list[Change]:
        return list(self._made)
