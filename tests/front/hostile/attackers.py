"""Programs of this folder as processes of their own, so that the server has the test's turns."""

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[2]


def started(module: str, *arguments: str) -> subprocess.Popen[str]:
    """`module`: attacks or neighbour."""
    return subprocess.Popen(
        [sys.executable, "-m", f"front.hostile.{module}", *arguments],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
