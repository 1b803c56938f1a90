"""A reader at a shell: runs what a page shows, and holds the output to what the page says."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

WITHIN_S = 100.0
PROGRAMS = str(Path(sys.executable).parent)
"""Where `popmq` lies, and what else the environment installs."""
_FREE = re.compile(r"\w*…|\d[\d:.T-]*Z|\d+| +")


def pattern(shown: str) -> str:
    """Of a regular expression: a line `…` is any lines or none, `…` in a line is any text."""
    return _pattern(shown, lambda line: re.escape(line).replace("…", ".*"))


def loose_pattern(shown: str) -> str:
    """The same, where times, numbers and the width of columns differ, too."""
    return _pattern(shown, _loosely)


def _pattern(shown: str, of_line: Callable[[str], str]) -> str:
    lines = shown.splitlines()
    return "".join("(?:.*\n)*?" if one == "…" else of_line(one) + " *\n" for one in lines)


def _loosely(line: str) -> str:
    found, began = "", 0
    for free in _FREE.finditer(line):
        found += re.escape(line[began : free.start()])
        found += {"…": ".*", " ": " +"}.get(free[0][-1], r"[\d:.T-]+Z?")
        began = free.end()
    return found + re.escape(line[began:])


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
        self.matches(pattern(shown))

    def matches(self, wanted: str) -> None:
        deadline_s = time.monotonic() + WITHIN_S
        while not (found := re.match(wanted, new := self.output.read_text()[self.looked_at :])):
            assert self.running.poll() is None, self.output.read_text()
            assert time.monotonic() < deadline_s, f"{wanted}\nis not in\n{new}"
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

    def run(self, script: str, typed: str = "") -> str:
        """What it prints. `typed`: the answer to what it asks."""
        done = subprocess.run(
            ["bash", "-ec", f"{script}\nenv -0 > '{self.state}'"],
            cwd=self.folder,
            env=self.env,
            input=typed,
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
