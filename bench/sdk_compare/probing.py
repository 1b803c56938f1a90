"""What the probes of both clients share; imports nothing of either."""

import json
import threading
from pathlib import Path

HANDLING_S = 3.0
"""What a handler takes."""
PAUSE_S = 0.02
"""Between two sends."""


def say(*what: object) -> None:
    """A line of JSON, whole whichever thread says it."""
    print(json.dumps(what) + "\n", end="", flush=True)


def size() -> tuple[float, int]:
    """Of this process: resident MiB, and threads."""
    lines = Path("/proc/self/status").read_text().splitlines()
    kib = next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))
    return round(kib / 1024, 1), _threads(lines) or threading.active_count()


def _threads(lines: list[str]) -> int:
    return next((int(line.split()[1]) for line in lines if line.startswith("Threads:")), 0)
