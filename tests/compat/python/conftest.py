"""An environment with the official client and nothing of ours."""

import subprocess
import venv
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

Alone = Callable[[], AbstractContextManager[None]]
CLIENT = "rocketmq-python-client==5.1.2"
ROOT = Path(__file__).resolve().parents[3]


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
