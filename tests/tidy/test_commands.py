"""`make help` is short, `make campaigns` has the rest, and documents name targets that exist."""

import re
import subprocess

import pytest
from tidy.sources import ROOT

HELP_MAX = 15
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^([a-z0-9-]+):(?!=)", MAKEFILE, re.MULTILINE))
MARKED = dict(re.findall(r"^([a-z0-9-]+):(?!=).* (##|#:|#>) \S", MAKEFILE, re.MULTILINE))
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*/README.md")]


def printed_by(*arguments: str) -> list[str]:
    done = subprocess.run(
        ["make", "-s", *arguments], cwd=ROOT, capture_output=True, check=True, timeout=60
    )
    return done.stdout.decode().splitlines()


def unknown_targets(text: str) -> list[str]:
    """Of `make TARGET` between backticks, and at the beginning of indented lines."""
    named = re.findall(r"(?:`|^ {4,})make (?:campaign NAME=)?([a-z][a-z0-9-]*)", text, re.MULTILINE)
    return [name for name in named if name not in TARGETS]


def test_help_is_short() -> None:
    lines = printed_by("help")
    assert 10 <= len(lines) <= HELP_MAX
    assert {line.split()[0] for line in lines} == {n for n, mark in MARKED.items() if mark == "##"}
    assert all(len(line) <= 100 for line in lines)


def test_campaigns_are_listed() -> None:
    lines = printed_by("campaigns")
    assert {line.split()[0] for line in lines} == {n for n, mark in MARKED.items() if mark == "#:"}
    assert len(lines) > 20


def test_every_target_says_what_it_does() -> None:
    assert TARGETS - set(MARKED) == {"help"}


@pytest.mark.parametrize("name", ["", "nothing", "fmt"])
def test_what_is_no_campaign_is_refused(name: str) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        printed_by("-n", "campaign", f"NAME={name}")


def test_a_campaign_gets_its_variables() -> None:
    assert printed_by("-n", "campaign", "NAME=sim", "SEED=7", "STEPS=9")[-1].endswith(" '7' 9")


def test_documents_name_targets_that_exist() -> None:
    found = {path.name: names for path in DOCUMENTS if (names := unknown_targets(path.read_text()))}
    assert found == {}
    assert unknown_targets("`make sam` and `make sim`, I make haste\n    make nothing\n") == [
        "sam",
        "nothing",
    ]
