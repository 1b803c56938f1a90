"""The recipes for web frameworks, run as a user would: requests come in, handlers do the work."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from harness.processes import POPMQ, Server, standalone

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PATHS = os.pathsep.join([str(EXAMPLES), str(EXAMPLES / "django_shop")])
WITHIN_S = 90.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    (tmp_path / "server").mkdir()
    with standalone(tmp_path / "server") as running:
        yield running


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        found: int = listening.getsockname()[1]
        return found


@contextmanager
def process(output: Path, server: Server, *command: object) -> Iterator[None]:
    """Ended in order afterwards."""
    env = {**os.environ, "POPMQ_ENDPOINT": server.endpoint, "PYTHONPATH": PATHS}
    with open(output, "wb") as out:
        running = subprocess.Popen(
            [str(one) for one in command], env=env, stdout=out, stderr=out, cwd=output.parent
        )
    try:
        yield
        running.send_signal(signal.SIGTERM)
        assert running.wait(WITHIN_S) in (0, -signal.SIGTERM), output.read_text()
    finally:
        running.kill()
        print(output.read_text())


def ask(method: str, url: str) -> Any:
    request = urllib.request.Request(url, method=method)
    with urllib.request.urlopen(request, timeout=WITHIN_S) as answer:
        return json.load(answer)


def until(reached: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + WITHIN_S
    while True:
        try:
            if reached():
                return
        except OSError:  # it does not listen yet
            pass
        assert time.monotonic() < deadline_s
        time.sleep(0.1)  # nothing tells of another process


@pytest.mark.timeout(300)
def test_fastapi(server: Server, port: int, tmp_path: Path) -> None:
    output = tmp_path / "output"
    command = [sys.executable, "-m", "uvicorn", "fastapi_app:api", "--port", port]
    with process(output, server, *command):
        until(lambda: ask("POST", f"http://127.0.0.1:{port}/orders/7")["message_id"])
        until(lambda: "order 7 is billed" in output.read_text())
    assert "Application shutdown complete" in output.read_text()


@pytest.mark.timeout(300)
def test_django(server: Server, port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE", str(tmp_path / "orders.sqlite3"))
    project = EXAMPLES / "django_shop"
    manage = [sys.executable, str(project / "manage.py")]
    migrate = [*manage, "migrate", "--run-syncdb"]
    subprocess.run(migrate, check=True, capture_output=True, timeout=WITHIN_S)
    web = [*manage, "runserver", "--noreload", f"127.0.0.1:{port}"]
    url = f"http://127.0.0.1:{port}/orders/7"
    with (
        process(tmp_path / "web", server, *web),
        process(tmp_path / "handlers", server, POPMQ, "run", "shop.handlers"),
    ):
        until(lambda: ask("POST", url) == {})
        until(lambda: ask("GET", url) == {"billed": True})
