"""What Prometheus is told of containers, and of the audits."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.error import HTTPError

import pytest
from harness.processes import free_port
from prometheus_client.parser import text_string_to_metric_families

from popmq_cli.cluster import sources
from popmq_cli.cluster.sources import container, targets, together


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("popmq-proxy-2.popmq_back", "proxy-2"),
        ("my-proxy-popmq-proxy-12.my_back", "proxy-12"),
        ("popmq_proxy_3.popmq_back", "proxy-3"),
        ("somebody", "10.0.0.9"),
        ("", "10.0.0.9"),
    ],
)
def test_a_container_is_called_as_compose_calls_it(host: str, name: str) -> None:
    assert container("10.0.0.9", "proxy", host) == name


def test_targets_are_what_prometheus_reads() -> None:
    hosts = {"10.0.0.9": "p-proxy-1.p_back", "10.0.0.7": "p-proxy-2.p_back"}
    assert targets("proxy", 5557, hosts, hosts.__getitem__) == [
        {"targets": ["10.0.0.7:5557"], "labels": {"service": "proxy", "instance": "proxy-2:5557"}},
        {"targets": ["10.0.0.9:5557"], "labels": {"service": "proxy", "instance": "proxy-1:5557"}},
    ]


PAGE = '# HELP a_figure what it is\n# TYPE a_figure gauge\na_figure{broker="%s"} 1\n'


def test_a_figure_of_two_files_is_explained_once() -> None:
    page = together([PAGE % "a" + "b_figure 2\n", PAGE % "b"])
    assert page.count("# HELP") == 1
    (family, other) = text_string_to_metric_families(page)
    assert {sample.labels["broker"] for sample in family.samples} == {"a", "b"}
    assert other.name == "b_figure"
    assert together([]) == ""


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """Of the program."""
    found = free_port()
    command = [sys.executable, "-m", "popmq_cli.cluster.sources", "--host", "127.0.0.1"]
    program = Process(command, tmp_path, found)
    yield found
    assert program.ends() == 0


class Process:
    def __init__(self, command: list[str], folder: Path, port: int) -> None:
        words = [*command, "--port", str(port), "--figures", str(folder)]
        self.running = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
        while self.running.poll() is None:
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return
            time.sleep(0.05)  # nothing else tells that it listens

    def ends(self) -> int:
        self.running.terminate()
        _, errors = self.running.communicate(timeout=20)
        assert errors == ""
        return self.running.returncode


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        text: str = answer.read().decode()
    return text


def test_it_serves_both(port: int, tmp_path: Path) -> None:
    address = f"http://127.0.0.1:{port}"
    assert get(f"{address}/metrics") == ""
    (tmp_path / "broker-a.prom").write_text(PAGE % "a")
    (tmp_path / "broker-a.json").write_text("not for Prometheus")
    assert get(f"{address}/metrics") == PAGE % "a"
    (found,) = json.loads(get(f"{address}/targets?name=localhost&port=1"))
    assert found["targets"] == ["127.0.0.1:1"]
    assert json.loads(get(f"{address}/targets?name=nobody.invalid&port=1")) == []
    for wrong in ("/targets?name=x&port=y", "/targets", "/"):
        with pytest.raises(HTTPError):
            get(address + wrong)


def test_clients_that_say_nothing_take_no_thread_and_no_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hundreds of them; who asks is answered all the same."""
    monkeypatch.setattr(sources, "REQUEST_S_MAX", 0.3)
    found, threads = free_port(), threading.active_count()

    async def besieged() -> None:
        serving = asyncio.create_task(sources.serve(tmp_path, "127.0.0.1", found))
        await asyncio.sleep(0.1)
        opened = [await asyncio.open_connection("127.0.0.1", found) for _ in range(300)]
        assert threading.active_count() == threads
        async with asyncio.timeout(20):
            page = None
            while page is None:  # those that were there before are sent away first
                with suppress(OSError):
                    page = await asyncio.to_thread(get, f"http://127.0.0.1:{found}/metrics")
            ends = await asyncio.gather(*(reader.read() for reader, _ in opened))
        assert set(ends) == {b""}, "each was sent away"
        for _, writer in opened:
            writer.close()
        signal.raise_signal(signal.SIGTERM)
        await serving

    asyncio.run(besieged())


def test_a_port_that_is_taken_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        words = ["--host", "127.0.0.1", "--port", str(taken.getsockname()[1])]
        command = [
            sys.executable,
            "-m",
            "popmq_cli.cluster.sources",
            *words,
            "--figures",
            str(tmp_path),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("popmq_cli.cluster.sources: cannot listen on 127.0.0.1: ")
