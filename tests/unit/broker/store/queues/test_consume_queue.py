"""One queue: tail and files together, gaps, cutting, damage."""

from pathlib import Path

import pytest
from harness.memory_files import MemoryFiles
from hypothesis import given
from hypothesis import strategies as st

from popmq_broker.core.store.queue_entry import DAMAGED, ENTRY_BYTES, pack
from popmq_broker.store.files.open_files import OpenFiles
from popmq_broker.store.files.segments import name
from popmq_broker.store.queues.consume_queue import TAIL_BYTES_MAX, ConsumeQueue
from popmq_broker.store.queues.queue_ends import Ends
from popmq_common.errors import Corrupt, DiskFull

FOLDER = Path("/d/consumequeue/orders/0")
FILE_BYTES = 4 * ENTRY_BYTES


@pytest.fixture
def disk() -> MemoryFiles:
    return MemoryFiles()


def opened(
    disk: MemoryFiles, *, file_bytes: int = FILE_BYTES, first: int = 0, end: int = 0
) -> ConsumeQueue:
    return ConsumeQueue(OpenFiles(disk, 2), FOLDER, file_bytes, Ends(first, end))


def fill(queue: ConsumeQueue, count: int) -> None:
    for offset in range(queue.max_offset, queue.max_offset + count):
        queue.append(offset, pack(offset * 100, 100, offset))


def codes(queue: ConsumeQueue, start: int = 0, count: int = 1000) -> list[int]:
    return [entry.tags_code for entry in queue.entries(start, count)]


def test_an_empty_queue_makes_no_files(disk: MemoryFiles) -> None:
    queue = opened(disk)
    assert (queue.min_offset, queue.max_offset, queue.next_offset) == (0, 0, 0)
    assert queue.entries(0, 10) == []
    assert queue.last() is None
    assert queue.flush() == []
    queue.cut(0)
    assert disk.paths(Path("/d")) == []


@given(
    written=st.integers(0, 12),
    tail=st.integers(0, 12),
    offsets=st.lists(st.integers(-1, 25), max_size=12),
)
def test_single_entries_are_found_wherever_they_are(
    written: int, tail: int, offsets: list[int]
) -> None:
    """In any order, in files and in memory; None where nothing is."""
    queue = opened(MemoryFiles())
    fill(queue, written)
    queue.flush()
    fill(queue, tail)
    queue.raise_min(1)
    expected = [queue.entries(offset, 1) for offset in offsets]
    assert [[entry] if entry else [] for entry in queue.entries_at(offsets)] == expected


def test_a_single_entry_that_was_lost_is_told(disk: MemoryFiles) -> None:
    queue = opened(disk)
    fill(queue, 4)
    queue.flush()
    disk.damage(FOLDER / name(0), 2 * ENTRY_BYTES, bytes(ENTRY_BYTES))
    assert [entry and entry.tags_code for entry in queue.entries_at([1, 3])] == [1, 3]
    assert queue.entries_at([1, 2])[1] == DAMAGED


@given(written=st.integers(0, 12), tail=st.integers(0, 12), data=st.data())
def test_files_and_tail_read_as_one(written: int, tail: int, data: st.DataObject) -> None:
    disk = MemoryFiles()
    queue = opened(disk)
    fill(queue, written)
    queue.flush()
    fill(queue, tail)
    end = written + tail
    assert queue.max_offset == end
    start = data.draw(st.integers(0, end + 2))
    count = data.draw(st.integers(0, end + 2))
    assert codes(queue, start, count) == list(range(end))[start : start + count]
    assert codes(opened(disk, end=written)) == list(range(written))  # the tail was never written


def test_files_have_rocketmqs_names_and_size(disk: MemoryFiles) -> None:
    queue = opened(disk)
    fill(queue, 9)
    assert queue.flush() == [FOLDER / name(base) for base in (0, 80, 160)]
    assert [disk.size(path) for path in disk.paths(FOLDER)] == [80, 80, 80]
    assert queue.unwritten_bytes == 0


def test_duplicates_are_passed_over(disk: MemoryFiles) -> None:
    queue = opened(disk)
    fill(queue, 3)
    queue.flush()
    fill(queue, 2)
    for offset in (0, 2, 4):
        queue.append(offset, pack(offset * 100, 100, offset))
    assert codes(queue) == [0, 1, 2, 3, 4]


def test_a_gap_is_damage(disk: MemoryFiles) -> None:
    queue = opened(disk)
    fill(queue, 2)
    with pytest.raises(Corrupt, match="entries from 2 on are missing"):
        queue.append(3, pack(300, 100, 3))


def test_another_message_under_an_offset_is_damage(disk: MemoryFiles) -> None:
    queue = opened(disk)
    fill(queue, 2)
    with pytest.raises(Corrupt, match="two messages have this offset"):
        queue.append(1, pack(999, 100, 1))


def test_a_queue_can_begin_later(disk: MemoryFiles) -> None:
    queue = opened(disk)
    queue.begin_at(6)
    queue.append(6, pack(600, 100, 6))
    assert (queue.min_offset, queue.max_offset) == (6, 7)
    with pytest.raises(Corrupt, match="entries before 6 are missing"):
        queue.append(5, pack(500, 100, 5))
    queue.flush()
    data = disk.read(FOLDER / name(80))
    assert data == pack(0, 0x7FFFFFFF, 0) * 2 + pack(600, 100, 6) + bytes(20)
    queue = opened(disk, first=6, end=7)
    assert (queue.min_offset, queue.max_offset) == (6, 7)
    assert codes(queue, 6) == [6]
    assert queue.entries(5, 1) == []


def test_what_retention_took_from_the_log_is_below_the_minimum(disk: MemoryFiles) -> None:
    queue = opened(disk)
    fill(queue, 10)
    queue.flush()
    for log_start, first in ((0, 0), (550, 6), (5_000, 10)):  # empty, and goes on counting
        queue = opened(disk, end=10)
        queue.begin_behind(log_start)
        assert queue.min_offset == first


@pytest.mark.parametrize("written", range(10))
@pytest.mark.parametrize("keep", range(10))
def test_cutting(written: int, keep: int) -> None:
    disk = MemoryFiles()
    queue = opened(disk)
    fill(queue, written)
    queue.flush()
    fill(queue, 9 - written)
    queue.cut(keep * 100)
    assert codes(queue) == list(range(keep))
    assert queue.next_offset == queue.max_offset == keep
    fill(queue, 3)
    assert codes(queue) == list(range(keep + 3))
    queue.flush()
    assert codes(opened(disk, end=keep + 3)) == list(range(keep + 3))


def test_cutting_clears_what_a_crash_left_behind_a_hole(disk: MemoryFiles) -> None:
    queue = opened(disk)
    fill(queue, 2)
    queue.flush()
    disk.damage(FOLDER / name(0), 60, pack(300, 100, 3))  # entry 2 was lost, entry 3 was not
    queue = opened(disk, end=2)
    queue.zero_behind()
    assert codes(queue) == [0, 1]
    assert disk.read(FOLDER / name(0)) == pack(0, 100, 0) + pack(100, 100, 1) + bytes(40)


def test_a_full_disk_leaves_entries_in_memory(disk: MemoryFiles) -> None:
    queue = opened(disk, file_bytes=TAIL_BYTES_MAX * 2 // 20 * 20)
    fill(queue, TAIL_BYTES_MAX // 20 + 1)
    assert queue.needs_flush()
    disk.capacity_bytes = disk.used_bytes + 100
    with pytest.raises(DiskFull):
        queue.flush()
    assert not queue.needs_flush()  # the next try comes later
    assert codes(queue, 0, 5) == [0, 1, 2, 3, 4]
    disk.capacity_bytes = 1 << 30
    queue.flush()
    assert queue.max_offset == TAIL_BYTES_MAX // 20 + 1
    assert codes(queue, 0, 5) == [0, 1, 2, 3, 4]


class TestDamage:
    @pytest.fixture(autouse=True)
    def _filled(self, disk: MemoryFiles) -> None:
        queue = opened(disk)
        fill(queue, 10)
        queue.flush()

    def test_a_missing_file(self, disk: MemoryFiles) -> None:
        disk.lose(FOLDER / name(80))
        with pytest.raises(Corrupt, match="the file before 160 is missing"):
            opened(disk, end=10)

    def test_a_missing_first_file(self, disk: MemoryFiles) -> None:
        disk.lose(FOLDER / name(0))
        with pytest.raises(Corrupt, match="the file before 80 is missing"):
            opened(disk, end=10)
        assert opened(disk, first=4, end=10).min_offset == 4  # retention's doing

    def test_a_missing_last_file(self, disk: MemoryFiles) -> None:
        disk.lose(FOLDER / name(160))
        with pytest.raises(Corrupt, match="file 160 is missing"):
            opened(disk, end=10)

    def test_all_files_are_missing(self, disk: MemoryFiles) -> None:
        for path in disk.paths(FOLDER):
            disk.lose(path)
        with pytest.raises(Corrupt, match="is missing"):
            opened(disk, end=10)
        assert opened(disk, first=10, end=10).max_offset == 10  # retention's doing

    def test_a_short_file(self, disk: MemoryFiles) -> None:
        disk.shorten(FOLDER / name(160), 20)
        with pytest.raises(Corrupt, match="file 160 has 20 bytes, not 80"):
            opened(disk, end=10)

    def test_a_file_whose_end_was_being_cleared(self, disk: MemoryFiles) -> None:
        disk.shorten(FOLDER / name(160), 40)
        assert codes(opened(disk, end=10)) == list(range(10))
        assert disk.size(FOLDER / name(160)) == 80

    @pytest.mark.parametrize("size_bytes", [0, 80])
    def test_a_file_behind_the_end(self, disk: MemoryFiles, size_bytes: int) -> None:
        disk.open(FOLDER / name(240), size_bytes=size_bytes)
        queue = opened(disk, end=10)
        assert not disk.exists(FOLDER / name(240))
        fill(queue, 3)
        queue.flush()
        assert codes(opened(disk, end=13)) == list(range(13))

    def test_lost_entries_are_told_when_they_are_read(self, disk: MemoryFiles) -> None:
        disk.damage(FOLDER / name(0), 20, bytes(40))
        queue = opened(disk, end=10)
        assert codes(queue, 3, 3) == [3, 4, 5]
        found = queue.entries(0, 5)
        assert found[1:3] == [DAMAGED, DAMAGED]
        assert [entry.tags_code for entry in (found[0], *found[3:])] == [0, 3, 4]

    def test_damage_does_not_make_it_shorter(self, disk: MemoryFiles) -> None:
        disk.damage(FOLDER / name(160), 0, bytes(80))
        queue = opened(disk, end=10)
        assert queue.max_offset == 10
        assert queue.last() == DAMAGED
