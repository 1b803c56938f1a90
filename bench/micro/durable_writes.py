"""Ways to make an append durable, and to hand a batch to another process of this machine, in turns.

PYTHONPATH=bench python -m micro.durable_writes [--dir DIR] [--rounds 5]
"""

import argparse
import mmap
import os
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

KIB: Final = 1024
SIZES: Final = (KIB, 32 * KIB, 256 * KIB)
WRITES: Final = 200
HANDED: Final = 2_000
SHARED_BYTES: Final = 1024 * KIB
NOTICE: Final = b"16 bytes of news"


class Took(NamedTuple):
    wall_us: float
    cpu_us: float


Write = Callable[[int, bytes, int], None]


def _and_sync(file: int, data: bytes, offset: int) -> None:
    os.pwrite(file, data, offset)
    os.fdatasync(file)


def _at_once(file: int, data: bytes, offset: int) -> None:
    os.pwritev(file, [data], offset, os.RWF_DSYNC)


WRITE_WAYS: Final[dict[str, tuple[Write, bool]]] = {
    "pwrite, then fdatasync": (_and_sync, False),
    "pwritev2 with RWF_DSYNC": (_at_once, False),
    "pwrite, then fdatasync, file written ahead": (_and_sync, True),
    "pwritev2 with RWF_DSYNC, file written ahead": (_at_once, True),
}
"""How, and whether the file's blocks are there before. PopMQ does the first."""

HAND_WAYS: Final = {
    "a batch over a Unix socket": False,
    "a batch in shared memory, and word of it over a Unix socket": True,
}
"""Whether the bytes are in shared memory. PopMQ does the first."""


@contextmanager
def log_file(folder: Path, size: int, ahead: bool) -> Iterator[int]:
    """A file of that size: sparse, or full of zeros that are on disk."""
    path = folder / "durable-writes"
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    try:
        os.ftruncate(file, size)
        if ahead:
            for offset in range(0, size, 1024 * KIB):
                os.pwrite(file, bytes(min(1024 * KIB, size - offset)), offset)
        os.fsync(file)
        yield file
    finally:
        os.close(file)
        path.unlink()


def written(folder: Path, way: str, size: int) -> Took:
    """Of one append of so many bytes."""
    write, ahead = WRITE_WAYS[way]
    data = os.urandom(size)
    with log_file(folder, size * WRITES, ahead) as file:
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        for number in range(WRITES):
            write(file, data, number * size)
        wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
    return Took(wall_s / WRITES * 1e6, cpu_s / WRITES * 1e6)


def handed(shared: bool, size: int) -> Took:
    """Of one batch of so many bytes, which the other process copies and answers with some bytes.
    CPU time of both."""
    ours, theirs = socket.socketpair()
    memory = mmap.mmap(-1, SHARED_BYTES)
    other = get_context("fork").Process(target=_take, args=(theirs, memory, shared, size))
    other.start()
    theirs.close()
    data = os.urandom(size)
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    for _ in range(HANDED):
        if shared:
            memory[:size] = data
            ours.sendall(NOTICE)
        else:
            ours.sendall(data)
        _read(ours, len(NOTICE))
    wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
    ours.sendall(bytes(len(NOTICE) if shared else size))
    theirs_s = float(_read(ours, len(NOTICE)))
    other.join()
    ours.close()
    return Took(wall_s / HANDED * 1e6, (cpu_s + theirs_s) / HANDED * 1e6)


def _take(end: socket.socket, memory: mmap.mmap, shared: bool, size: int) -> None:
    began_s = time.process_time()
    for _ in range(HANDED):
        if shared:
            _read(end, len(NOTICE))
            bytes(memory[:size])
        else:
            _read(end, size)
        end.sendall(NOTICE)
    used_s = time.process_time() - began_s
    _read(end, len(NOTICE) if shared else size)
    end.sendall(f"{used_s:16.6f}".encode())


def _read(end: socket.socket, size: int) -> bytes:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        view = view[end.recv_into(view) :]
    return bytes(data)


def in_turns(cases: Mapping[str, Callable[[], Took]], rounds: int) -> Iterator[tuple[str, Took]]:
    """The medians of each."""
    seen: dict[str, list[Took]] = {name: [] for name in cases}
    for _ in range(rounds):
        for name, case in cases.items():
            seen[name].append(case())
    for name, found in seen.items():
        yield name, Took(median(one.wall_us for one in found), median(one.cpu_us for one in found))


def main(words: Sequence[str]) -> int:
    made = argparse.ArgumentParser(prog="durable_writes", description=__doc__)
    made.add_argument("--dir", type=Path, default=Path.cwd(), help="on the disk that is measured")
    made.add_argument("--rounds", type=int, default=5)
    options = made.parse_args(words)
    print("| what | bytes | µs | CPU µs |\n| --- | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory(dir=options.dir) as name:
        for size in SIZES:
            ways = {way: partial(written, Path(name), way, size) for way in WRITE_WAYS}
            _show(in_turns(ways, options.rounds), size)
    for size in SIZES:
        both = {way: partial(handed, shared, size) for way, shared in HAND_WAYS.items()}
        _show(in_turns(both, options.rounds), size)
    return 0


def _show(rows: Iterator[tuple[str, Took]], size: int) -> None:
    for name, took in rows:
        print(f"| {name} | {size:,} | {took.wall_us:,.0f} | {took.cpu_us:,.1f} |", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
