"""A client that does one thing after the other: its driver gets a JSON line per command, and
answers with one."""

import json
import os
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

ANSWER_S = 45
ZONE = "Asia/Kathmandu"
"""Where clients are: some sign local time as if it were UTC, this one is 5:45 h from it."""
STOP_S = 10


class ClientRefusal(Exception):
    """What the client says: the type of its error, and the text."""


class Session:
    """What each command is, the drivers say: signed.py, Signed.java, signed.go, signed.mjs, and
    main.rs of rust."""

    def __init__(self, process: "subprocess.Popen[str]", log: Path) -> None:
        self._process = process
        self._log = log

    def do(self, what: str, name: str, **more: Any) -> Any:
        """Raises `ClientRefusal`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        hung = threading.Timer(ANSWER_S, self._process.kill)
        hung.start()
        try:
            asked = {"do": what, "name": name, **more}
            self._process.stdin.write(f"{json.dumps(asked)}\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        finally:
            hung.cancel()
        assert line, f"{what} {name}: the client ended, or hung\n{self._log.read_text()[-4000:]}"
        answer = json.loads(line)
        if "error" in answer:
            raise ClientRefusal(answer["error"])
        return answer["value"]


@contextmanager
def session(
    command: Sequence[str], log: Path, env: Mapping[str, str] | None = None
) -> Iterator[Session]:
    """`log`: where the client's complaints go."""
    with open(log, "wb") as complaints:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            text=True,
            env={**(os.environ if env is None else env), "TZ": ZONE},
        )
    with process:
        try:
            yield Session(process, log)
        finally:
            assert process.stdin is not None
            with suppress(BrokenPipeError):
                process.stdin.close()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
