"""A commit's servers in an environment of its own."""

import shutil
import subprocess
from pathlib import Path

from compare.failure import BenchFailure

ROOT = Path(__file__).resolve().parents[2]
READY = ".ready"


def short_name(commit: str) -> str:
    """Its hash as people write it. Raises `BenchFailure`: there is no such commit."""
    return _git("rev-parse", "--short=10", f"{commit}^{{commit}}").decode().strip()


def installed(commit: str, work: Path, python: str) -> Path:
    """Its `popmq`, installed as users do; made once for each commit. Raises `BenchFailure`."""
    folder = work / f"popmq-{short_name(commit)}"
    environment, sources = folder / "venv", folder / "sources"
    if not (folder / READY).is_file():
        shutil.rmtree(folder, ignore_errors=True)
        sources.mkdir(parents=True)
        _run("tar", "--extract", "--directory", str(sources), given=_git("archive", commit))
        _run(python, "-m", "venv", str(environment))
        _run(str(environment / "bin/pip"), "install", "--quiet", f"{sources}[server]")
        (folder / READY).touch()
    return environment / "bin/popmq"


def is_clean() -> bool:
    """Nothing in the checkout differs from its commit."""
    return not _git("status", "--porcelain", "--untracked-files=no")


def _git(*words: str) -> bytes:
    return _run("git", "-C", str(ROOT), *words)


def _run(*command: str, given: bytes | None = None) -> bytes:
    done = subprocess.run(command, input=given, capture_output=True, check=False)
    if done.returncode:
        told = done.stderr.decode(errors="replace").strip()
        raise BenchFailure(f"{' '.join(command[:6])} ended with {done.returncode}: {told}")
    return done.stdout
