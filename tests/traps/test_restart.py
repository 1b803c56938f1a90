"""Is it all there after a start, also when files are damaged or not there yet?"""

import shutil
from pathlib import Path

import pytest
from harness.broker import EngineDriver
from harness.broker_calls import pop_body, popped
from harness.names import GROUP, TOPIC

from popmq_broker.app import engine
from popmq_broker.core.groups.offsets import QueueKey
from popmq_common.errors import Corrupt
from popmq_internal.v1 import link_pb2 as link

OFFSETS = "consumerOffset.json"


def bodies(driver: EngineDriver) -> list[str]:
    return [message.body.decode() for message in driver.pop()]


def settled(driver: EngineDriver, *names: str) -> None:
    for name in names:
        driver.send(name)
    while messages := driver.pop():
        driver.ack(*(message.handle for message in messages))
    driver.run(driver.broker.offsets.write())


def test_t68_a_store_that_is_not_ready_is_never_offset_0(driver: EngineDriver) -> None:
    """Queues and checkpoint are gone, the log begins later than it did: the group stays put."""
    driver.make(queues=1)
    settled(driver, *(f"old {number}" for number in range(60)))
    driver.clock.advance(49 * 3_600_000)
    for number in range(60):
        driver.send(f"new {number}")
    assert len(bodies(driver)) == 32
    assert driver.retain()
    config = driver.broker.state.runtime.config
    assert driver.broker.state.runtime.store.log_start > 0
    before = driver.broker.state.lease_state.table.queues[QueueKey(GROUP, TOPIC, 0)].position
    driver.run(driver.broker.close())
    shutil.rmtree(driver.data_dir / "consumequeue")
    (driver.data_dir / "checkpoint").unlink()

    async def first_call() -> list[str]:
        async with engine(config, driver.clock) as broker:
            position = broker.state.lease_state.table.queues[QueueKey(GROUP, TOPIC, 0)].position
            assert position == before
            reply = await broker.handle(link.Call(**pop_body(32, 1_000)))
            return [popped(message).body.decode() for message in reply.pop.messages]

    assert driver.run(first_call())[0] == "new 32"
    driver.broker = driver._open()


def test_t69_no_damage_of_the_offsets_moves_a_group(driver: EngineDriver, tmp_path: Path) -> None:
    """A byte is changed, or the end is missing, at any place: the file before is taken, and the
    journal tells the rest."""
    driver.make(queues=1)
    settled(driver, "a", "b", "c")
    settled(driver, "d", "e")
    driver.send("f")
    driver.run(driver.broker.close())
    path = driver.data_dir / "config" / OFFSETS
    whole = path.read_bytes()
    (at,) = (i for i in range(len(whole)) if whole[i:].startswith(b"{0:5}"))
    changes = [whole[:i] + bytes([whole[i] ^ 1]) + whole[i + 1 :] for i in (2, 14, at + 3)]
    for damaged in [*changes, whole[:at], b""]:
        path.write_bytes(damaged)
        backup = path.with_name(f"{OFFSETS}.bak").read_bytes()
        driver.broker = driver._open()
        queue = driver.broker.state.lease_state.table.queues[QueueKey(GROUP, TOPIC, 0)]
        assert queue.position == 5
        driver.broker.state.runtime.store.abandon()
        path.with_name(f"{OFFSETS}.bak").write_bytes(backup)
    path.write_bytes(whole)
    driver.broker = driver._open()
    assert bodies(driver) == ["f"]


def test_t69_both_damaged_is_an_error_that_names_the_file(driver: EngineDriver) -> None:
    driver.make(queues=1)
    settled(driver, "a")
    settled(driver, "b")
    driver.run(driver.broker.close())
    path = driver.data_dir / "config" / OFFSETS
    saved = path.read_bytes()
    for name in (OFFSETS, f"{OFFSETS}.bak"):
        damaged = path.with_name(name).read_bytes()
        path.with_name(name).write_bytes(damaged.replace(b"offsetTable", b"offsetTabel"))
    with pytest.raises(Corrupt, match=OFFSETS):
        driver._open()
    path.write_bytes(saved)
    driver.broker = driver._open()
    assert bodies(driver) == []
