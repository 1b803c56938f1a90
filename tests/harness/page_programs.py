"""Programs of the SDK as pages show them, each with the block behind it: what it prints."""

import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from harness.processes import Server

ROOT = Path(__file__).resolve().parents[2]
ENDPOINT = "127.0.0.1:8081"
WITHIN_S = 60.0


class PageProgram(NamedTuple):
    page: str
    number: int
    """Among the page's Python blocks, from 1 on."""
    text: str
    prints: list[str]

    def __str__(self) -> str:
        return f"{self.page} {self.number}"


def programs_of(*pages: str) -> list[PageProgram]:
    """All Python blocks; whoever asks takes those that it is about."""
    found = []
    for page in pages:
        text = (ROOT / page).read_text()
        blocks = re.findall(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", text, re.DOTALL)
        found += [
            PageProgram(page, number, code, prints.splitlines())
            for number, (code, prints) in enumerate(blocks, 1)
        ]
    return found


def check_what_it_prints(
    program: PageProgram, server: Server, folder: Path, *, ends: bool = True
) -> None:
    """The first time, before a fresh server; it ends when it is told, if it does not by itself.
    One that does not end is stopped when it has printed what the page says."""
    file, output = folder / "program.py", folder / "output"
    file.write_text(program.text.replace(ENDPOINT, server.endpoint))
    with open(output, "wb") as out:
        running = subprocess.Popen([sys.executable, "-u", str(file)], stdout=out)
    try:
        deadline_s = time.monotonic() + WITHIN_S
        while len(output.read_text().splitlines()) < len(program.prints):
            assert running.poll() in (None, 0), output.read_text()
            assert time.monotonic() < deadline_s, output.read_text()
            time.sleep(0.05)  # nothing tells of another process's output
        if "app.run()" in program.text and "app.stop()" not in program.text:
            running.send_signal(signal.SIGTERM)
        if ends:
            assert running.wait(WITHIN_S) == 0
    finally:
        running.kill()
        running.wait()
    assert output.read_text().splitlines() == program.prints
