"""Executed instructions instead of time, counted by valgrind's callgrind: what other work the
machine has does not change them, so a change of 1 % can be seen.

They leave out the disk, the kernel and what caches cost; two rounds differ by some 0.1 %. A case
calls `mark` before and behind what it measures. That is a function of the C library that nobody
else calls, and callgrind writes a file whenever it is called: every second one is of a measured
part.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

FUNCTION = "getloadavg"
LISTENERS: list[Callable[[], None]] = []
"""Who counts something else, and in this process, is told too."""


def mark() -> None:
    os.getloadavg()
    for listener in LISTENERS:
        listener()


def is_installed() -> bool:
    return shutil.which("valgrind") is not None


class Counter:
    """The command that runs a worker under callgrind, and what was counted."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="popmq-instructions-"))
        self._out = self._folder / "out"
        self.command = (
            "valgrind",
            "--quiet",
            "--tool=callgrind",
            f"--dump-before={FUNCTION}",
            f"--callgrind-out-file={self._out}",
            sys.executable,
        )

    def last(self) -> int:
        """Instructions of the last measured part."""
        files = sorted(self._folder.glob("out.*"), key=lambda path: int(path.suffix[1:]))
        assert files
        assert len(files) % 2 == 0, files
        (total,) = (
            line.split()[1]
            for line in files[-1].read_text().splitlines()
            if line.startswith("totals:")
        )
        return int(total)

    def close(self) -> None:
        shutil.rmtree(self._folder)
