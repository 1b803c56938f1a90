"""The standalone that both clients talk to, in a process of its own."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

STOP_S = 30.0


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """Its endpoint."""
    popmq = str(Path(sys.executable).with_name("popmq"))
    command = [popmq, "standalone", "--port", "0", "--json", "--data-dir", str(folder / "data")]
    running = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert running.stdout is not None
        served = json.loads(running.stdout.readline())
        yield str(served["endpoint"])
    finally:
        running.terminate()
        running.wait(STOP_S)
