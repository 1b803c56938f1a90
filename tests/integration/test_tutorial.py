"""docs/tutorial.md as it is written: its programs, its commands, what they print."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from harness.page_shell import Shell, Terminal, pattern
from harness.processes import free_port

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "tutorial.md"
PROGRAMS = ROOT / "examples" / "tutorial"
PORT = "8081"
CHECKOUT = "~/popmq"
NOT_RUN = "with Docker"


class Block(NamedTuple):
    language: str
    terminal: str
    """Its title: where it belongs to, if that is not the first terminal."""
    text: str


BLOCKS = [
    Block(*found)
    for found in re.findall(
        r'^```(\w+)(?: title="([^"]*)")?\n(.*?)^```$', PAGE.read_text(), re.M | re.S
    )
]


def program_name(block: Block) -> str:
    return block.text.partition("\n")[0].removeprefix("# ")


class Page:
    """Runs the blocks of the page, in order, before a server at another port."""

    def __init__(self, folder: Path, port: str) -> None:
        self.folder, self.port = folder, port
        self.shell = Shell(folder)
        self.shell.env["POPMQ_ENDPOINT"] = f"127.0.0.1:{port}"  # for commands that name none
        self.terminals: dict[str, Terminal] = {}
        self.printed = ""

    def follow(self, block: Block) -> None:
        text = block.text.replace(PORT, self.port).replace(CHECKOUT, str(ROOT))
        if block.language == "python":
            (self.shell.folder / program_name(block)).write_text(text)
        elif block.language == "text" and block.terminal:
            self.terminals[block.terminal].shows(text)
        elif block.language == "text":
            assert re.fullmatch(pattern(text), self.printed), f"{text}\nis not\n{self.printed}"
        elif block.terminal and block.terminal != NOT_RUN:
            text = text.replace("popmq standalone", f"popmq standalone --port {self.port}")
            output = self.folder / f"{block.terminal}.output"
            self.terminals[block.terminal] = Terminal(text, self.shell, output)
        elif not block.terminal:
            self.printed = self.shell.run(text)


@contextmanager
def page(folder: Path) -> Iterator[Page]:
    followed = Page(folder, str(free_port()))
    try:
        yield followed
    finally:
        ended = [terminal.interrupt() for terminal in reversed(followed.terminals.values())]
    assert ended == [0] * len(ended)


def test_the_page_and_the_programs_are_the_same() -> None:
    """Each begins with its name."""
    shown = {program_name(block): block.text for block in BLOCKS if block.language == "python"}
    assert shown == {path.name: path.read_text() for path in PROGRAMS.glob("*.py")}


def test_a_pattern_knows_what_differs() -> None:
    shown = pattern("…\nid … of orders\n…\nend\n")
    assert re.fullmatch(shown, "a\nb\nid 7 of orders\nc\nend\n")
    assert re.fullmatch(shown, "id 7 of orders\nend\n")
    assert not re.fullmatch(shown, "id 7 of others\nend\n")
    assert not re.fullmatch(shown, "id 7 of orders\nend\nmore\n")


@pytest.mark.timeout(900)
def test_following_the_page_one_gets_what_it_shows(tmp_path: Path) -> None:
    with page(tmp_path) as followed:
        for block in BLOCKS:
            followed.follow(block)
    assert set(followed.terminals) == {"server", "shipping", "points"}
