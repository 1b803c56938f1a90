"""Writes what the images install: every package of an extra, with its version as of today.

python deploy/requirements/pin.py; needs the package index.
"""

import json
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
EXTRAS = {"server": "server", "envoy": "server,envoy", "pipelines": "pipelines"}
"""File → extras of the project. Each Dockerfile installs one file, and then the project alone."""


def resolved(extras: str) -> list[str]:
    """`name==version` of all that the project needs with these extras. Raises
    `CalledProcessError`."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
    project = f"{FOLDER.parents[1]}[{extras}]"
    done = subprocess.run([*pip, "--report", "-", project], check=True, capture_output=True)
    found = [one["metadata"] for one in json.loads(done.stdout)["install"]]
    return sorted(f"{one['name']}=={one['version']}" for one in found if one["name"] != "popmq")


def main() -> None:
    for name, extras in EXTRAS.items():
        (FOLDER / f"{name}.txt").write_text("\n".join(resolved(extras)) + "\n")


if __name__ == "__main__":
    main()
