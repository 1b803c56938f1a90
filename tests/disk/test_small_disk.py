"""A broker on a disk that is full, fills by itself, or fails: what was answered OK stays so."""

import asyncio
import random
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from harness.processes import STOP_S, Server, cluster
from harness.small_disk import small_disk
from harness.traffic import GROUP, TOPIC, Ledger, receive, send

from popmq import Client, PopMQClientError
from popmq_broker.app import EXIT_DISK

MiB = 1 << 20
RESERVE_BYTES = 4 * MiB
QUIET_S = 6.0
ENV = {
    "POPMQ_PROXY_INVISIBLE_MS_MIN": "100",
    "POPMQ_BROKER_SEGMENT_BYTES": str(MiB),
    "POPMQ_BROKER_DISK_RESERVE_BYTES": str(RESERVE_BYTES),
}
NO_RETENTION = {"POPMQ_BROKER_RETENTION_INTERVAL_MS": "3600000"}
"""It would make room by deleting what nobody has read."""
FAILING_SYNC = Path(__file__).with_name("failing_sync.c")


async def under_load(
    server: Server, ledger: Ledger, trouble: Callable[[], Awaitable[None]]
) -> None:
    """Two senders and two receivers around `trouble`, then until nothing is left."""
    stop, done = asyncio.Event(), asyncio.Event()
    rng = random.Random(7)
    async with asyncio.TaskGroup() as tasks:
        for number in range(2):
            tasks.create_task(send(server.endpoint, ledger, number, stop))
            tasks.create_task(receive(server.endpoint, ledger, rng, done, invisible_s=2.0))
        await asyncio.sleep(1.5)
        await trouble()
        await asyncio.sleep(1.5)
        stop.set()
        await ledger.until_quiet(QUIET_S)
        done.set()


def make(server: Server) -> None:
    server.cli("topic", "create", TOPIC, "--queues", "2")
    server.cli("group", "create", GROUP, "--from", "first", "--max-attempts", "1000")


def is_running(server: Server) -> bool:
    broker = server.processes["broker-a"].running
    return broker is not None and broker.poll() is None


@pytest.mark.timeout(180)
@pytest.mark.parametrize("left_bytes", [RESERVE_BYTES - MiB, 0])
def test_a_full_disk_refuses_sends_and_recovers_without_a_restart(
    tmp_path: Path, left_bytes: int
) -> None:
    """Pops and acks go on as long as there is a reserve."""
    ledger = Ledger()
    with (
        small_disk(tmp_path / "broker-a") as disk,
        cluster(tmp_path, ENV | NO_RETENTION, brokers=1, proxies=1) as server,
    ):

        async def trouble() -> None:
            disk.fill(left_bytes)
            await asyncio.sleep(1.5)  # free space is looked at once a second
            sent, acked = len(ledger.sent_ok), len(ledger.acked_at)
            await asyncio.sleep(3)
            assert len(ledger.sent_ok) == sent, "sends are answered OK without room"
            if left_bytes:
                assert len(ledger.acked_at) > acked, "acks do not go on from the reserve"
            disk.make_room()
            await asyncio.sleep(3)
            assert len(ledger.sent_ok) > sent, "sends do not work again"

        make(server)
        asyncio.run(under_load(server, ledger, trouble))
        assert is_running(server)
    assert any("is full" in text for text in ledger.failures)
    ledger.check()


@pytest.mark.timeout(180)
def test_a_disk_that_fills_by_itself_loses_its_oldest_and_takes_sends(tmp_path: Path) -> None:
    """Twice as much is sent as the disk holds, and nobody reads it."""
    retention = {"POPMQ_BROKER_RETENTION_INTERVAL_MS": "200"}

    async def fill(endpoint: str) -> tuple[int, list[str]]:
        sent, refused = 0, []
        async with Client(endpoint, send_attempts=1) as client:
            while sent < 100:
                try:
                    await client.send(TOPIC, bytes(MiB - 20_000))
                    sent += 1
                except PopMQClientError as failed:
                    refused.append(str(failed))
                    await asyncio.sleep(0.1)
        return sent, refused

    with (
        small_disk(tmp_path / "broker-a") as disk,
        cluster(tmp_path, ENV | retention, brokers=1, proxies=1) as server,
    ):
        make(server)
        sent, refused = asyncio.run(fill(server.endpoint))
        print(f"{sent} sent, {len(refused)} refused")
        assert all("is full" in text for text in refused)
        assert is_running(server)
        shown = server.cli("topic", "show", TOPIC)
        assert isinstance(shown, dict)
        assert any(int(queue["minOffset"]) > 0 for queue in shown["queues"])
        assert disk.free_bytes > 0
        server.processes["broker-a"].kill()
        server.processes["broker-a"].start()
        again = server.cli("topic", "show", TOPIC)
        assert again == shown


@pytest.fixture
def preloaded(tmp_path: Path) -> Path:
    library = tmp_path / "failing_sync.so"
    command = ["gcc", "-shared", "-fPIC", "-o", str(library), str(FAILING_SYNC), "-ldl"]
    subprocess.run(command, check=True)
    return library


@pytest.mark.timeout(180)
def test_a_failed_fdatasync_ends_the_broker_and_loses_nothing(
    tmp_path: Path, preloaded: Path
) -> None:
    ledger = Ledger()
    switch = tmp_path / "syncs fail"
    with cluster(tmp_path, ENV | NO_RETENTION, brokers=1, proxies=1) as server:
        broker = server.processes["broker-a"]
        broker.stop()
        broker.env = {**broker.env, "LD_PRELOAD": str(preloaded), "FAILING_SYNC": str(switch)}
        broker.start()

        async def trouble() -> None:
            switch.touch()
            assert broker.running is not None
            assert await asyncio.to_thread(broker.running.wait, STOP_S) == EXIT_DISK
            switch.unlink()
            await asyncio.to_thread(broker.start)
            await asyncio.sleep(2)

        make(server)
        asyncio.run(under_load(server, ledger, trouble))
    told = [line for line in broker.log.read_text().splitlines() if "disk.failed" in line]
    assert len(told) == 1
    assert "Input/output error" in told[0]
    assert str(tmp_path / "broker-a") in told[0]
    assert "Traceback" not in broker.log.read_text()
    ledger.check()
