"""The server that both clients talk to: a standalone, or its parts apart."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from compare.servers import Popmq, Tools, admin, free_ports, patiently

STOP_S = 30.0
POPMQ = str(Path(sys.executable).with_name("popmq"))


def new_group(endpoint: str, name: str) -> None:
    """One that begins at the oldest message."""
    make = [POPMQ, "group", "create", name, "--from", "first", "--endpoint", endpoint]
    patiently(lambda: admin(make, _env()))


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


@contextmanager
def apart(folder: Path, popmq: Path) -> Iterator[str]:
    """The endpoint of nameserver, broker and proxy, a process each: the server may take more than
    one core, and is less in the way of a client that is to be measured."""
    nothing, popmq = Path(), popmq.absolute()  # it is started in another folder
    tools = Tools(popmq, popmq, loadgen=nothing, anchor=nothing, cores=None)
    server = Popmq(tools, "sync", folder, free_ports(), "http2", alone=False)
    try:
        server.start()
        yield server.endpoint
    finally:
        server.stop()
