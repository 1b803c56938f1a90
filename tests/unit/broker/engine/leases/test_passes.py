"""The journal tells in which way a group goes over messages: once, when it changes, and again when
the position may lie before the place it was told for."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.broker import EngineDriver
from harness.names import GROUP, TOPIC

from popmq_broker.config import PopBuffer
from popmq_broker.core.groups import passing
from popmq_broker.core.groups.offsets import QueueKey
from popmq_broker.core.store.queue_entry import tag_of
from popmq_broker.engine.groups.offsets import passes_key
from popmq_internal.v1 import link_pb2 as link

Told = list[tuple[int, str]]
"""From which offset on, and the expression."""


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[EngineDriver]:
    made = EngineDriver(tmp_path)
    made.make(queues=1)
    yield made
    made.close()


def told(driver: EngineDriver) -> Told:
    runtime = driver.broker.state.runtime
    driver.run(runtime.store.durable(runtime.store.log_end))
    found = []
    for entry in runtime.store.entries(runtime.revive_topic, 0, 0, 10_000):
        record = runtime.store.read(entry.log_offset, entry.size_bytes)
        assert record is not None
        if tag_of(record.properties) == passing.PASS_TAG:
            way = passing.decode(record.body, where="test")
            assert way.key == QueueKey(GROUP, TOPIC, 0)
            found.append((way.from_offset, way.passing.expression))
    return found


def send(driver: EngineDriver, *tags: str) -> None:
    for number, tag in enumerate(tags):
        driver.send(f"{number}", tag)


def test_without_a_filter_nothing_is_told(driver: EngineDriver) -> None:
    send(driver, "a", "b")
    driver.pop()
    driver.restart()
    send(driver, "a")
    driver.pop(expression="*")
    assert told(driver) == []


@pytest.mark.parametrize("fifo", [False, True])
def test_it_is_told_when_it_changes(tmp_path: Path, fifo: bool) -> None:
    driver = EngineDriver(tmp_path)
    driver.make(queues=1, fifo=fifo)
    send(driver, "a", "b", "a")
    driver.pop(1, expression="a")
    driver.pop(expression="a")
    send(driver, "b", "b")
    driver.pop(expression="a")  # goes over both, and hands out nothing
    send(driver, "b")
    driver.pop(expression="a || b")
    send(driver, "c")
    driver.pop()
    assert told(driver) == [(0, "a"), (5, "a || b"), (6, "")]
    driver.close()


def test_a_pop_that_goes_nowhere_tells_nothing(driver: EngineDriver) -> None:
    driver.pop(expression="a")
    assert told(driver) == []


def test_a_restart_tells_it_again_and_the_file_knows_it(driver: EngineDriver) -> None:
    send(driver, "a", "b")
    driver.pop(expression="a")
    table = driver.broker.offsets.table()
    assert table.passes == {QueueKey(GROUP, TOPIC, 0): (1, "a")}
    driver.restart()
    assert driver.broker.offsets.table().passes == table.passes
    send(driver, "b")
    driver.pop(expression="a")
    send(driver, "b")
    driver.pop(expression="a")
    assert told(driver) == [(0, "a"), (2, "a")]


def test_after_a_crash_the_journal_completes_the_file(driver: EngineDriver) -> None:
    send(driver, "a", "b")
    driver.run(driver.broker.offsets.write())
    driver.pop(expression="a")
    driver.crash(random.Random(1))
    assert driver.broker.offsets.table().passes == {QueueKey(GROUP, TOPIC, 0): (1, "a")}


@pytest.mark.parametrize("restarts", [False, True])
def test_a_reset_begins_anew(driver: EngineDriver, restarts: bool) -> None:
    send(driver, "a", "b")
    driver.pop(expression="a")
    driver.call(reset_offsets=link.ResetOffsets(group=GROUP, topic=TOPIC, offset=0))
    if restarts:
        driver.crash(random.Random(1))
    assert driver.broker.offsets.table().passes == {}
    driver.pop()
    assert told(driver) == [(0, "a")]
    driver.call(reset_offsets=link.ResetOffsets(group=GROUP, topic=TOPIC, offset=1))
    driver.pop(expression="c")
    assert told(driver) == [(0, "a"), (1, "c")]


def test_from_where_on_it_is_told(tmp_path: Path) -> None:
    """With the pop buffer in memory it is not, and from a restart without it on it is."""
    driver = EngineDriver(tmp_path)
    driver.make(queues=1)
    key = passes_key(driver.broker.state.runtime)
    send(driver, "a")
    driver.pop()
    assert driver.broker.offsets.table().offsets[key] == 0
    driver.restart()
    assert driver.broker.offsets.table().offsets[key] == 0
    driver._settings["pop_buffer"] = PopBuffer.MEMORY
    driver.restart()
    assert key not in driver.broker.offsets.table().offsets
    driver._settings["pop_buffer"] = PopBuffer.DURABLE
    driver.restart()
    runtime = driver.broker.state.runtime
    end = runtime.store.max_offset(runtime.revive_topic, 0)
    assert driver.broker.offsets.table().offsets[key] == end > 0
    driver.close()
