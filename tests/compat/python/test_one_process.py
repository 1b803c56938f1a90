"""Whoever moves from the official Python client to ours has both in one process for a while."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from compat.checks import fresh, run
from harness.processes import Server, standalone

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with standalone(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture(scope="module")
def popmq(tmp_path_factory: pytest.TempPathFactory, python: Path) -> Path:
    """A folder with our package alone, installed as a user would."""
    folder = tmp_path_factory.mktemp("popmq")
    install = [
        str(python),
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--target",
        str(folder),
        str(ROOT),
    ]
    subprocess.run(install, check=True, timeout=300)
    return folder


@pytest.mark.parametrize("runtime", ["upb", "python"])
@pytest.mark.parametrize("order", [("rocketmq", "popmq.sync"), ("popmq.sync", "rocketmq")])
def test_both_send_and_receive(
    order: tuple[str, str], runtime: str, python: Path, popmq: Path, home: Path, server: Server
) -> None:
    """Imported in either order, with protobuf's runtime in C and the one in Python."""
    env = {
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(popmq),
        "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": runtime,
    }
    script = Path(__file__).with_name("both.py")
    names = fresh(server, settings=["--from", "first"])
    seen = run([str(python), str(script), server.endpoint, *names, *order], env)
    assert seen == ["from the official client", "from ours"]
