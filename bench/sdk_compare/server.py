"""The standalone that both clients talk to, in a process of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

STOP_S = 30.0
POPMQ = str(Path(sys.executable).with_name("popmq"))


def new_group(endpoint: str, name: str) -> None:
    """One that begins at the oldest message."""
    make = [POPMQ, "group", "create", name, "--from", "first", "--endpoint", endpoint]
    subprocess.run(make, env=_env(), check=True, stdout=subprocess.DEVNULL)


def _env() -> dict[str, str]:
    """Of the server and the command: the installed tree, whichever one the client is of."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


@contextmanager
def standalone(folder: Path, port: int = 0) -> Iterator[str]:
    """Its endpoint."""
    command = [POPMQ, "standalone", "--json", "--data-dir", str(folder / "data")]
    command += ["--port", str(port)]
    running = subprocess.Popen(command, env=_env(), stdout=subprocess.PIPE)
    try:
        assert running.stdout is not None
        served = json.loads(running.stdout.readline())
        yield str(served["endpoint"])
    finally:
        running.terminate()
        running.wait(STOP_S)
