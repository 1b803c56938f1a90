"""What processes use, from /proc: CPU time, memory, open files; and memory watched over time."""

import os
import statistics
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from compare import processes
from compare.processes import PROC, Memory

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
UTIME, STIME = 11, 12
"""Fields of /proc/PID/stat, counted from the state, which follows the name."""
ENDS = 5
"""Growth compares the first and the last of so many parts of the samples."""


@dataclass(frozen=True)
class Sample:
    """Memory of all processes together, so many seconds after the first sample."""

    at_s: float
    memory: Memory


def cpu_s(pids: Iterable[int], proc: Path = PROC) -> float:
    """User and system time of the processes, all threads, seconds; one that is gone counts 0."""
    ticks = 0
    for pid in pids:
        try:
            text = (proc / str(pid) / "stat").read_text()
        except OSError:
            continue
        fields = text.rpartition(")")[2].split()
        ticks += int(fields[UTIME]) + int(fields[STIME])
    return ticks / TICKS_PER_S


def open_files(pids: Iterable[int], proc: Path = PROC) -> int:
    """Descriptors that the processes hold."""
    found = 0
    for pid in pids:
        try:
            found += sum(1 for _ in (proc / str(pid) / "fd").iterdir())
        except OSError:
            continue
    return found


def everyone(by_name: Mapping[str, Sequence[int]]) -> list[int]:
    """The PIDs of all names."""
    return [pid for pids in by_name.values() for pid in pids]


def cores_used(pids: Sequence[int], seconds: float) -> float:
    """Cores that the processes keep busy over so many seconds from now on."""
    before, began = cpu_s(pids), time.monotonic()
    time.sleep(seconds)
    return (cpu_s(pids) - before) / (time.monotonic() - began)


@contextmanager
def watched(pids: Sequence[int], every_s: float) -> Iterator[list[Sample]]:
    """Samples the memory until the context is left; the list grows meanwhile."""
    samples: list[Sample] = []
    over = threading.Event()
    thread = threading.Thread(target=_watch, args=(pids, every_s, over.wait, samples))
    thread.start()
    try:
        yield samples
    finally:
        over.set()
        thread.join()


def _watch(
    pids: Sequence[int], every_s: float, wait: Callable[[float], bool], samples: list[Sample]
) -> None:
    began = time.monotonic()
    while True:
        samples.append(Sample(time.monotonic() - began, processes.memory(pids)))
        if wait(every_s):
            return


def growth(values: Sequence[float]) -> float:
    """Median of the last fifth over median of the first fifth; 1.0 is flat."""
    if not values:
        return 1.0
    part = max(1, len(values) // ENDS)
    first = statistics.median(values[:part])
    return statistics.median(values[-part:]) / first if first else 1.0
