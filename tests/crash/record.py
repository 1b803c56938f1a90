"""The external record of what clients were told: a file, on disk before the next call is made."""

import asyncio
import os
from collections import Counter
from pathlib import Path


class Record:
    """A line for each OK; the lines of one turn of the event loop share an fdatasync."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._kick: asyncio.Handle | None = None

    def ok(self, what: str, body: str) -> None:
        os.write(self._number, f"{what} {body}\n".encode())
        if self._kick is None:
            self._kick = asyncio.get_running_loop().call_soon(self._sync)

    def _sync(self) -> None:
        self._kick = None
        os.fdatasync(self._number)

    def read(self) -> dict[str, set[str]]:
        """Bodies by what was answered OK."""
        found: dict[str, set[str]] = {}
        for line in self._path.read_text().splitlines():
            what, body = line.split(" ", 1)
            found.setdefault(what, set()).add(body)
        return found

    def counts(self) -> Counter[str]:
        return Counter(line.split(" ", 1)[0] for line in self._path.read_text().splitlines())

    def close(self) -> None:
        os.close(self._number)
