"""Writes what the images install: every package of an extra, with its version as of today and the
hashes of all its archives.

python deploy/requirements/pin.py; needs the package index.
"""

import subprocess
from pathlib import Path

from uv import find_uv_bin

FOLDER = Path(__file__).resolve().parent
EXTRAS = {"server": ["server"], "envoy": ["server", "envoy"], "pipelines": ["pipelines"]}
"""File → extras of the project. Each Dockerfile installs one file, and then the project alone."""
PYTHON = "3.11"
"""The images' version."""
HEADER = "# Written by: make pins\n"


def resolved(extras: list[str]) -> str:
    """`name==version` with its hashes, of all that the project needs with these extras. Raises
    `CalledProcessError`."""
    command = [find_uv_bin(), "pip", "compile", "--quiet", "--no-header", "--no-annotate"]
    command += [
        "--generate-hashes",
        "--python-version",
        PYTHON,
        str(FOLDER.parents[1] / "pyproject.toml"),
    ]
    for extra in extras:
        command += ["--extra", extra]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main() -> None:
    for name, extras in EXTRAS.items():
        (FOLDER / f"{name}.txt").write_text(HEADER + resolved(extras))


if __name__ == "__main__":
    main()
