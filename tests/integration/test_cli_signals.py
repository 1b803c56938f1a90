"""SIGTERM to commands: once, and once more while they clean up behind themselves."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from harness.processes import POPMQ, Server, free_port, standalone

WITHIN_S = 60.0
COMMANDS = {
    "tail": ["tail", "watched"],
    "bench": ["bench", "--count", "10000000"],
    "tail --json": ["tail", "watched", "--json"],
}
"""Both have groups of their own, and bench a topic, that they take away when they end."""


@contextmanager
def begun(server: Server, command: list[str]) -> Iterator["subprocess.Popen[str]"]:
    """It has made its group."""
    server.cli("topic", "create", "watched")
    before = server.cli("group", "list")
    with subprocess.Popen(
        [POPMQ, *command, "--endpoint", server.endpoint],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        try:
            until(lambda: server.cli("group", "list") != before)
            yield running
        finally:
            running.kill()


def until(reached: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + WITHIN_S
    while not reached():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)  # nothing tells of another process


@pytest.mark.parametrize("name", COMMANDS)
def test_the_first_one_lets_it_clean_up(name: str, tmp_path: Path) -> None:
    with standalone(tmp_path) as server:
        with begun(server, COMMANDS[name]) as running:
            running.terminate()
            _, errors = running.communicate(timeout=WITHIN_S)
        assert running.returncode == 143
        assert _told(name, errors) == "terminated"
        assert server.cli("group", "list") == []


@pytest.mark.parametrize("name", COMMANDS)
def test_the_second_one_does_not_wait_for_that(name: str, tmp_path: Path) -> None:
    """The server answers nothing, so what is to be taken away cannot be."""
    with standalone(tmp_path) as server, begun(server, COMMANDS[name]) as running:
        process = server.processes["standalone"].running
        assert process is not None
        process.send_signal(signal.SIGSTOP)
        try:
            running.terminate()
            time.sleep(0.5)  # it has begun to clean up
            assert running.poll() is None
            running.terminate()
            _, errors = running.communicate(timeout=WITHIN_S)
        finally:
            process.send_signal(signal.SIGCONT)
        assert running.returncode == 143
        assert _told(name, errors) == (
            "ended by a second signal: what it made for itself is still there"
        )


def _told(name: str, errors: str) -> str:
    """The one line on stderr; gRPC's own lines begin with a letter and the date."""
    (line,) = [
        line for line in errors.splitlines() if not line.startswith(("I1", "E1", "I0", "E0"))
    ]
    if "--json" in name:
        told = json.loads(line)
        assert told["exitCode"] == 143
        return str(told["error"])
    return line.removeprefix("popmq: ")


SLOW = """
import asyncio, contextlib, os, signal, sys
from popmq_common.process.serve import run_until_stopped

@contextlib.asynccontextmanager
async def start():
    asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGTERM)
    yield
    print("stopping", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    print("stopped", flush=True)

run_until_stopped(start)
"""


def test_a_service_that_stops_says_so_when_it_is_told_again() -> None:
    """It finishes what is under way all the same."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", SLOW], text=True, **pipes) as service:  # type: ignore[call-overload]
        assert service.stdout.readline() == "stopping\n"
        service.send_signal(signal.SIGTERM)
        time.sleep(0.5)  # it has said so, or will not
        output, errors = service.communicate("\n", timeout=WITHIN_S)
    assert errors == "popmq: it is stopping already, and finishes what is under way\n"
    assert (output, service.returncode) == ("stopped\n", 0)


def test_standalone_is_told_twice(tmp_path: Path) -> None:
    command = [
        POPMQ,
        "standalone",
        "--port",
        str(free_port()),
        "--data-dir",
        str(tmp_path / "data"),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as it:
        assert it.stdout is not None
        while not it.stdout.readline().startswith("Try:"):
            assert it.poll() is None
        it.terminate()
        time.sleep(0.01)
        it.terminate()
        _, errors = it.communicate(timeout=WITHIN_S)
    assert it.returncode in (0, -signal.SIGTERM), "the second one may come when all is done"
    assert "Traceback" not in errors
