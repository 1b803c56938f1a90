"""What was changed through this console since its start, for the page of access."""

from collections import deque
from typing import Final, NamedTuple

CHANGES_MAX: Final = 500


class ConsoleChange(NamedTuple):
    at_ms: int
    user: str
    """Empty: nobody had to log in."""
    command: str
    """The command that does the same."""
    outcome: str


class Changes:
    """The newest first, at most `CHANGES_MAX`."""

    def __init__(self) -> None:
        self._made: deque[ConsoleChange] = deque(maxlen=CHANGES_MAX)

    def add(self, change: ConsoleChange) -> None:
        self._made.appendleft(change)

    def all(self) -> list[ConsoleChange]:
        return list(self._made)
