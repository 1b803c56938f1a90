"""The official Python client, unmodified, in an environment and process of its own."""

import os
import subprocess
import sys
import venv
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from compat.checks import CHECKS, Driver, run
from harness.processes import Server

Alone = Callable[[], AbstractContextManager[None]]
CLIENT = "rocketmq-python-client==5.1.2"
ROOT = Path(__file__).resolve().parents[3]
DRIVER = Path(__file__).with_name("driver.py")


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory, alone: Alone) -> Driver:
    """The client's environment is made once and kept beside ours."""
    folder = ROOT / ".venv-compat-python"
    python = folder / "bin" / "python"
    with alone():
        if not python.exists():
            venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", CLIENT], check=True, timeout=300)
    home = tmp_path_factory.mktemp("home")  # the client writes its logs there

    def drive(scenario: str, server: Server, topic: str, group: str) -> Any:
        env = {**os.environ, "HOME": str(home)}
        return run([str(python), str(DRIVER), scenario, server.endpoint, topic, group], env)

    return drive


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_python_client(
    check: Callable[[Driver, Server], None], driver: Driver, server: Server
) -> None:
    assert sys.version_info >= (3, 11)
    check(driver, server)
