"""A bound on the CPU time of processes, by control groups of Linux, version 1 or 2."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from compare.failure import BenchFailure

PERIOD_US: Final = 20_000
"""Short, so that a process waits milliseconds for its next part, not a tenth of a second."""
ROOT: Final = Path("/sys/fs/cgroup")


def files(root: Path, name: str, cores: float) -> tuple[Path, Mapping[str, str]]:
    """A group's directory, and what is written to which of its files. Raises `BenchFailure` where
    the machine has no control of CPU time."""
    used_us = str(int(PERIOD_US * cores))
    if (root / "cgroup.controllers").exists():
        return root / name, {"cpu.max": f"{used_us} {PERIOD_US}"}
    if (root / "cpu").is_dir():
        written = {"cpu.cfs_period_us": str(PERIOD_US), "cpu.cfs_quota_us": used_us}
        return root / "cpu" / name, written
    raise BenchFailure(f"no control group of CPU time below {root}: run it as root on Linux")


@contextmanager
def held_to(cores: float, pids: Sequence[int], root: Path = ROOT) -> Iterator[None]:
    """Each of the processes may use so many cores while the context lasts."""
    made: dict[Path, int] = {}
    try:
        for pid in pids:
            directory, written = files(root, f"popmq-bench-{os.getpid()}-{pid}", cores)
            try:
                directory.mkdir()
                made[directory] = pid
                for name, text in {**written, "cgroup.procs": str(pid)}.items():
                    (directory / name).write_text(text)
            except OSError as refused:
                raise BenchFailure(f"{directory}: {refused.strerror}: run it as root") from refused
        yield
    finally:
        for directory, pid in made.items():
            with suppress(OSError):  # the process has ended
                (directory.parent / "cgroup.procs").write_text(str(pid))
            with suppress(OSError):
                directory.rmdir()
