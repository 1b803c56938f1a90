"""The pages for people, as text: their headings, links and code blocks."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
CHINESE = DOCS / "zh"
"""Translations of pages of docs/, under their names."""
_OF_THE_REPOSITORY = ("README", "README.zh-CN", "ARCHITECTURE", "CONTRIBUTING", "SECURITY")
PAGES = [
    *(ROOT / f"{name}.md" for name in _OF_THE_REPOSITORY),
    *sorted(DOCS.rglob("*.md")),
]
ORIGINALS = [
    page for page in PAGES if page != ROOT / "README.zh-CN.md" and CHINESE not in page.parents
]
"""Without translations, whose programs and commands are the originals'."""
_FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.M | re.S)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]*)\)")


class Link(NamedTuple):
    page: Path
    """Where it stands."""
    target: str
    """As it is written."""

    @property
    def is_relative(self) -> bool:
        return re.match(r"[a-z]+:", self.target) is None

    @property
    def leads_to(self) -> Path:
        path = self.target.partition("#")[0]
        return (self.page.parent / path).resolve() if path else self.page

    @property
    def anchor(self) -> str:
        return self.target.partition("#")[2]

    def __str__(self) -> str:
        return f"{name(self.page)}: {self.target}"


class Block(NamedTuple):
    page: Path
    language: str
    """The word behind the fence; "" for an indented block."""
    text: str
    line: int

    def __str__(self) -> str:
        return f"{name(self.page)}:{self.line}"


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@cache
def prose(page: Path) -> str:
    """Without fenced blocks, whose lines stay as empty ones."""
    return _FENCE.sub(lambda found: "\n" * found[0].count("\n"), page.read_text())


@cache
def links(page: Path) -> list[Link]:
    text = re.sub(r"`[^`\n]*`", "", prose(page))
    return [Link(page, target) for target in _LINK.findall(text)]


@cache
def headings(page: Path) -> dict[str, str]:
    """Anchor → heading, as GitHub makes anchors."""
    found: dict[str, str] = {}
    for heading in re.findall(r"^#{1,6} +(.*?) *$", prose(page), re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        slug = first = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        count = 0
        while slug in found:
            count += 1
            slug = f"{first}-{count}"
        found[slug] = plain
    return found


def blocks(page: Path) -> Iterator[Block]:
    """Fenced ones, and those that are indented by four spaces."""
    text = page.read_text()
    for found in _FENCE.finditer(text):
        language = found[1].split(" ")[0]
        yield Block(page, language, found[2], text.count("\n", 0, found.start()) + 1)
    lines = [*prose(page).splitlines(), ""]
    began = None
    for number, line in enumerate(lines):
        inside = line.startswith("    ") and (began is not None or lines[number - 1] == "")
        if inside and began is None:
            began = number
        elif not inside and began is not None:
            shown = "\n".join(one[4:] for one in lines[began:number])
            yield Block(page, "", shown + "\n", began + 1)
            began = None
