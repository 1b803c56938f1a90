"""Source trees beside each other: CPU time per message, or the instructions that it takes.

PYTHONPATH=bench python -m micro --before /another/clone [--rounds 9] [--only 'send 32']
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from micro.instructions import Counter, is_installed

HERE = Path(__file__).parents[2]
PARTS = (
    "proto/gen",
    *(f"services/{path.name}" for path in sorted((HERE / "services").iterdir())),
    "sdk",
)
NAMES = (
    "proxy, send 1",
    "proxy, send 32",
    "proxy, send 1 with keys",
    "proxy, send 32 with keys",
    "broker, send 1",
    "broker, send 32",
    "standalone, send 1",
    "standalone, send 32",
    "standalone, receive 32",
    "standalone, ack 32",
    "standalone, receive 32 records",
    "standalone, ack 32 by runs",
    "sdk, send",
    "sdk, send_many",
    "sdk, handler",
    "sdk, receive and ack",
)


def environment(tree: Path) -> dict[str, str]:
    """Of a worker over this source tree, or over what is installed there."""
    parts = [str(tree / part) for part in PARTS] if (tree / "services").is_dir() else [str(tree)]
    path = os.pathsep.join([*parts, str(HERE / "bench")])
    return {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0"}


class Side:
    """A worker over one source tree."""

    def __init__(self, tree: Path, name: str, counter: Counter | None = None) -> None:
        """`counter`: a round's instructions are counted, not its time taken."""
        self._counter = counter
        python = counter.command if counter else (sys.executable,)
        self._process = subprocess.Popen(
            [*python, "-m", "micro.worker", name],
            env=environment(tree),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.seen: list[float] = []

    def begin(self, count: int) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{count}\n")
        self._process.stdin.flush()

    def end(self, count: int) -> float:
        """Microseconds, or instructions, of one of `count` messages."""
        assert self._process.stdout is not None
        took_us = float(self._process.stdout.readline())
        return self._counter.last() / count if self._counter else took_us

    def round(self, count: int) -> float:
        self.begin(count)
        return self.end(count)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(40)
        if self._counter:
            self._counter.close()


def compare(name: str, trees: Sequence[Path], rounds: int, count: int) -> list[list[float]]:
    """Microseconds per message, a list for each tree; in turns, so that luck is shared."""
    sides = [Side(tree, name) for tree in trees]
    try:
        for side in sides:
            side.round(count)  # warms up
        for turn in range(rounds):
            for side in sides if turn % 2 else sides[::-1]:
                side.seen.append(side.round(count))
    finally:
        for side in sides:
            side.close()
    return [side.seen for side in sides]


def count_instructions(name: str, trees: Sequence[Path], count: int) -> list[float]:
    """Instructions per message, of each tree; all at once, for they do not hurt each other."""
    sides = [Side(tree, name, Counter()) for tree in trees]
    try:
        for _ in ("warms up", "is measured"):
            for side in sides:
                side.begin(count)
            counted = [side.end(count) for side in sides]
    finally:
        for side in sides:
            side.close()
    return counted


def main() -> None:
    made = argparse.ArgumentParser(prog="micro", description="CPU time per message.")
    made.add_argument(
        "--before", type=Path, action="append", default=[], help="another source tree"
    )
    made.add_argument("--rounds", type=int, default=9)
    made.add_argument("--count", type=int, default=6_400, help="messages of a round")
    made.add_argument("--only", default="", help="cases whose names contain this")
    made.add_argument(
        "--instructions",
        action="store_true",
        help="count instructions with valgrind, a minute or two for each case of servers",
    )
    options = made.parse_args()
    if options.instructions and not is_installed():
        made.error("--instructions needs valgrind (apt-get install valgrind)")
    trees = [*options.before, HERE]
    names = [name for name in NAMES if options.only in name]
    what = "instructions per message" if options.instructions else "µs of CPU per message"
    print(f"{what:32}" + "".join(f"{t.name:>20}" for t in trees))
    for name in names:
        if not options.instructions:
            seen = compare(name, trees, options.rounds, options.count)
            figures = [f"{min(one):.2f} / {median(one):.2f}" for one in seen]
        elif not name.startswith("sdk"):  # those wait for a server
            counted = count_instructions(name, trees, options.count)
            figures = [f"{one:,.0f} ({one / counted[0]:.3f})" for one in counted]
        else:
            continue
        print(f"{name:32}" + "".join(f"{f:>20}" for f in figures), flush=True)


if __name__ == "__main__":
    main()
