"""The revive topic's records, as RocketMQ's revive service reads them."""

import pytest
from harness.broker import EngineDriver

from popmq_common.records import properties


@pytest.fixture
def driver(driver: EngineDriver) -> EngineDriver:
    driver.make()
    return driver


def test_each_record_tells_when_it_was_written(driver: EngineDriver) -> None:
    """RocketMQ's clock for leases is the latest of these times. None: no lease of ours ends there.
    The times when leases end: one that ends late makes all others end at once."""
    driver.send("a")
    driver.send("b")
    (first, second) = driver.pop(invisible_ms=3_600_000)
    times = [driver.clock.now_ms()]
    driver.clock.advance(5)
    driver.ack(first.handle)
    driver.ack(second.handle)
    times.append(driver.clock.now_ms())
    state = driver.broker.state
    told = set()
    for queue in range(state.runtime.config.revive_queues):
        for entry in state.runtime.store.entries(state.runtime.revive_topic, queue, 0, 100):
            record = state.runtime.store.read(entry.log_offset, entry.size_bytes)
            assert record is not None
            told.add(int(properties.decode(record.properties)["TIMER_DELIVER_MS"]))
    assert sorted(told) == times
