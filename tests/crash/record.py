"""The external record of what clients were told: a file that outlives every process that is killed.

A line for each event, `WALL_MS WHAT BODY`, written before the client makes its next call. kill -9
takes nothing out of the page cache, so the lines are not synced.
"""

import os
import time
from collections import Counter
from pathlib import Path

OKS = (
    "sent",
    "delayed",
    "recalled",
    "half",
    "committed",
    "rolled-back",
    "acked",
    "changed",
    "nacked",
)
"""Answers; the other lines tell what a client was about to do, or was refused."""


class Record:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.counts: Counter[str] = Counter()
        """Lines by what they say."""
        self._number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, what: str, body: str) -> None:
        os.write(self._number, f"{time.time_ns() // 1_000_000} {what} {body}\n".encode())
        self.counts[what] += 1

    def oks(self) -> dict[str, int]:
        """How many answers of OK there are, by kind."""
        return {what: self.counts[what] for what in OKS}

    def close(self) -> None:
        os.close(self._number)


def read(path: Path) -> dict[str, set[str]]:
    """Bodies by what was written of them."""
    found: dict[str, set[str]] = {}
    for line in path.read_text().splitlines():
        _, what, body = line.split(" ", 2)
        found.setdefault(what, set()).add(body)
    return found


def owed(lines: dict[str, set[str]]) -> set[str]:
    """Bodies that must come: sent, or delayed, or of a transaction that was stored and is decided.

    Of a recall that was neither answered OK nor refused nobody knows what became.
    """
    sent, delayed, half, recalling, kept, committing = (
        lines.get(what, set())
        for what in ("sent", "delayed", "half", "recalling", "not-recalled", "committing")
    )
    return sent | (delayed - (recalling - kept)) | (half & committing)
