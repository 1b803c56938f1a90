"""An environment with the official client and nothing of ours."""

import os
import subprocess
import venv
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from compat.checks import Driver, run
from compat.session import Session, session
from harness.processes import Server

Alone = Callable[[], AbstractContextManager[None]]
CLIENT = "rocketmq-python-client==5.1.2"
HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]


@pytest.fixture(scope="session")
def python(alone: Alone) -> Path:
    """The interpreter of that environment, which is made once and kept beside ours."""
    folder = ROOT / ".venv-compat-python"
    python = folder / "bin" / "python"
    with alone():
        if not python.exists():
            venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", CLIENT], check=True, timeout=300)
    return python


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The client writes its logs there."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="session")
def driver(python: Path, home: Path) -> Driver:
    def drive(scenario: str, server: Server, topic: str, group: str) -> Any:
        env = {**os.environ, "HOME": str(home)}
        ends = [server.endpoint, server.other_endpoint]
        return run([str(python), str(HERE / "driver.py"), scenario, *ends, topic, group], env)

    return drive


@pytest.fixture(scope="module")
def signed(python: Path, home: Path) -> Iterator[Session]:
    env = {**os.environ, "HOME": str(home)}
    with session([str(python), str(HERE / "signed.py")], home / "signed.log", env) as running:
        yield running
