"""The official clients as the compat suites have them: made once, kept beside our environment."""

import shutil
import subprocess
import venv
from pathlib import Path

from chaos.cluster import ROOT

CLIENT = "rocketmq-python-client==5.1.2"


def official_python() -> Path:
    """The interpreter of the environment that tests/compat/python uses too."""
    folder = ROOT / ".venv-compat-python"
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    subprocess.run([python, "-m", "pip", "install", "-q", CLIENT], check=True, timeout=300)
    return python


def official_go(folder: Path) -> Path:
    """The driver of tests/compat/golang, built."""
    go = shutil.which("go")
    if go is None:
        raise SystemExit("make chaos: install Go 1.25 or newer (https://go.dev/dl)")
    built = folder / "driver"
    here = ROOT / "tests" / "compat" / "golang"
    subprocess.run([go, "build", "-o", str(built), "."], cwd=here, check=True, timeout=600)
    return built
