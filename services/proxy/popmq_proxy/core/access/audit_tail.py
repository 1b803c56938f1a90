"""The last lines of this proxy's audit trail, in memory, numbered since its start."""

from collections import deque
from collections.abc import Sequence
from typing import Final

from popmq_internal.v1 import link_pb2 as link

LINES_MAX: Final = 500


class AuditTail:
    def __init__(self, lines_max: int = LINES_MAX) -> None:
        self._lines: deque[link.AuditLine] = deque(maxlen=lines_max)
        self.written = 0
        """Since the start; also the number of the next line."""

    def add(self, line: link.AuditLine) -> None:
        """It gets its number."""
        line.number = self.written
        self.written += 1
        self._lines.append(line)

    @property
    def left_out(self) -> int:
        """Lines that are forgotten by now."""
        return self.written - len(self._lines)

    def lines(self) -> Sequence[link.AuditLine]:
        """Oldest first."""
        return tuple(self._lines)

    def since(self, number: int, count: int) -> list[link.AuditLine]:
        """At most `count` of those with this number or a higher one, the oldest first."""
        first = max(0, number - self.left_out)
        return [self._lines[at] for at in range(first, min(len(self._lines), first + count))]
