"""The images install what the project says it needs. Mend it with: make pins."""

import re
import tomllib
from pathlib import Path

import pytest
from harness.pins import pins, plain

ROOT = Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def names(requirements: list[str]) -> set[str]:
    found = (re.match(r"[A-Za-z0-9_.-]+", one) for one in requirements)
    return {plain(match.group()) for match in found if match}


def needs_of(extra: str) -> list[str]:
    """With those of the extras that it brings."""
    found: list[str] = []
    for need in PROJECT["optional-dependencies"][extra]:
        own = re.fullmatch(r"popmq\[(.+)\]", need)
        found += needs_of(own.group(1)) if own else [need]
    return found


@pytest.mark.parametrize(
    ("file", "extras"),
    [("server", ["server", "console"]), ("pipelines", ["pipelines"])],
)
def test_each_need_has_a_pin(file: str, extras: list[str]) -> None:
    found = pins(file)
    for pin, hashes in found.items():
        assert re.fullmatch(r"[A-Za-z0-9_.-]+==[0-9][A-Za-z0-9.]*", pin)
        assert hashes, pin
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", one) for one in hashes)
    needs = list(PROJECT["dependencies"])
    for extra in extras:
        needs += needs_of(extra)
    assert names(needs) <= names(list(found))


def test_what_builds_the_project_is_pinned() -> None:
    """And what compiles its hot modules."""
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needs = [*whole["build-system"]["requires"], *whole["dependency-groups"]["compile"]]
    found = pins("build")
    assert names(needs) <= names(list(found))
    assert all(found.values())


@pytest.mark.parametrize("file", ["Dockerfile", "pipelines.Dockerfile"])
def test_an_image_takes_only_archives_that_are_pinned(file: str) -> None:
    """Each call of pip names hashes, or fetches nothing: no needs, no build tools, no index."""
    text = (ROOT / "deploy" / file).read_text().replace("\\\n", " ")
    calls = re.findall(r"\bpip\b[^&;\n]*\b(?:install|wheel)\b[^&;\n]*", text)
    assert len(calls) >= 4
    for call in calls:
        if "-r deploy/requirements/" in call:
            assert "--require-hashes" in call
            continue
        assert "--no-deps" in call
        assert "--no-build-isolation" in call or "--no-index" in call
