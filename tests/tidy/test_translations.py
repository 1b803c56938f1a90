"""A translated page keeps up with its original: its headings, programs, links and figures."""

import re
from pathlib import Path

import pytest
from tidy.pages import (
    CHINESE,
    DOCS,
    ORIGINALS,
    PAGES,
    ROOT,
    Block,
    Link,
    blocks,
    headings,
    links,
    name,
    prose,
)
from tidy.test_code_blocks import SHELL, commands
from translations import Translation, pages, state, translation

ALL = [translation(page) for page in pages()]
IN_DOCS = [one for one in ALL if one.page.is_relative_to(CHINESE)]
GUARANTEES = (
    *("README", "durable", "at-least-once", "acks", "order", "delays"),
    *("transactions", "retry", "offsets", "effects", "not-promised"),
)
CONCEPTS = (
    *(
        "pop",
        "retry",
        "offsets",
        "transactions",
        "retention",
        "failures",
        "store",
        "open-ends",
        "performance",
    ),
    *(f"guarantees/{page}" for page in GUARANTEES),
)
"""What a reader of Chinese finds whole, beside the front page, the tutorial and the glossary."""


def number(one: Translation) -> str:
    return name(one.page)


def test_no_translation_is_behind_its_original() -> None:
    """Failing: make translations shows what to translate; then make translations STAMP=1."""
    assert [name(one.page) for one in ALL if one.is_behind] == []


def test_a_changed_original_is_found(tmp_path: Path) -> None:
    original, page = tmp_path / "a.md", tmp_path / "zh.md"
    original.write_text("OK means it is on disk.\n")
    page.write_text(f"<!-- of a.md {state(original.read_bytes())} -->\n# OK\n")
    assert not translation(page).is_behind
    original.write_text("OK means that it is on disk.\n")
    assert translation(page).is_behind
    page.write_text(translation(page).stamped())
    assert not translation(page).is_behind
    assert page.read_text().endswith("-->\n# OK\n")


@pytest.mark.parametrize("line", ["# OK", "<!-- of b.md 0123456789ab -->", "<!-- of a.md -->"])
def test_a_page_without_an_original_is_refused(line: str, tmp_path: Path) -> None:
    page = tmp_path / "zh.md"
    page.write_text(f"{line}\n")
    with pytest.raises(ValueError, match="first line"):
        translation(page)


def test_what_a_newcomer_needs_is_translated() -> None:
    there = {str(one.original.relative_to(ROOT)) for one in ALL}
    needed = {f"docs/{page}.md" for page in ["README", "tutorial", "glossary", *CONCEPTS]}
    assert {"README.md", *needed} - there == set()


@pytest.mark.parametrize("one", IN_DOCS, ids=number)
def test_a_page_translates_the_one_of_its_name(one: Translation) -> None:
    assert one.original == DOCS / one.page.relative_to(CHINESE)
    assert f"[English]({links(one.page)[0].target})" in one.page.read_text()
    assert links(one.page)[0].leads_to == one.original


@pytest.mark.parametrize("one", IN_DOCS, ids=number)
def test_headings_are_the_same(one: Translation) -> None:
    """So that links to an original's heading find it in the translation."""
    assert levels(one.page) == levels(one.original)


def levels(page: Path) -> list[str]:
    return re.findall(r"^(#{1,6}) ", prose(page), re.M)


@pytest.mark.parametrize("one", ALL, ids=number)
def test_programs_and_commands_are_the_same(one: Translation) -> None:
    translated, original = (
        [code(block) for block in blocks(page) if is_code(block)]
        for page in (one.page, one.original)
    )
    assert translated == original


def is_code(block: Block) -> bool:
    """Not a drawing, nor an output with words for the reader."""
    return block.language != "text" and (block.language not in SHELL or any(commands(block)))


def code(block: Block) -> list[str]:
    """Without comments, which are translated."""
    lines = (re.sub(r"(^| +)# .*$", "", line).rstrip() for line in block.text.splitlines())
    return [block.language, *(line for line in lines if line)]


@pytest.mark.parametrize("one", IN_DOCS, ids=number)
def test_names_and_figures_are_kept(one: Translation) -> None:
    """Settings, commands, tests between backquotes; numbers."""
    for found in (spans, figures):
        assert found(one.original) - found(one.page) == set()


def spans(page: Path) -> set[str]:
    return {" ".join(found.split()) for found in re.findall(r"`([^`]+)`", prose(page))}


def figures(page: Path) -> set[str]:
    return set(re.findall(r"\d+(?:[.,]\d+)*", re.sub(r"\]\([^)]*\)", "]", prose(page))))


@pytest.mark.parametrize("one", ALL, ids=number)
def test_links_are_the_same_and_stay_in_chinese(one: Translation) -> None:
    """To the translation of a page if there is one."""
    switches = {one.original, one.page}
    left = [link for link in links(one.page) if link.leads_to not in switches or link.anchor]
    translated = {other.original for other in ALL}
    assert [str(link) for link in left if link.leads_to in translated] == []
    wanted = [link for link in links(one.original) if link.leads_to not in switches or link.anchor]
    assert sorted(map(destination, left)) == sorted(
        destination(link) for link in wanted if link.leads_to != CHINESE / "README.md"
    )


def destination(link: Link) -> str:
    """Where it leads, in the original language."""
    if not link.is_relative:
        return link.target
    originals = {one.page: one.original for one in ALL}
    original = originals.get(link.leads_to)
    if original is None or not link.anchor:
        return f"{name(original or link.leads_to)}#{link.anchor}"
    place = list(headings(link.leads_to)).index(link.anchor)
    return f"{name(original)}#{list(headings(original))[place]}"


def test_a_program_that_differs_is_found() -> None:
    page = DOCS / "tutorial.md"
    first = Block(page, "python", 'x = 1  # one\n"""A docstring."""\n', 1)
    assert code(first) == code(first._replace(text='x = 1  # 一\n"""A docstring."""\n'))
    assert code(first) != code(first._replace(text='x = 2  # one\n"""A docstring."""\n'))
    assert not is_code(first._replace(language="", text="expired   done\n"))
    assert is_code(first._replace(language="", text="popmq store check DIR\n"))


def test_a_name_or_figure_that_is_left_out_is_found(tmp_path: Path) -> None:
    page = tmp_path / "a.md"
    page.write_text("After 1,000 deliveries, `popmq\ndlq`, see [2](limits-3.md).\n")
    assert figures(page) == {"1,000", "2"}
    assert spans(page) == {"popmq dlq"}


def test_a_link_is_compared_by_where_it_leads() -> None:
    chinese, english = CHINESE / "retry.md", DOCS / "retry.md"
    assert destination(Link(chinese, "../sdk.md")) == destination(Link(english, "sdk.md"))
    assert destination(Link(chinese, "offsets.md#重置")) == "docs/offsets.md#reset"
    assert destination(Link(chinese, "offsets.md")) != destination(Link(english, "pop.md"))


def test_translated_pages_are_among_those_of_the_other_rules() -> None:
    """But for what is about originals alone."""
    assert {one.page for one in ALL} == set(PAGES) - set(ORIGINALS)
