"""Wheels of this repository, now and as it was at another commit, unpacked side by side.

What they depend on comes from the environment that runs this; PYTHONPATH decides which PopMQ a
process is.
"""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Installed:
    """A wheel, unpacked."""

    version: str
    folder: Path

    @property
    def env(self) -> dict[str, str]:
        """For a process that shall be this version."""
        return {"PYTHONPATH": str(self.folder)}


def installed(commit: str, label: str, folder: Path) -> Installed:
    """The wheel of a commit; empty: of the files as they lie here. Its version says `label`."""
    sources, wheels, target = (folder / label / name for name in ("src", "wheel", "installed"))
    sources.mkdir(parents=True)
    if commit:
        archive = subprocess.run(
            ["git", "archive", commit], cwd=ROOT, capture_output=True, check=True
        ).stdout
    else:
        names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, check=True)
        there = b"\n".join(
            name for name in names.stdout.splitlines() if (ROOT / os.fsdecode(name)).is_file()
        )
        pack = ["tar", "--create", "--files-from", "-"]
        archive = subprocess.run(
            pack, cwd=ROOT, input=there, capture_output=True, check=True
        ).stdout
    subprocess.run(["tar", "--extract"], cwd=sources, input=archive, check=True)
    project = sources / "pyproject.toml"
    text, count = re.subn(
        r'^version = "([^"]+)"', rf'version = "\1+{label}"', project.read_text(), flags=re.M
    )
    assert count == 1
    project.write_text(text)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", wheels, sources], check=True)
    (wheel,) = wheels.glob("*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", target, wheel], check=True)
    return Installed(wheel.name.split("-")[1], target)
