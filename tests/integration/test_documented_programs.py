"""The programs in README.md and docs/sdk.md, as they are written there, before a fresh server."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from harness.processes import Server, standalone

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "docs/sdk.md")
ENDPOINT = "127.0.0.1:8081"
WITHIN_S = 60.0


class Program(NamedTuple):
    page: str
    number: int
    text: str
    prints: list[str]

    def __str__(self) -> str:
        return f"{self.page} {self.number}"


def _programs() -> list[Program]:
    """Those that use the SDK, each with the block behind it: what it prints."""
    found = []
    for page in PAGES:
        text = (ROOT / page).read_text()
        blocks = re.findall(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", text, re.DOTALL)
        for number, (code, prints) in enumerate(blocks, 1):
            if "popmq_broker" not in code:  # of pytest: tests/integration/test_testing.py
                found.append(Program(page, number, code, prints.splitlines()))
    return found


PROGRAMS = _programs()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    (tmp_path / "server").mkdir()
    with standalone(tmp_path / "server") as running:
        yield running


def test_each_program_says_what_it_prints() -> None:
    assert len(PROGRAMS) >= 9
    assert [str(one) for one in PROGRAMS if not one.prints or ENDPOINT not in one.text] == []


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_it_prints_what_the_page_says(program: Program, server: Server, tmp_path: Path) -> None:
    """The first time, and ends when it is told, if it does not by itself."""
    file, output = tmp_path / "program.py", tmp_path / "output"
    file.write_text(program.text.replace(ENDPOINT, server.endpoint))
    with open(output, "wb") as out:
        running = subprocess.Popen([sys.executable, "-u", str(file)], stdout=out)
    try:
        deadline_s = time.monotonic() + WITHIN_S
        while len(output.read_text().splitlines()) < len(program.prints):
            assert running.poll() is None or running.returncode == 0
            assert time.monotonic() < deadline_s
            time.sleep(0.05)  # nothing tells of another process's output
        if "app.run()" in program.text and "app.stop()" not in program.text:
            running.send_signal(signal.SIGTERM)
            assert running.wait(WITHIN_S) == 0
        elif "run_receiver_task" not in program.text:
            assert running.wait(WITHIN_S) == 0
    finally:
        running.kill()
        running.wait()
    assert output.read_text().splitlines() == program.prints
