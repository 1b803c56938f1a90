"""What the pages of docs/guarantees name exists: tests, programs, commands, other pages."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "guarantees"
LINES_MAX = 60
PAGES = sorted(FOLDER.glob("*.md"))
PROMISES = [page for page in PAGES if page.stem not in ("README", "not-promised")]


def by_name(page: Path) -> str:
    return page.stem


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_what_a_page_names_exists(page: Path) -> None:
    text = page.read_text()
    files = re.findall(r"`((?:tests|examples|sdk|services)/[\w./-]+)`", text)
    for name in files:
        assert (ROOT / name).exists(), f"{page.name}: {name}"
    for link in re.findall(r"\]\(([\w./-]+\.md)[)#]", text):
        assert (page.parent / link).exists(), f"{page.name}: {link}"
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for target in re.findall(r"`make ([\w-]+)", text):
        assert target in targets, f"{page.name}: make {target}"
    settings = (ROOT / "docs" / "configuration.md").read_text()
    for setting in re.findall(r"`(POPMQ_\w+)", text):
        assert f"`{setting}`" in settings, f"{page.name}: {setting}"
    named = [ROOT / name for name in files if name.endswith(".py") and name.startswith("tests")]
    code = "".join(path.read_text() for path in named)
    for test in re.findall(r"`(test_\w+)`", text):
        assert f"def {test}(" in code, f"{page.name}: {test} is in none of the files it names"


@pytest.mark.parametrize("page", PROMISES, ids=by_name)
def test_a_page_says_what_one_wants_to_know(page: Path) -> None:
    text = page.read_text()
    assert len(text.splitlines()) <= LINES_MAX
    parts = ["**The promise.**", "**It depends on", "**What can still happen to you", "**How it is"]
    parts.append("**Try it**: `examples/")
    places = [text.find(part) for part in parts]
    assert -1 not in places, page.name
    assert places == sorted(places), page.name


def test_the_index_has_every_page() -> None:
    index = (FOLDER / "README.md").read_text()
    linked = set(re.findall(r"\(([\w-]+\.md)\)", index))
    assert {page.name for page in PAGES} - {"README.md"} <= linked
