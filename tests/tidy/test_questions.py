"""A newcomer's question is answered two links from README.md, and every link leads somewhere."""

from pathlib import Path

import pytest
from tidy.pages import CHINESE, DOCS, PAGES, ROOT, Link, headings, links, name

START = ROOT / "README.md"
LINKS_MAX = 2
QUESTIONS = {
    "How do I secure it?": ("SECURITY.md", "What to expect today"),
    "How do I back it up?": ("docs/operations.md", "Backup and restore"),
    "How do I add a broker?": ("docs/deploy.md", "Another broker"),
    "How far is a group behind?": ("docs/operations.md", "GroupFallsBehind"),
    "How do I replay messages?": ("docs/offsets.md", "Reset"),
    "What when a disk fails?": ("docs/retention.md", "A disk that fails"),
    "How do I upgrade?": ("docs/operations.md", "Upgrade"),
    "How large may a message be?": ("docs/limits.md", "A message"),
    "Do messages come in order?": ("docs/guarantees/order.md", "In order within a message group"),
    "Is it exactly once?": ("docs/idempotence.md", "Each message takes effect once"),
}


def reached(steps: int) -> set[str]:
    """Pages so many links from README.md, or fewer."""
    found = {START}
    for _ in range(steps):
        found |= {
            link.leads_to
            for page in found
            for link in links(page)
            if link.is_relative and link.leads_to.suffix == ".md" and link.leads_to.exists()
        }
    return {name(page) for page in found}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_is_answered_within_two_links(question: str) -> None:
    page, heading = QUESTIONS[question]
    assert heading in headings(ROOT / page).values()
    assert page in reached(LINKS_MAX)


def test_what_is_far_away_is_not_reached() -> None:
    assert reached(0) == {"README.md"}
    assert "docs/decisions/0010-taskiq-door.md" not in reached(1)


def test_the_front_page_has_every_page_once() -> None:
    front = DOCS / "README.md"
    rows = [line for line in front.read_text().splitlines() if line.startswith("| ")]
    listed = [
        target
        for row in rows
        for target in (Link(front, text) for text in _targets(row.split(" | ")[0]))
        if not target.anchor
    ]
    pages = set(DOCS.rglob("*.md")) - set(CHINESE.rglob("*.md"))
    missing = pages - {link.leads_to for link in listed} - {front}
    assert [name(page) for page in sorted(missing)] == []
    twice = [str(link) for link in listed if listed.count(link) > 1]
    assert twice == []


def _targets(cell: str) -> list[str]:
    return [part.partition(")")[0] for part in cell.split("](")[1:]]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_leads_somewhere(page: Path) -> None:
    assert [str(link) for link in links(page) if link.is_relative and not leads(link)] == []


def leads(link: Link) -> bool:
    if not link.leads_to.exists():
        return False
    if not link.anchor or link.leads_to.suffix != ".md":
        return not link.anchor
    return link.anchor in headings(link.leads_to)


def test_a_link_that_leads_nowhere_is_found() -> None:
    assert not leads(Link(START, "docs/nothing.md"))
    assert not leads(Link(START, "docs/limits.md#nothing"))
    assert leads(Link(START, "docs/limits.md#a-message"))
    assert leads(Link(START, "#run-it"))
