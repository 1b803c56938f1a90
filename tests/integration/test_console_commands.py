"""popmq console, popmq demo, and the console of popmq standalone, as processes."""

import json
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from harness.processes import POPMQ, Server, free_port, standalone

WITHIN_S = 60


@contextmanager
def started(*words: str, folder: Path | None = None) -> Iterator[tuple[Any, dict[str, Any]]]:
    """The process, and what it says when it serves."""
    command = [POPMQ, *words, "--json"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, cwd=folder) as it:
        assert it.stdout is not None
        line = it.stdout.readline()
        if not line:
            raise AssertionError(it.communicate()[1])
        try:
            yield it, json.loads(line)
        finally:
            if it.poll() is None:
                it.send_signal(signal.SIGINT)
                assert it.wait(WITHIN_S) == 0


def page(url: str) -> str:
    with urllib.request.urlopen(url, timeout=WITHIN_S) as answer:
        return str(answer.read().decode())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with standalone(tmp_path_factory.mktemp("console")) as running:
        yield running


def test_a_console_before_a_server(server: Server) -> None:
    words = ("console", "--endpoint", server.endpoint, "--port", "0")
    with started(*words, "--path-prefix", "/queue") as (_, told):
        assert told["url"].endswith("/queue/")
        assert "Overview" in page(told["url"])
        assert page(f"{told['url']}healthz") == "ok\n"
        assert "--endpoint" in page(f"{told['url']}cluster")


def test_a_prefix_that_is_none_is_told(server: Server) -> None:
    command = [POPMQ, "console", "--endpoint", server.endpoint, "--path-prefix", "queue"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert done.returncode == 2
    assert "the path prefix 'queue' cannot be used" in done.stderr


def test_a_port_that_is_taken_is_told(server: Server) -> None:
    taken = server.endpoint.rpartition(":")[2]
    command = [POPMQ, "console", "--endpoint", server.endpoint, "--port", taken]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert done.returncode == 1
    assert "cannot start" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_standalone_with_its_console(tmp_path: Path) -> None:
    port = free_port()
    words = ("standalone", "--port", "0", "--data-dir", str(tmp_path / "data"))
    with started(*words, "--console-port", str(port)) as (_, told):
        assert told["console"] == f"http://127.0.0.1:{port}/"
        assert "Overview" in page(told["console"])
        with pytest.raises(urllib.error.HTTPError, match="421"):
            _rebound(port)


def _rebound(port: int) -> None:
    """Another name that points here."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/", headers={"Host": "evil.example"})
    urllib.request.urlopen(request, timeout=WITHIN_S)


def test_a_standalone_without_it(tmp_path: Path) -> None:
    words = ("standalone", "--port", "0", "--data-dir", str(tmp_path / "data"))
    with started(*words, "--no-console") as (_, told):
        assert told["console"] is None


def test_a_second_standalone_does_without_the_default_port(tmp_path: Path) -> None:
    """And says so."""
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind(("127.0.0.1", 8082))
            taken.listen()
        except OSError:  # somebody has it: as good
            pass
        words = ("standalone", "--port", "0", "--data-dir", str(tmp_path / "data"))
        with started(*words) as (_, told):
            assert told["console"] is None


def test_the_demo_shows_what_it_promises() -> None:
    with started("demo", "--console-port", "0") as (it, told):
        assert "Overview" in page(told["console"])
        assert "orders" in page(f"{told['console']}topics")
        assert "reports" in page(f"{told['console']}groups")
        it.send_signal(signal.SIGINT)
        _, errors = it.communicate(timeout=WITHIN_S)
        assert (it.returncode, errors) == (0, "")
