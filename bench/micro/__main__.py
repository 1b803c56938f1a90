"""Two source trees beside each other: CPU time per message, in turns, so that luck is shared.

PYTHONPATH=bench python -m micro --before /another/clone [--rounds 9] [--only 'send 32']
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median

HERE = Path(__file__).parents[2]
PARTS = (
    "proto/gen",
    *(f"services/{path.name}" for path in sorted((HERE / "services").iterdir())),
    "sdk",
)
NAMES = (
    "proxy, send 1",
    "proxy, send 32",
    "broker, send 1",
    "broker, send 32",
    "standalone, send 1",
    "standalone, send 32",
    "standalone, receive 32",
    "standalone, ack 32",
    "sdk, send",
    "sdk, send_many",
    "sdk, handler",
    "sdk, receive and ack",
)


class Side:
    """A worker over one source tree."""

    def __init__(self, tree: Path, name: str) -> None:
        parts = (
            [str(tree / part) for part in PARTS] if (tree / "services").is_dir() else [str(tree)]
        )
        path = os.pathsep.join([*parts, str(HERE / "bench")])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "micro.worker", name],
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.seen: list[float] = []

    def round(self, count: int) -> float:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{count}\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(40)


def compare(name: str, trees: Sequence[Path], rounds: int, count: int) -> list[list[float]]:
    """Microseconds per message, a list for each tree."""
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


def main() -> None:
    made = argparse.ArgumentParser(prog="micro", description="CPU time per message.")
    made.add_argument(
        "--before", type=Path, action="append", default=[], help="another source tree"
    )
    made.add_argument("--rounds", type=int, default=9)
    made.add_argument("--count", type=int, default=6_400, help="messages of a round")
    made.add_argument("--only", default="", help="cases whose names contain this")
    options = made.parse_args()
    trees = [*options.before, HERE]
    print(f"{'µs of CPU per message':26}" + "".join(f"{t.name:>20}" for t in trees))
    for name in NAMES:
        if options.only in name:
            seen = compare(name, trees, options.rounds, options.count)
            figures = [f"{min(one):.2f} / {median(one):.2f}" for one in seen]
            print(f"{name:26}" + "".join(f"{f:>20}" for f in figures), flush=True)


if __name__ == "__main__":
    main()
