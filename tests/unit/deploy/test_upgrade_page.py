"""The pages upgrade a cluster as deploy/upgrade does: a container at a time, in its order."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "deploy/upgrade"
ORDER = "brokers first, then proxies, then nameservers"


def commands(page: str) -> list[str]:
    """Lines of its code blocks."""
    text = (ROOT / page).read_text()
    return [line.strip() for line in text.splitlines() if line.startswith("    ")]


def plain(file: Path) -> str:
    """Its words, without comment signs and emphasis."""
    return " ".join(re.sub(r"^# ?|\*\*", "", file.read_text(), flags=re.MULTILINE).lower().split())


@pytest.mark.parametrize("page", ["docs/deploy.md", "docs/operations.md"])
def test_a_page_names_the_script_and_replaces_no_service_at_once(page: str) -> None:
    """`up SERVICE` makes all containers of a service anew at the same time: an outage."""
    assert any(line.startswith("deploy/upgrade") for line in commands(page))
    replacing = [line for line in commands(page) if re.search(r"\bup\b.*--no-deps|^for ", line)]
    assert replacing == []


@pytest.mark.parametrize("file", ["docs/deploy.md", "docs/operations.md", "deploy/upgrade"])
def test_one_order_everywhere(file: str) -> None:
    assert ORDER in plain(ROOT / file)


def test_it_is_the_order_of_the_script() -> None:
    (roles,) = re.findall(r"^ORDER=\((.*)\)$", SCRIPT.read_text(), re.MULTILINE)
    mentioned = re.findall(r"broker|prox|nameserver", ORDER)
    assert [role[: len(word)] for role, word in zip(roles.split(), mentioned, strict=True)] == (
        mentioned
    )


def test_the_page_of_the_tests_names_it() -> None:
    assert "deploy/upgrade" in (ROOT / "docs/testing.md").read_text()
