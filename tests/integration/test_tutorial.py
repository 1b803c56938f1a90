"""docs/tutorial.md as it is written: its programs, its commands, what they print."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from harness.processes import free_port

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "tutorial.md"
PROGRAMS = ROOT / "examples" / "tutorial"
PORT = "8081"
CHECKOUT = "~/popmq"
NOT_RUN = "with Docker"
WITHIN_S = 100.0


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


def pattern(shown: str) -> str:
    """Of a regular expression: a line `…` is any lines or none, `…` in a line is any text."""
    lines = [
        "(?:.*\n)*?" if line == "…" else re.escape(line).replace("…", ".*") + " *\n"
        for line in shown.splitlines()
    ]
    return "".join(lines)


class Terminal:
    """A command that runs beside the page, and what it has printed that was not looked at yet."""

    def __init__(self, script: str, shell: "Shell", output: Path) -> None:
        self.output, self.looked_at = output, 0
        with open(output, "wb") as out:
            self.running = subprocess.Popen(
                ["bash", "-ec", script],
                cwd=shell.folder,
                env=shell.env,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def shows(self, shown: str) -> None:
        deadline_s = time.monotonic() + WITHIN_S
        while not (
            found := re.match(pattern(shown), new := self.output.read_text()[self.looked_at :])
        ):
            assert self.running.poll() is None, self.output.read_text()
            assert time.monotonic() < deadline_s, f"{shown}\nis not in\n{new}"
            time.sleep(0.05)  # nothing tells of another process's output
        self.looked_at += found.end()

    def interrupt(self) -> int:
        """Ctrl-C reaches all that runs in a terminal."""
        if self.running.poll() is None:
            os.killpg(self.running.pid, signal.SIGINT)
        return self.running.wait(WITHIN_S)


class Shell:
    """The first terminal: what one block exports or where it goes holds for the next ones."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.state = folder, folder / "state"
        self.env = {name: value for name, value in os.environ.items() if "POPMQ" not in name}

    def run(self, script: str) -> str:
        done = subprocess.run(
            ["bash", "-ec", f"{script}\nenv -0 > '{self.state}'"],
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
        pairs = self.state.read_text().split("\0")
        self.env = dict(pair.split("=", 1) for pair in pairs if pair)
        self.folder = Path(self.env["PWD"])
        return done.stdout


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
