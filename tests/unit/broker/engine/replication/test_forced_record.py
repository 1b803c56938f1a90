"""Does the log tell once that an operator has forced a primary?"""

import json

import pytest
from harness.broker import EngineDriver

from popmq_broker.core.replication.epochs import Epochs, EpochStart
from popmq_broker.core.replication.group_record import GroupRecord
from popmq_broker.engine.replication import forced_record
from popmq_common.errors import DiskFull
from popmq_common.process import logs
from popmq_common.records.names import FORCED_TOPIC

LOG = logs.get("test")
FORCED = GroupRecord(epoch=8, primary="a3", address="h:1", identity="i", forced_epoch=7)


def begun(driver: EngineDriver) -> Epochs:
    """The epoch after the forced one begins at the log's end."""
    return Epochs(8, (EpochStart(6, 0), EpochStart(8, driver.broker.state.runtime.store.log_end)))


def write(driver: EngineDriver, record: GroupRecord, epochs: Epochs) -> None:
    async def work() -> None:
        store = driver.broker.state.runtime.store
        forced_record.write(store, record, epochs, driver.clock.now_ms(), LOG)
        await store.durable(store.log_end)

    driver.run(work())


def told(driver: EngineDriver) -> list[object]:
    store = driver.broker.state.runtime.store
    found = []
    for entry in store.entries(FORCED_TOPIC, 0, 0, 10):
        record = store.read(entry.log_offset, entry.size_bytes)
        assert record is not None
        found.append(json.loads(record.body))
    return found


def test_the_first_primary_after_it_tells_it(driver: EngineDriver) -> None:
    end = driver.broker.state.runtime.store.log_end
    epochs = begun(driver)
    write(driver, FORCED, epochs)
    write(driver, FORCED, epochs)  # the next primary, whose epoch begins behind the record
    assert told(driver) == [{"e": 7, "r": "a3", "l": end}]


def test_the_topic_is_there_after_a_start(driver: EngineDriver) -> None:
    write(driver, FORCED, begun(driver))
    driver.restart()
    assert FORCED_TOPIC in driver.broker.state.catalog_state.topics


@pytest.mark.parametrize("epoch", [0, 8])
def test_nothing_is_told_of_other_epochs(driver: EngineDriver, epoch: int) -> None:
    record = GroupRecord(epoch=8, primary="a3", address="h:1", identity="i", forced_epoch=epoch)
    write(driver, record, begun(driver))
    assert told(driver) == []


def test_a_full_disk_does_not_keep_a_primary_from_its_role(
    driver: EngineDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise DiskFull(path="there")

    epochs = begun(driver)
    with monkeypatch.context() as patch:
        patch.setattr(driver.broker.state.runtime.store, "append", full)
        write(driver, FORCED, epochs)
    assert told(driver) == []
    write(driver, FORCED, epochs)
    assert len(told(driver)) == 1
