"""Snapshots of a server that works, as an operator has them written, lists and verifies them."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.processes import POPMQ, Server, cluster, standalone

from popmq_pipelines.snapshot.chain import follow

SNAPSHOTS = "snapshots"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("export")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    with standalone(folder, {"POPMQ_BROKER_EXPORT_DIR": str(folder / SNAPSHOTS)}) as running:
        yield running


def popmq(*arguments: str, code: int = 0) -> str:
    done = subprocess.run([POPMQ, *arguments], capture_output=True, text=True, timeout=110)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_a_snapshot_and_one_that_goes_on(server: Server, folder: Path) -> None:
    at = ("--endpoint", server.endpoint)
    popmq("send", "hello", "one", *at)
    popmq("receive", "hello", "--group", "mine", "--ack", *at)
    first = popmq("export", "now", *at)
    assert "whole, it is the first" in first
    popmq("send", "hello", "two", *at)
    (told,) = json.loads(popmq("export", "now", "--json", *at))["brokers"]
    assert (told["failure"], told["running"]) == ("", "")
    last = told["last"]
    assert (last["whole"], last["problems"]) == (False, [])
    chain = follow(Path(last["place"]))
    assert chain.problems == []
    assert len(chain.folders) == 2
    assert chain.manifest.files["pop_acks"]["rows"] == 1
    listed = json.loads(popmq("export", "list", str(folder / SNAPSHOTS), "--json"))["snapshots"]
    assert [one["whole"] for one in listed] == [True, False]
    assert listed[1]["goesOnFrom"] == listed[0]["snapshotId"]
    assert last["snapshotId"] in popmq("export", "list", str(folder / SNAPSHOTS / "broker-a"))
    assert last["snapshotId"] in popmq("export", "status", *at)


def test_what_was_changed_is_found(server: Server, folder: Path, tmp_path: Path) -> None:
    at = ("--endpoint", server.endpoint)
    (told,) = json.loads(popmq("export", "now", "--whole", "--json", *at))["brokers"]
    place = Path(told["last"]["place"])
    assert "as it was written" in popmq("export", "verify", str(place))
    with open(place / "pop_acks.parquet", "ab") as file:
        file.write(b"x")
    assert "SHA-256 differs" in popmq("export", "verify", str(folder / SNAPSHOTS), code=1)
    assert "no snapshot at" in popmq("export", "verify", str(tmp_path), code=2)


def test_brokers_tell_for_themselves(tmp_path: Path) -> None:
    """Two, and none has a place for snapshots."""
    with cluster(tmp_path, brokers=2, proxies=1) as server:
        server.cli("topic", "create", "t")
        at = ("--endpoint", server.endpoint)
        told = json.loads(popmq("export", "now", "--json", *at, code=1))["brokers"]
        assert len(told) == 2
        assert all("POPMQ_BROKER_EXPORT_DIR" in one["failure"] for one in told)
        name = told[0]["broker"]
        assert f"{name}: nothing was exported" in popmq("export", "status", "--broker", name, *at)
        assert "no broker nobody" in popmq("export", "now", "--broker", "nobody", *at, code=1)


def test_a_server_that_is_killed_leaves_no_half_snapshot(tmp_path: Path) -> None:
    """The exporter ends too, and what it has left goes with the next export."""
    place = tmp_path / SNAPSHOTS
    variables = {"POPMQ_BROKER_EXPORT_DIR": str(place), "POPMQ_BROKER_EXPORT_ROWS_PER_S": "50"}
    with standalone(tmp_path, variables) as server:
        at = ("--endpoint", server.endpoint)
        popmq("bench", "--count", "1000", *at)
        popmq("export", "now", "--no-wait", *at)
        (told,) = json.loads(popmq("export", "status", "--json", *at))["brokers"]
        assert told["running"]
        process = server.processes["standalone"]
        assert process.running is not None
        process.running.kill()
        process.running.wait()
        assert json.loads(popmq("export", "list", str(place), "--json")) == {"snapshots": []}
        process.start()
        server.cli("export", "status")
    assert json.loads(popmq("export", "list", str(place), "--json")) == {"snapshots": []}
