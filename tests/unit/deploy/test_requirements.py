"""The images install what the project says it needs. Mend it with: make pins."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def names(requirements: list[str]) -> set[str]:
    found = (re.match(r"[A-Za-z0-9_.-]+", one) for one in requirements)
    return {match.group().lower().replace("_", "-") for match in found if match}


def needs_of(extra: str) -> list[str]:
    """With those of the extras that it brings."""
    found: list[str] = []
    for need in PROJECT["optional-dependencies"][extra]:
        own = re.fullmatch(r"popmq\[(.+)\]", need)
        found += needs_of(own.group(1)) if own else [need]
    return found


@pytest.mark.parametrize(
    ("file", "extras"),
    [("server", ["server"]), ("envoy", ["server", "envoy"]), ("pipelines", ["pipelines"])],
)
def test_each_need_has_a_pin(file: str, extras: list[str]) -> None:
    lines = (ROOT / f"deploy/requirements/{file}.txt").read_text().split()
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+==[0-9][A-Za-z0-9.]*", line) for line in lines)
    needs = list(PROJECT["dependencies"])
    for extra in extras:
        needs += needs_of(extra)
    assert names(needs) <= names(lines)


def test_both_images_of_services_have_the_same_versions() -> None:
    server, envoy = (
        set((ROOT / f"deploy/requirements/{name}.txt").read_text().split())
        for name in ("server", "envoy")
    )
    assert server < envoy
