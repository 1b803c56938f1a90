"""What RocketMQ is told of delayed messages before it gets a directory of ours."""

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.broker import EngineDriver
from harness.rocketmq_timer import Unit, delivered_from, units

from popmq_broker.core.timers.rocketmq_timer import second_of
from popmq_broker.handover import hand_over
from popmq_broker.store.offline.closed_directory import check
from popmq_broker.store.offline.timer_note import CHECK_FILE, LOG_FOLDER, WHEEL_FILE
from popmq_common.records.names import TIMER_TOPIC

FILE_BYTES = 4_096


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[EngineDriver]:
    made = EngineDriver(tmp_path)
    made.make(queues=1)
    folder = made.data_dir / LOG_FOLDER
    folder.mkdir()
    (folder / f"{0:020d}").write_bytes(bytes(FILE_BYTES))  # RocketMQ's, from before
    (made.data_dir / WHEEL_FILE).write_bytes(b"old")
    yield made
    made.close()


def handed_over(driver: EngineDriver) -> tuple[dict[int, list[Unit]], int]:
    """What RocketMQ will deliver, by second, and from which queue offset on it reads the topic."""
    config = driver.broker.state.runtime.config
    driver.run(driver.broker.close())
    driver.run(hand_over(config, driver.clock))
    paths = sorted((driver.data_dir / LOG_FOLDER).iterdir())
    read = units([path.read_bytes() for path in paths], FILE_BYTES)
    page = (driver.data_dir / CHECK_FILE).read_bytes()
    read_ms, log_bytes, queue_offset = struct.unpack_from(">qqq", page)
    assert log_bytes == read[-1].place + 52
    assert not (driver.data_dir / WHEEL_FILE).exists()
    driver.broker = driver._open()
    (last,) = driver.broker.state.runtime.store.entries(TIMER_TOPIC, 0, queue_offset - 1, 1)
    assert (last.log_offset, last.size_bytes) == (read[-1].log_offset, read[-1].size_bytes)
    return delivered_from(read, read_ms), queue_offset


def body(driver: EngineDriver, unit: Unit) -> bytes:
    record = driver.broker.state.runtime.store.read(unit.log_offset, unit.size_bytes)
    assert record is not None
    return record.body


def test_rocketmqs_note_is_no_damage(driver: EngineDriver) -> None:
    driver.send_later("waits", 90_000)
    driver.run(driver.broker.close())
    driver.run(hand_over(driver.broker.state.runtime.config, driver.clock))
    found = check(driver.data_dir, lambda done, of: None).findings.wrong
    driver.broker = driver._open()
    assert [one for one in found if one.path.endswith(CHECK_FILE)] == []


def test_what_waits_is_delivered_and_nothing_else(driver: EngineDriver) -> None:
    driver.send_later("delivered", 1_000)
    driver.advance(1_000)
    due_ms = {name: driver.send_later(name, 90_000 + 7 * i) for i, name in enumerate("ab")}
    driver.recall("late", driver.send_later("late", 90_000))
    found, queue_offset = handed_over(driver)
    waits = {body(driver, unit).decode(): second for second in found for unit in found[second]}
    assert waits == {name: second_of(due) for name, due in due_ms.items()}
    assert queue_offset == driver.broker.state.runtime.store.max_offset(TIMER_TOPIC, 0) == 5


def test_it_is_written_anew_each_time(driver: EngineDriver) -> None:
    driver.send_later("a", 5_000)
    driver.send_later("b", 9_000)
    handed_over(driver)
    driver.advance(5_000)
    found, _ = handed_over(driver)
    assert [body(driver, unit) for chain in found.values() for unit in chain] == [b"b"]


def test_with_nothing_ever_delayed_there_is_no_note(driver: EngineDriver) -> None:
    config = driver.broker.state.runtime.config
    driver.run(driver.broker.close())
    assert driver.run(hand_over(config, driver.clock)) == 0
    assert not (driver.data_dir / CHECK_FILE).exists()
    driver.broker = driver._open()
