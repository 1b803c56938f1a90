"""Starts whose log ends before what the other files speak of: flush=async has lost its end."""

import json
from pathlib import Path

import pytest
from harness.broker import EngineDriver
from harness.chance import KeepsAll, KeepsNothing
from harness.names import TOPIC

from popmq_broker.config import Flush
from popmq_internal.v1 import link_pb2 as link


@pytest.fixture
def driver(tmp_path: Path) -> EngineDriver:
    driver = EngineDriver(tmp_path, flush=Flush.ASYNC, revive_queues=1)
    driver.make(queues=1, start="FIRST")
    return driver


def test_a_lease_under_an_offset_that_is_used_again(driver: EngineDriver) -> None:
    """The offsets file said that the journal is not needed up to where it no longer reaches."""
    driver.send("a")
    driver.run(driver.broker.state.runtime.store.checkpoint())
    driver.hold_disk()
    for _ in range(5):
        driver.pop(1, 1_000)
        driver.advance(1_001)
    (message,) = driver.pop(1)
    driver.ack(message.handle)
    driver.run(driver.broker.offsets.write())
    driver.crash(KeepsNothing())
    driver.send("b")
    held = driver.pop()
    driver.crash(KeepsAll())
    assert driver.pop() == []
    assert len(driver.ack(*[message.handle for message in held])) == len(held)
    driver.advance(20_000)
    assert driver.pop() == []
    driver.close()


def test_a_floor_above_the_end_hides_nothing(driver: EngineDriver) -> None:
    driver.hold_disk()
    for i in range(5):
        driver.send(f"m{i}")
    driver.call(delete_topic=link.DeleteTopic(topic=TOPIC))
    driver.run(driver.broker.offsets.write())
    driver.crash(KeepsNothing())
    driver.make(queues=1)
    driver.send("new")
    driver.crash(KeepsAll())
    assert [message.body for message in driver.pop()] == [b"new"]
    floors = json.loads((driver.data_dir / "config" / "topicFloors.json").read_text())
    assert floors[TOPIC]["0"] == 0
    driver.close()
