"""README.md followed from `git clone` to the first message of the reader's own: how long it takes.

    python -m first_message

The commands and the program are those of the page, in a new clone of this checkout's last commit,
in a new environment. Only the port is another one, so that a server of yours may run meanwhile.
"""

import re
import shlex
import tempfile
import time
from pathlib import Path

from harness.page_shell import Shell, Terminal
from harness.processes import free_port

ROOT = Path(__file__).resolve().parents[2]
PORT = "8081"
LONGEST_S = 300.0
"""A reader with a slow network may have this much patience; what is slower is broken."""


class Steps:
    """Prints how long each of them took."""

    def __init__(self) -> None:
        self.began_s = self.last_s = time.monotonic()

    def done(self, what: str) -> None:
        now_s = time.monotonic()
        print(f"{now_s - self.last_s:7.1f} s  {what}", flush=True)
        self.last_s = now_s

    @property
    def total_s(self) -> float:
        return self.last_s - self.began_s


class Page:
    """README.md's commands, its first program, and what that prints."""

    def __init__(self, text: str, port: str) -> None:
        text = text.replace(f"127.0.0.1:{PORT}", f"127.0.0.1:{port}")
        section = text[text.index("## Run it") : text.index("## What makes it different")]
        (found,) = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", section, re.DOTALL)
        self.program, self.prints = found
        lines = re.findall(r"^    (\S.*)$", section, re.M)
        self.commands = [line.partition("  #")[0].strip() for line in lines]
        self.commands += re.findall(r"`(\S+/bin/python \S+)`", section)

    def command(self, holding: str) -> str:
        found: list[str] = [one for one in self.commands if holding in one]
        (command,) = found
        return command


def follow(folder: Path, steps: Steps) -> None:
    port = str(free_port())
    shell = Shell(folder)
    shell.env.pop("VIRTUAL_ENV", None)
    shell.run(f"git clone --quiet {shlex.quote(str(ROOT))} popmq && cd popmq")
    steps.done("git clone")
    page = Page((shell.folder / "README.md").read_text(), port)

    quickstart = page.command("make quickstart")
    printed = shell.run(quickstart)
    assert re.search("(?i)acked", printed), printed
    steps.done(quickstart)

    standalone = page.command("popmq standalone")
    terminals = [Terminal(f"{standalone} --port {port}", shell, folder / "server")]
    try:
        terminals[0].matches(f"(?s:.*127.0.0.1:{port})")
        steps.done(standalone)
        run = page.command("bin/python")
        (shell.folder / run.split()[-1]).write_text(page.program)
        terminals.append(Terminal(run, shell, folder / "program"))
        terminals[1].shows(page.prints)
        steps.done(f"{run}: {page.prints.strip()}")
    finally:
        for terminal in reversed(terminals):
            terminal.interrupt()


def main() -> None:
    steps = Steps()
    with tempfile.TemporaryDirectory(prefix="popmq-first-message-") as folder:
        follow(Path(folder), steps)
    print(f"{steps.total_s:7.1f} s  from git clone to the first message")
    assert steps.total_s < LONGEST_S


if __name__ == "__main__":
    main()
