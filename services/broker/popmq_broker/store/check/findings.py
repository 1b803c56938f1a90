"""What a check has found: where, and what is wrong there."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

FINDINGS_MAX: Final = 1_000


class StoreFinding(NamedTuple):
    path: str
    offset: int
    """Of a queue, a queue offset; of the log, a log offset; else a byte of the file."""
    reason: str


@dataclass(slots=True)
class Findings:
    """The first `FINDINGS_MAX` of each, and how many there are."""

    wrong: list[StoreFinding] = field(default_factory=list)
    wrong_count: int = 0
    notes: list[StoreFinding] = field(default_factory=list)
    """Nothing is lost: what a start repairs or passes over."""

    def add(self, path: Path, offset: int, reason: str) -> None:
        self.wrong_count += 1
        if len(self.wrong) < FINDINGS_MAX:
            self.wrong.append(StoreFinding(str(path), offset, reason))

    def note(self, path: Path, offset: int, reason: str) -> None:
        if len(self.notes) < FINDINGS_MAX:
            self.notes.append(StoreFinding(str(path), offset, reason))
