"""The table of queues."""

from pathlib import Path

import pytest
from harness.memory_files import MemoryFiles

from popmq_broker.core.store.queue_entry import pack
from popmq_broker.store.queues.queue_ends import QueueEnds
from popmq_broker.store.queues.queues import Queues, sync_files
from popmq_common.errors import Corrupt, DiskFull

FOLDER = Path("/d/consumequeue")
NOTHING = QueueEnds(0, 0, {})
A, B = ("orders", 0), ("orders", 12)


@pytest.fixture
def disk() -> MemoryFiles:
    disk = MemoryFiles()
    disk.make_folder(FOLDER)
    return disk


def opened(disk: MemoryFiles, ends: QueueEnds = NOTHING) -> Queues:
    return Queues(
        disk, FOLDER, file_bytes=80, open_max=2, unwritten_bytes_max=40, ends=ends, log_start=0
    )


def entry(offset: int) -> bytes:
    return pack(offset * 100, 100, 0)


def test_offsets_are_taken_before_they_are_visible(disk: MemoryFiles) -> None:
    queues = opened(disk)
    assert queues.next_offset(A) == 0
    assert list(queues) == []
    queues.on_appended(A, 2)
    assert queues.next_offset(A) == 2
    assert queues.max_offset(*A) == 0
    queues.dispatch(A, 0, entry(0) + entry(1))
    assert queues.max_offset(*A) == 2
    assert [found.log_offset for found in queues.entries(*A, 0, 9)] == [0, 100]
    assert list(queues) == [A]


def test_what_is_flushed_and_synced_survives(disk: MemoryFiles) -> None:
    queues = opened(disk)
    for key in (A, B):
        queues.on_appended(key, 1)
        queues.dispatch(key, 0, entry(0))
    touched = queues.flush()
    assert queues.flush() == set()
    queues.not_synced(touched)
    assert queues.flush() == touched
    sync_files(disk, touched)
    disk.crash()
    queues = opened(disk, queues.ends(0, 100))
    assert sorted(queues) == [A, B]
    assert queues.next_offset(A) == queues.max_offset(*B) == 1
    assert [(key, offset) for key, offset, _ in queues.last_entries()] == [(A, 0), (B, 0)]


def test_folders_that_are_no_queues_are_passed_over(disk: MemoryFiles) -> None:
    for number in ("x", "3"):
        disk.make_folder(FOLDER / "orders" / number)
        disk.open(FOLDER / "orders" / number / ("0" * 20), size_bytes=80)
    disk.make_folder(FOLDER / "forgotten" / "0")
    assert list(opened(disk)) == [("orders", 3)]


@pytest.mark.parametrize("topic", ["", ".", "..", "a/b", "a\0b"])
def test_a_name_that_is_no_folder_is_refused(disk: MemoryFiles, topic: str) -> None:
    queues = opened(disk)
    with pytest.raises(AssertionError):
        queues.next_offset((topic, 0))
    with pytest.raises(Corrupt, match="no queue can be"):
        queues.recover((topic, 0), 0, entry(0), may_begin=False)


def test_recovered_messages_count(disk: MemoryFiles) -> None:
    queues = opened(disk)
    queues.recover(A, 0, entry(0), may_begin=False)
    assert queues.next_offset(A) == queues.max_offset(*A) == 1
    with pytest.raises(Corrupt, match="missing"):
        queues.recover(B, 5, entry(5), may_begin=False)
    queues.recover(("bills", 0), 5, entry(5), may_begin=True)
    assert queues.min_offset("bills", 0) == 5
    queues.cut(100)
    assert queues.max_offset("bills", 0) == queues.next_offset(("bills", 0)) == 5
    assert queues.max_offset(*A) == 1


def test_a_full_disk_is_told_when_memory_has_enough(disk: MemoryFiles) -> None:
    queues = opened(disk)
    disk.capacity_bytes = 0
    queues.on_appended(A, 4)
    queues.dispatch(A, 0, entry(1))
    with pytest.raises(DiskFull):
        queues.flush()
    assert not queues.full
    queues.dispatch(A, 1, entry(2) + entry(3))
    with pytest.raises(DiskFull):
        queues.flush()
    assert queues.full
    disk.capacity_bytes = 1 << 30
    assert len(queues.flush()) == 1
    assert not queues.full
