"""Prometheus, its own tool, and where the rules are that they judge."""

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy/monitoring"
OWN = ROOT / ".tools/usr/bin"
MISSING = "it is missing: make promtool, or apt-get install prometheus"


def program(name: str) -> str:
    """Of the machine, or the one in .tools."""
    found = shutil.which(name) or shutil.which(name, path=str(OWN))
    assert found, f"{name}: {MISSING}"
    return found


def promtool(*words: str) -> str:
    command = [program("promtool"), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout
