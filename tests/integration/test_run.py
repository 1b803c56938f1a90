"""`popmq run`: one process, several, one that starts again; without click too."""

import asyncio
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from harness.certificates import self_signed
from harness.processes import Server, standalone
from integration.served import serving

from popmq.sync import SyncClient

WITHIN_S = 60.0
HANDLERS = """
import os, sys
from popmq import App

app = App("127.0.0.1:1")
app.group("billing", start="first")

@app.handler("orders", "billing")
def bill(body: bytes) -> None:
    if body == b"crash":
        os._exit(7)
    print("billed", body.decode(), "in", os.getpid(), flush=True)
"""
ENDLESS = """
import asyncio
from popmq import App

app = App("127.0.0.1:1")
app.group("billing", start="first")

@app.handler("orders", "billing")
async def bill(body: bytes) -> None:
    print("billing", body.decode(), flush=True)
    await asyncio.Event().wait()
"""
MAIN = """
import asyncio

async def main() -> None:
    print("main", flush=True)
    await app.run()
    print("after", flush=True)

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with standalone(tmp_path_factory.mktemp("run")) as running:
        yield running


@pytest.fixture
def topic(server: Server) -> Iterator[str]:
    """Of this test alone."""
    with SyncClient(server.endpoint) as client:
        yield "orders"
        names = [topic.name for topic in client.admin.list_topics()]
        for group in client.admin.list_groups():
            client.admin.delete_group(group.name)
        for name in names:
            client.admin.delete_topic(name)


class Run:
    """`popmq run` as a process whose output is read."""

    def __init__(self, folder: Path, *arguments: str, without_click: bool = False) -> None:
        self.file = folder / "output"
        start = "import sys; "
        if without_click:
            start += "import importlib.util as u; find = u.find_spec; "
            start += "u.find_spec = lambda name, *rest: None if name == 'click' else find(name); "
        start += "from popmq_cli.entry import main; main()"
        with open(self.file, "wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-c", start, "run", *arguments],
                stdout=out,
                stderr=out,
                cwd=folder,
            )

    @property
    def text(self) -> str:
        return self.file.read_text()

    def until(self, reached: Callable[[], object]) -> None:
        deadline_s = time.monotonic() + WITHIN_S
        while not reached():
            assert self.process.poll() is None, self.text
            assert time.monotonic() < deadline_s, self.text
            time.sleep(0.05)  # nothing tells of another process's output

    def workers(self) -> set[int]:
        return {int(pid) for pid in re.findall(r"\[(\d+)\] popmq.app.lifecycle: ready", self.text)}

    def ends(self, how: signal.Signals | None = signal.SIGTERM) -> int:
        if how is not None:
            self.process.send_signal(how)
        try:
            return self.process.wait(WITHIN_S)
        finally:
            self.process.kill()


def send(server: Server, *bodies: str) -> None:
    with SyncClient(server.endpoint) as client:
        for body in bodies:
            client.send("orders", body.encode())


@pytest.mark.usefixtures("topic")
@pytest.mark.parametrize("without_click", [False, True])
@pytest.mark.parametrize("target", ["shop:app", "shop", "shop.py"])
def test_it_serves_until_it_is_told(
    target: str, without_click: bool, server: Server, tmp_path: Path
) -> None:
    (tmp_path / "shop.py").write_text(HANDLERS)
    arguments = [target, "--endpoint", server.endpoint]
    run = Run(tmp_path, *arguments, without_click=without_click)
    run.until(lambda: "ready: 1 handler at" in run.text)
    send(server, "1")
    run.until(lambda: "billed 1" in run.text)
    assert run.ends() == 0, run.text


@pytest.mark.usefixtures("topic")
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_file_that_runs_its_app_itself_is_run_once(
    how: signal.Signals, server: Server, tmp_path: Path
) -> None:
    (tmp_path / "shop.py").write_text(HANDLERS + MAIN)
    run = Run(tmp_path, "shop:app", "--endpoint", server.endpoint)
    run.until(lambda: "ready: 1 handler at" in run.text)
    send(server, "1")
    run.until(lambda: "billed 1" in run.text)
    assert run.ends(how) == 0, run.text
    assert [run.text.count(word) for word in ("ready:", "main", "after")] == [1, 1, 1]


@pytest.mark.usefixtures("topic")
def test_a_second_signal_does_not_wait_for_handlers(server: Server, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(ENDLESS)
    run = Run(tmp_path, "shop:app", "--endpoint", server.endpoint)
    run.until(lambda: "ready: 1 handler at" in run.text)
    send(server, "1")
    run.until(lambda: "billing 1" in run.text)
    run.process.send_signal(signal.SIGTERM)
    run.until(lambda: "SIGTERM: stopping" in run.text)
    assert run.ends() == 143, run.text
    assert "popmq: ended by a second signal, before its handlers did\n" in run.text
    assert "Traceback" not in run.text
    with SyncClient(server.endpoint) as client, client.consumer("orders", "billing") as consumer:
        assert consumer.receive(wait_s=5.0), "what it worked on is given back"


@pytest.mark.usefixtures("topic")
def test_several_workers_and_one_that_dies(server: Server, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(HANDLERS)
    run = Run(tmp_path, "shop:app", "--endpoint", server.endpoint, "--workers", "2")
    run.until(lambda: len(run.workers()) == 2)
    first = run.workers()
    send(server, "crash")
    run.until(lambda: len(run.workers()) == 3)
    assert "a worker ended with 7" in run.text
    with SyncClient(server.endpoint) as client:
        client.admin.reset_group("billing", "orders", "last")
    send(server, *map(str, range(20)))
    run.until(lambda: run.text.count("billed") >= 20)
    assert run.ends() == 0, run.text
    assert "a worker ended with" not in run.text.partition("ended with 7")[2]
    for pid in first | run.workers():
        assert not _is_alive(pid)


@pytest.mark.usefixtures("topic")
def test_workers_end_with_a_parent_that_is_killed(server: Server, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(HANDLERS)
    run = Run(tmp_path, "shop:app", "--endpoint", server.endpoint, "--workers", "2")
    run.until(lambda: len(run.workers()) == 2)
    run.ends(signal.SIGKILL)
    deadline_s = time.monotonic() + WITHIN_S
    while any(map(_is_alive, run.workers())):
        assert time.monotonic() < deadline_s
        time.sleep(0.05)  # they are nobody's children


@pytest.mark.usefixtures("topic")
def test_a_changed_file_is_served(server: Server, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(HANDLERS)
    run = Run(tmp_path, "shop:app", "--endpoint", server.endpoint, "--reload")
    run.until(lambda: "ready: 1 handler at" in run.text)
    (tmp_path / "shop.py").write_text("this is no Python\n")
    run.until(lambda: "SyntaxError" in run.text)
    (tmp_path / "shop.py").write_text(HANDLERS.replace("billed", "charged"))
    run.until(lambda: run.text.count("ready: 1 handler at") == 2)
    send(server, "1")
    run.until(lambda: "charged 1" in run.text)
    assert run.ends() == 0, run.text


@pytest.mark.parametrize("without_click", [False, True])
@pytest.mark.parametrize("workers", ["1", "2"])
async def test_with_tls(tmp_path: Path, workers: str, without_click: bool) -> None:
    """The app says where, and the command that it is TLS; each worker is told too."""
    certificate, key = self_signed(tmp_path, "localhost")
    async with serving(tmp_path, tls_cert=certificate, tls_key=key) as endpoint:
        port = endpoint.rpartition(":")[2]
        (tmp_path / "shop.py").write_text(HANDLERS.replace("127.0.0.1:1", f"localhost:{port}"))
        arguments = ["shop:app", "--tls", "--tls-ca", str(certificate), "--workers", workers]
        run = Run(tmp_path, *arguments, without_click=without_click)
        await asyncio.to_thread(
            run.until, lambda: run.text.count("ready: 1 handler at") == int(workers)
        )
        assert await asyncio.to_thread(run.ends) == 0, run.text


@pytest.mark.parametrize("without_click", [False, True])
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--endpoint", "ftp://localhost"], "is neither http:// nor https://"),
        (["--endpoint", "http://localhost", "--tls"], "http:// is plaintext"),
        (["--tls-ca", "nowhere.pem"], "nowhere.pem cannot be read"),
        (["--log-level", "foo"], "foo"),
        (["--workers", "0"], "0"),
    ],
)
def test_what_cannot_be_is_told_in_words(
    tmp_path: Path, arguments: list[str], words: str, without_click: bool
) -> None:
    (tmp_path / "shop.py").write_text(HANDLERS)
    run = Run(tmp_path, "shop:app", *arguments, without_click=without_click)
    assert run.ends(None) == 2, run.text
    assert words in run.text
    assert "Traceback" not in run.text


def test_what_does_not_fit_the_app_is_told_in_words(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(HANDLERS.replace('"127.0.0.1:1"', '"http://localhost"'))
    run = Run(tmp_path, "shop:app", "--tls")
    assert run.ends(None) == 1, run.text
    assert run.text.startswith("popmq: 'http://localhost' is no endpoint: http:// is plaintext")


def test_help_without_click_says_the_same(tmp_path: Path) -> None:
    run = Run(tmp_path, "--help", without_click=True)
    assert run.ends(None) == 0
    told = " ".join(run.text.split())
    assert "[env var: POPMQ_ENDPOINT; default: as the app says]" in told
    assert "[env var: POPMQ_TLS_CA]" in told


def test_workers_with_nothing_to_run_are_not_started_again(tmp_path: Path) -> None:
    run = Run(tmp_path, "nowhere:app", "--workers", "2")
    assert run.ends(None) == 2, run.text
    assert "no module 'nowhere'" in run.text


def test_other_commands_need_the_server(tmp_path: Path) -> None:
    run = Run(tmp_path, without_click=True)
    assert run.ends(None) == 2
    start = "import importlib.util as u; u.find_spec = lambda *_: None; "
    start += "from popmq_cli.entry import main; main()"
    command = [sys.executable, "-c", start, "topic", "list"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "topic needs the server extra: pip install 'popmq[server]'" in done.stderr


def _is_alive(pid: int) -> bool:
    """And not only waiting for its end to be heard."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"
