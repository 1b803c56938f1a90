"""Writes what the images install: every package of an extra, and what builds the project, with its
version as of today and the hashes of all its archives.

python deploy/requirements/pin.py; needs the package index.
"""

import subprocess
import tomllib
from pathlib import Path

from uv import find_uv_bin

FOLDER = Path(__file__).resolve().parent
PROJECT = FOLDER.parents[1] / "pyproject.toml"
EXTRAS = {"server": ["server", "console"], "pipelines": ["pipelines", "lake"]}
"""File → extras of the project. Each Dockerfile installs one file, and then the project alone."""
BUILD = "build"
"""The file of what makes the project's wheel: build system, and compiler of the hot modules."""
PYTHON = "3.11"
"""The images' version."""
HEADER = "# Written by: make pins\n"


def resolved(*source: str, needs: str = "") -> str:
    """`name==version` with its hashes, of all that is needed. `source`: uv's words for whose needs;
    `-` for `needs`, one a line. Raises `CalledProcessError`."""
    command = [find_uv_bin(), "pip", "compile", "--quiet", "--no-header", "--no-annotate"]
    command += ["--generate-hashes", "--allow-unsafe", "--python-version", PYTHON, *source]
    done = subprocess.run(command, check=True, capture_output=True, text=True, input=needs)
    return done.stdout


def build_needs() -> list[str]:
    project = tomllib.loads(PROJECT.read_text())
    return [*project["build-system"]["requires"], *project["dependency-groups"]["compile"]]


def main() -> None:
    texts = {
        name: resolved(str(PROJECT), *(word for extra in extras for word in ("--extra", extra)))
        for name, extras in EXTRAS.items()
    }
    texts[BUILD] = resolved("-", needs="\n".join(build_needs()))
    for name, text in texts.items():
        (FOLDER / f"{name}.txt").write_text(HEADER + text)


if __name__ == "__main__":
    main()
