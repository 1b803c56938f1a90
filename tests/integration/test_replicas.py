"""popmq replica, against replicas that run as processes: what an operator sees and does."""

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from harness.processes import POPMQ, Server
from harness.replica_processes import replicated

from popmq_common.records.names import FORCED_TOPIC

SOON_S = 60.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with replicated(tmp_path, "a1", "a2", "a3") as made:
        until(lambda: in_sync(made) == {"a1", "a2", "a3"})
        yield made


def popmq(server: Server | None, *words: str) -> "subprocess.CompletedProcess[str]":
    at = [] if server is None else ["--endpoint", server.endpoint]
    command = [POPMQ, *words, *at]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def listed(server: Server) -> Any:
    done = popmq(server, "replica", "list", "broker-a", "--json")
    if done.returncode:  # before the first one has registered
        return {"failure": done.stderr, "replicas": [], "epoch": 0}
    (group,) = json.loads(done.stdout)["groups"]
    return group


def in_sync(server: Server) -> set[str]:
    replicas = listed(server)["replicas"]
    return {one["name"] for one in replicas if one["role"] in ("primary", "in sync")}


def until(holds: Callable[[], Any]) -> None:
    deadline_s = time.monotonic() + SOON_S
    while not holds():
        assert time.monotonic() < deadline_s
        time.sleep(0.1)


@pytest.mark.timeout(300)
def test_a_primary_is_moved_while_clients_send(server: Server) -> None:
    server.cli("topic", "create", "orders")
    server.cli("send", "orders", "before")
    assert "epoch 1, 3 of 3 in sync, needs 2 in sync" in popmq(server, "replica", "list").stdout
    refused = popmq(server, "replica", "move-primary", "broker-a", "--to", "a9")
    assert refused.returncode == 1
    assert "cannot hand over to a9; in sync and able to take over: a2, a3" in refused.stderr
    told: Any = server.cli("replica", "move-primary", "broker-a", "--to", "a3")
    assert (told["from"], told["to"]) == ("a1", "a3")
    assert 0 < told["seconds"] < SOON_S
    server.cli("send", "orders", "after")
    until(lambda: in_sync(server) == {"a1", "a2", "a3"})
    group = listed(server)
    assert (group["replicas"][0]["name"], group["epoch"]) == ("a3", told["epoch"])
    a2 = server.processes["a2"].env["POPMQ_BROKER_DATA_DIR"]
    backup = popmq(None, "store", "backup", a2, f"{a2}-copy")
    assert backup.returncode == 0, backup.stderr
    assert popmq(None, "store", "check", f"{a2}-copy").returncode == 0
    status = popmq(server, "cluster", "status", "--over", "0.1")
    assert "3 of 3" in status.stdout
    assert status.returncode == 0, status.stdout


@pytest.mark.timeout(300)
def test_after_a_planned_stop_nobody_waits_for_the_primary_that_is_gone(tmp_path: Path) -> None:
    """`lag_ms` is longer than the test: its successor is told, and need not find out."""
    lag_s = 120
    with replicated(tmp_path, "a1", "a2", "a3", lag_ms=lag_s * 1000) as server:
        until(lambda: in_sync(server) == {"a1", "a2", "a3"})
        server.cli("topic", "create", "orders")
        primary = listed(server)["replicas"][0]["name"]
        began_s = time.monotonic()
        server.processes[primary].stop()
        server.cli("send", "orders", "after")
        assert time.monotonic() - began_s < lag_s / 2
        assert in_sync(server) == {"a1", "a2", "a3"} - {primary}
        server.processes[primary].start()
        until(lambda: in_sync(server) == {"a1", "a2", "a3"})


@pytest.mark.timeout(300)
def test_who_is_missing_is_told_and_a_group_without_a_primary_too(server: Server) -> None:
    server.processes["a3"].kill()
    until(lambda: in_sync(server) == {"a1", "a2"})
    doctor = popmq(server, "doctor")
    assert doctor.returncode == 1
    assert "broker broker-a has 2 of 3 replicas in sync" in doctor.stdout
    assert "one more failure stops writes" in doctor.stdout
    server.processes["a2"].kill()
    until(lambda: "takes no writes" in popmq(server, "doctor").stdout)
    server.processes["a1"].kill()
    until(lambda: "no primary answers" in listed(server)["failure"])
    status = popmq(server, "cluster", "status", "--over", "0.1")
    assert status.returncode == 1
    assert "broker broker-a has no primary" in status.stdout
    for name in ("a1", "a2"):
        server.processes[name].start()
    until(lambda: in_sync(server) >= {"a1", "a2"})


@pytest.mark.timeout(300)
def test_a_replica_that_lacks_messages_is_forced(server: Server, tmp_path: Path) -> None:
    server.cli("topic", "create", "orders")
    server.cli("send", "orders", "kept")
    a3 = server.processes["a3"]
    until(lambda: all(one["behindBytes"] == 0 for one in listed(server)["replicas"]))
    a3.kill()
    until(lambda: in_sync(server) == {"a1", "a2"})
    server.cli("send", "orders", "lost")
    for name in ("a1", "a2"):
        server.processes[name].kill()
    a3.start()
    where = ["--register", a3.env["POPMQ_BROKER_REGISTER"], "--address", f"127.0.0.1:{a3.port}"]
    force = ["replica", "force", "broker-a", *where, "--replica", "a3"]
    until(lambda: "is in sync and alive" not in popmq(None, *force, "--confirm", "x").stderr)
    wrong = popmq(None, *force, "--confirm", "broker-b")
    assert wrong.returncode == 1
    assert "nothing was changed" in wrong.stderr
    done = popmq(None, *force, "--min-in-sync", "1", "--confirm", "broker-a", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["replica"], told["role"], told["nothingLost"]) == ("a3", "primary", False)
    until(lambda: in_sync(server) == {"a3"})
    server.cli("send", "orders", "new")
    assert listed(server)["forcedEpoch"] == told["epoch"]
    assert "was forced" in popmq(server, "replica", "list").stdout
    assert "replica.forced" in a3.log.read_text()
    a3.kill()
    data_dir = a3.env["POPMQ_BROKER_DATA_DIR"]
    dumped = popmq(None, "store", "dump", data_dir, "--topic", FORCED_TOPIC)
    assert dumped.stdout.count(f'"e":{told["epoch"]},"r":"a3"') == 1, dumped
