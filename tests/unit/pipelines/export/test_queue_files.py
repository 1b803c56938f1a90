"""A queue's entries, damaged behind a stopped broker's back, are told by the export."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from harness.broker import EngineDriver
from harness.broker_calls import send_body
from harness.damaging import ZEROS, damage_entry
from harness.names import TOPIC

from popmq_broker.core.store.queue_entry import ENTRY_BYTES
from popmq_internal.v1 import link_pb2 as link
from popmq_pipelines.export.queue_files import ABORT
from popmq_pipelines.export.snapshot_writer import export

SENT = 25
"""Three files of a queue."""
Fault = tuple[str, int]


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[EngineDriver]:
    driver = EngineDriver(tmp_path / "broker")
    driver.make(queues=1)
    for number in range(SENT):
        driver.call(**send_body(f"m{number}", "a" if number % 2 else None, queue_id=0))
    yield driver
    driver.loop.close()


def told(data_dir: Path, into: Path) -> list[Fault]:
    export(data_dir, into)
    rows: list[dict[str, Any]] = pq.read_table(into / "queue_faults.parquet").to_pylist()
    index = pq.read_table(into / "commitlog_index.parquet").to_pylist()
    places = {(row["topic"], row["queue_offset"]): row["log_offset"] for row in index}
    assert all(places[row["topic"], row["queue_offset"]] == row["log_offset"] for row in rows)
    return [(row["kind"], row["queue_offset"]) for row in rows]


def entry_bytes(data_dir: Path, offset: int) -> bytes:
    at = offset * ENTRY_BYTES
    for path in sorted((data_dir / "consumequeue" / TOPIC / "0").iterdir()):
        base = int(path.name)
        if base <= at < base + path.stat().st_size:
            return path.read_bytes()[at - base : at - base + ENTRY_BYTES]
    raise AssertionError(offset)


def test_sound_queues_have_no_faults(driver: EngineDriver, tmp_path: Path) -> None:
    driver.stop()
    assert told(driver.data_dir, tmp_path / "s") == []


def test_swapped_entries_are_both_wrong(driver: EngineDriver, tmp_path: Path) -> None:
    driver.stop()
    first, second = (entry_bytes(driver.data_dir, offset) for offset in (3, 11))
    damage_entry(driver.data_dir, TOPIC, 0, 3, second)
    damage_entry(driver.data_dir, TOPIC, 0, 11, first)
    assert told(driver.data_dir, tmp_path / "s") == [
        ("queue entry wrong", 3),
        ("queue entry wrong", 11),
    ]


@pytest.mark.parametrize("at", [0, 7, 8, 11, 12, 19], ids=str)
def test_a_byte_of_an_entry(driver: EngineDriver, tmp_path: Path, at: int) -> None:
    """Of its log offset, its size, its tag code."""
    driver.stop()
    before = entry_bytes(driver.data_dir, 5)
    damage_entry(driver.data_dir, TOPIC, 0, 5, bytes([before[at] ^ 1]), at)
    assert told(driver.data_dir, tmp_path / "s") == [("queue entry wrong", 5)]


def test_a_zeroed_tail_and_a_file_that_is_gone(driver: EngineDriver, tmp_path: Path) -> None:
    driver.stop()
    for offset in (SENT - 2, SENT - 1):
        damage_entry(driver.data_dir, TOPIC, 0, offset, ZEROS)
    files = sorted((driver.data_dir / "consumequeue" / TOPIC / "0").iterdir())
    per_file = files[0].stat().st_size // ENTRY_BYTES
    files[0].unlink()
    missing = [*range(per_file), SENT - 2, SENT - 1]
    assert told(driver.data_dir, tmp_path / "s") == [
        ("queue entry missing", offset) for offset in missing
    ]


def test_after_a_crash_only_what_lies_inside_is_missing(
    driver: EngineDriver, tmp_path: Path
) -> None:
    """The end is made anew from the log when the broker starts."""
    driver.stop()
    (driver.data_dir / ABORT).touch()
    for offset in (4, SENT - 1):
        damage_entry(driver.data_dir, TOPIC, 0, offset, ZEROS)
    assert told(driver.data_dir, tmp_path / "s") == [("queue entry missing", 4)]


def test_a_broker_that_was_killed_has_no_faults(driver: EngineDriver, tmp_path: Path) -> None:
    driver.crash(random.Random(1))
    driver.send("after it")
    data_dir = driver.data_dir
    driver._abandon()
    assert told(data_dir, tmp_path / "s") == []


def test_a_topic_that_was_made_anew_has_none(driver: EngineDriver, tmp_path: Path) -> None:
    driver.call(delete_topic=link.DeleteTopic(topic=TOPIC))
    driver.make(queues=1)
    driver.send("of the new one")
    driver.stop()
    assert told(driver.data_dir, tmp_path / "s") == []
