"""A translated page says which text of its original it translates; one that is behind is found."""

import hashlib
import re

from tidy.sources import ROOT

OF = re.compile(r"<!-- of (\S+) ([0-9a-f]{12}) -->\n")


def state(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def behind() -> list[str]:
    """Translated pages whose original has changed since."""
    found = []
    for page in [*ROOT.glob("*.zh-CN.md"), *(ROOT / "docs").rglob("*.zh-CN.md")]:
        of = OF.match(page.read_text())
        assert of is not None, f"{page.name} begins with <!-- of ORIGINAL STATE -->"
        now = state((page.parent / of[1]).read_text())
        if now != of[2]:
            found.append(f"{page.name}: {of[1]} is {now} now")
    return found


def test_no_translation_is_behind_its_original() -> None:
    """Translate what has changed, then write the new state into the page's first line."""
    assert behind() == []


def test_a_changed_original_has_another_state() -> None:
    assert state("OK means it is on disk.") != state("OK means that it is on disk.")
