"""popmq cluster status and popmq top, against servers that run."""

import json
import os
import pty
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness.processes import POPMQ, Server, cluster, free_port
from integration.served import popmq

from popmq.testing import PopmqBroker

SOON_S = 60.0


@pytest.fixture(scope="module")
def server() -> Iterator[PopmqBroker]:
    with PopmqBroker(disk_clean_percent=100) as broker:
        yield broker


def test_one_process_is_a_cluster_too(server: PopmqBroker) -> None:
    server.send("orders", "1")
    server.receive("orders", "billing", invisible_s=60)
    at = ("--endpoint", server.endpoint, "--over", "0.1")
    told = json.loads(popmq("cluster", "status", "--json", *at).stdout)
    (group,) = told["groups"]
    assert (group["group"], group["topic"], group["lag"]) == ("billing", "orders", 1)
    assert [remark["severity"] for remark in told["remarks"]] == ["note"]  # flush=async
    output = popmq("cluster", "status", *at).output
    for expected in ("1 broker, 1 proxy;", "IN FLIGHT", "answers before all is on disk"):
        assert expected in output


def test_settings_in_force_are_shown_with_what_set_them(server: PopmqBroker) -> None:
    at = ("--endpoint", server.endpoint)
    told = json.loads(popmq("cluster", "settings", "--json", *at).stdout)
    found = {one["name"]: one for one in told["settings"]}
    assert found["POPMQ_BROKER_DISK_CLEAN_PERCENT"]["at"][0]["source"] == "program"
    assert found["POPMQ_BROKER_DISK_CLEAN_PERCENT"]["at"][0]["value"] == "100"
    assert found["POPMQ_PROXY_FRONT"]["at"][0]["source"] == "default"
    output = popmq("cluster", "settings", "broker-a", "--filter", "CLEAN", *at).output
    assert "POPMQ_BROKER_DISK_CLEAN_PERCENT  100" in output
    assert "1 setting of " in output
    assert "POPMQ_PROXY" not in output
    output = popmq("cluster", "settings", "nobody", *at, code=1).output
    assert "there is no broker or proxy 'nobody'; there are broker-a" in output
    assert "0 settings of" in popmq("cluster", "settings", "--differing", *at).output


def test_the_trail_tells_changes(server: PopmqBroker) -> None:
    at = ("--endpoint", server.endpoint)
    popmq("topic", "create", "told-of", *at)
    told = json.loads(popmq("cluster", "trail", "--filter", "TOLD-OF", "--json", *at).stdout)
    assert [one["call"] for one in told["lines"]] == ["CreateTopic"]
    output = popmq("cluster", "trail", "--what", "change", "--limit", "1", *at).output
    assert "Topic:" in output
    assert " since 20" in output
    assert "Topic:" not in popmq("cluster", "trail", "--what", "refused", *at).output


def test_what_is_wrong_ends_with_exit_code_1() -> None:
    with PopmqBroker(disk_clean_percent=100) as server:
        server.send("orders", "1")
        server.receive("orders", "billing", invisible_s=10)
        server.advance(72)
        at = ("--endpoint", server.endpoint, "--over", "0.1")
        assert "nobody has asked for" in popmq("cluster", "status", *at, code=1).output
    popmq("cluster", "status", "--endpoint", f"127.0.0.1:{free_port()}", code=3)


def test_top_prints_a_page_or_a_document(server: PopmqBroker) -> None:
    server.send("orders", "2")
    at = ("--endpoint", server.endpoint, "--once", "--every", "0.2")
    output = popmq("top", *at).output
    assert "GROUP, BY LAG" in output
    assert "orders" in output
    assert max(map(len, output.splitlines())) <= 80
    told = json.loads(popmq("top", "--json", *at).stdout)
    assert int(told["brokers"][0]["figures"]["stored"]) >= 1


def test_top_fills_a_terminal_until_q(server: PopmqBroker) -> None:
    screen, terminal = pty.openpty()
    command = [POPMQ, "top", "--every", "0.2", "--endpoint", server.endpoint]
    environ = {**os.environ, "COLUMNS": "80", "LINES": "24", "TERM": "xterm"}
    with subprocess.Popen(command, stdin=terminal, stdout=terminal, env=environ) as top:
        try:
            os.close(terminal)
            shown = read_until(screen, b"BROKERS, PROXIES", 2)
            assert shown.startswith(b"\x1b[?1049h")
            os.write(screen, b"q")
            assert top.wait(SOON_S) == 0
            assert b"\x1b[?1049l" in read_rest(screen)
        finally:
            top.kill()
            os.close(screen)


def read_until(screen: int, wanted: bytes, times: int) -> bytes:
    seen, deadline_s = b"", time.monotonic() + SOON_S
    while seen.count(wanted) < times:
        assert time.monotonic() < deadline_s, seen
        if select.select([screen], [], [], 1)[0]:
            seen += os.read(screen, 65_536)
    return seen


def read_rest(screen: int) -> bytes:
    seen = b""
    try:
        while select.select([screen], [], [], 1)[0]:
            seen += os.read(screen, 65_536)
    except OSError:  # the other end is closed
        return seen
    return seen


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with cluster(tmp_path_factory.mktemp("cluster"), brokers=2, proxies=2) as server:
        yield server


@pytest.mark.timeout(300)
def test_all_of_a_cluster_is_seen_and_who_is_down_is_told(several: Server) -> None:
    def status() -> Any:
        command = [POPMQ, "cluster", "status", "--over", "0.1", "--json"]
        command += ["--endpoint", several.endpoint]
        done = subprocess.run(command, capture_output=True, timeout=60, check=False)
        return done.returncode, json.loads(done.stdout)

    deadline_s = time.monotonic() + SOON_S
    while True:  # a proxy tells of itself every five seconds
        code, told = status()
        if len(told["proxies"]) == 2 and len(told["brokers"]) == 2:
            break
        assert time.monotonic() < deadline_s, told
        time.sleep(0.2)
    assert code == 0, told["remarks"]
    assert all(int(proxy["beforeMs"]) for proxy in told["proxies"])  # so there are rates at once
    ports = {int(proxy["address"].rpartition(":")[2]) for proxy in told["proxies"]}
    names = [name for name in several.processes if name.startswith("proxy")]
    assert ports == {several.processes[name].port for name in names}
    (nameserver,) = told["nameservers"]
    assert (nameserver["brokers"], nameserver["failure"]) == (2, "")
    assert all(broker["figures"]["memoryBytes"] for broker in told["brokers"])
    several.processes["broker-b"].kill()
    code, told = status()
    assert (code, [remark["code"] for remark in told["remarks"]]) == (1, ["broker-down"])
    several.processes["nameserver"].kill()
    code, told = status()
    codes = {remark["code"] for remark in told["remarks"]}
    assert (code, codes) == (1, {"broker-down", "nameserver-down"})


@pytest.mark.timeout(300)
def test_a_lone_broker_that_was_wiped_is_told_until_it_is_accepted(tmp_path: Path) -> None:
    """Nobody but the nameserver has seen it before."""
    with cluster(tmp_path, brokers=1, proxies=1) as server:

        def codes(*command: str) -> set[str]:
            done = subprocess.run(
                [POPMQ, *command, "--endpoint", server.endpoint, "--json"],
                capture_output=True,
                timeout=60,
                check=False,
            )
            told = json.loads(done.stdout)
            found = told["remarks"] if command[0] == "cluster" else told["findings"]
            return {one["code"] for one in found}

        def until(*wrong: str) -> None:
            deadline_s = time.monotonic() + SOON_S
            while codes("cluster", "status", "--over", "0.1") != {*wrong}:
                assert time.monotonic() < deadline_s
                time.sleep(0.2)

        until()
        broker = server.processes["broker-a"]
        broker.stop()
        shutil.rmtree(tmp_path / "broker-a")
        broker.start()
        until("broker-replaced")
        assert codes("doctor") == {"broker-replaced"}
        server.cli("cluster", "accept", "broker-a")
        until()
        assert codes("doctor") == set()
