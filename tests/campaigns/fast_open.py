"""How long a broker takes from its start until it listens, on a large directory.

    PYTHONPATH=tests python -m campaigns.fast_open DIR [--messages 20000000] [--segments 20]

Makes the directory if it is not there; the starts after a crash leave it as a crash does. The page
cache is dropped for its files before each start.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from campaigns.big_store import BigStore
from harness.processes import Process, free_port

LIMITS_S = {"clean": 5.0, "crash": 30.0}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--messages", type=int, default=20_000_000)
    parser.add_argument("--segments", type=int, default=20)
    parser.add_argument("--topics", type=int, default=100)
    options = parser.parse_args()
    big = BigStore(options.folder / "data", options.messages, options.segments, options.topics)
    if not big.folder.exists():
        began = time.monotonic()
        for part in big.make():
            print(f"\rmade {part:.0%} in {time.monotonic() - began:.0f} s", end="", flush=True)
        print()
    used = subprocess.run(["du", "-sm", big.folder], capture_output=True, text=True, check=True)
    print(
        f"{big.messages:,} messages, {big.segments} GiB of log, {used.stdout.split()[0]} MiB used"
    )
    slow = 0
    for what in ("clean", "clean", "crash", "crash"):
        if what == "crash":
            big.crash()
        elif (big.folder / "abort").exists():
            print("start after a clean stop: not measured, the directory has seen a crash")
            continue
        seconds = start_seconds(big.folder, options.folder / "broker.log", stop=what == "clean")
        print(f"start after a {what} stop: {seconds:.2f} s", flush=True)
        slow += seconds > LIMITS_S[what]
    return 1 if slow else 0


def start_seconds(data_dir: Path, log: Path, *, stop: bool) -> float:
    """`stop`: cleanly, not with -9."""
    for path in data_dir.rglob("*"):
        if path.is_file():
            forget_pages(path)
    port = free_port()
    settings = {"POPMQ_BROKER_PORT": str(port), "POPMQ_BROKER_DATA_DIR": str(data_dir)}
    broker = Process(["broker"], settings, log, port)
    began = time.monotonic()
    broker.start()
    seconds = time.monotonic() - began
    if stop:
        broker.stop()
    else:
        broker.kill()
    return seconds


def forget_pages(path: Path) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        os.fdatasync(number)
        os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(number)


if __name__ == "__main__":
    sys.exit(main())
