"""The CommitLog: append, read, scan, and finding records behind damage."""

from pathlib import Path

import pytest
from harness.memory_files import MemoryFiles

from popmq_broker.store.files.segments import Segments, name, numbered
from popmq_broker.store.log.commit_log import CommitLog, ScanEnd
from popmq_common.errors import Corrupt, DiskFull
from popmq_common.records import hosts
from popmq_common.records import record as rec
from popmq_common.records.record import Record
from popmq_common.units import LogOffset, QueueOffset

FOLDER = Path("/d/commitlog")
SEGMENT_BYTES = 300
SIZE = 91 + 1 + 10 + 20


@pytest.fixture
def disk() -> MemoryFiles:
    disk = MemoryFiles()
    disk.make_folder(FOLDER)
    return disk


def opened(disk: MemoryFiles) -> CommitLog:
    return CommitLog(Segments(disk, FOLDER, SEGMENT_BYTES, numbered(disk, FOLDER)))


def append(log: CommitLog, count: int) -> list[int]:
    batch = log.batch()
    places = []
    for i in range(count):
        place = batch.place(SIZE)
        places.append(place)
        record = Record(
            topic="t",
            queue_id=0,
            queue_offset=QueueOffset(i),
            log_offset=LogOffset(place),
            body=b"body%06d" % place,
            properties=b"",
            sys_flag=0,
            flag=0,
            born_timestamp_ms=1,
            born_host=hosts.LOCAL,
            store_timestamp_ms=2,
            store_host=hosts.LOCAL,
            reconsume_times=0,
        )
        batch.parts.append(rec.encode(record))
    log.append(batch)
    return places


def scanned(log: CommitLog, start: int = 0) -> tuple[list[int], ScanEnd]:
    end = ScanEnd(start)
    return [record.log_offset for record, _ in log.scan(start, end)], end


def test_two_records_to_a_file(disk: MemoryFiles) -> None:
    log = opened(disk)
    places = append(log, 5)
    assert places == [0, 122, 300, 422, 600]
    assert log.end == 722
    record = log.read(422, SIZE)
    assert record is not None
    assert record.body == b"body000422"
    found, end = scanned(opened(disk))
    assert found == places
    assert (end.end, end.reason) == (722, "nothing was written there")
    assert end.last is not None
    assert end.last.log_offset == 600


def test_a_scan_that_ends_with_a_full_file_ends_behind_it(disk: MemoryFiles) -> None:
    log = opened(disk)
    append(log, 3)
    disk.lose(FOLDER / name(300))
    assert scanned(opened(disk))[1].end == 300


def test_below_the_start_is_what_retention_deleted(disk: MemoryFiles) -> None:
    append(opened(disk), 5)
    disk.lose(FOLDER / name(0))
    log = opened(disk)
    assert log.start == 300
    assert log.read(122, SIZE) is None
    assert log.read(300, SIZE) is not None


def test_a_full_disk_changes_nothing(disk: MemoryFiles) -> None:
    log = opened(disk)
    append(log, 1)
    disk.capacity_bytes = disk.used_bytes + 130
    with pytest.raises(DiskFull):
        append(log, 3)
    assert log.end == SIZE
    assert log.is_blank_from(SIZE)
    assert disk.names(FOLDER) == [name(0)]


@pytest.mark.parametrize(
    ("at", "data", "reason"),
    [
        (422, b"\0\0\0\0\0\0\0\0", "nothing was written there"),
        (422, b"\0\0\0\x01", "lengths do not add up"),
        (422, b"\x7f\0\0\0", "its length would be"),
        (422, b"\xff\xff\xff\xff", "its length would be -1"),
        (422 + 4, b"x", "no record begins here"),
        (422 + 90, b"x", "checksum"),
        (422 + 28, b"x", "says it begins at"),
    ],
)
def test_a_scan_stops_at_damage(disk: MemoryFiles, at: int, data: bytes, reason: str) -> None:
    append(opened(disk), 5)
    disk.damage(FOLDER / name(300), at - 300, data)
    log = opened(disk)
    found, end = scanned(log)
    assert found == [0, 122, 300]
    assert end.end == 422
    assert reason in end.reason
    assert log.record_behind(422) == 600
    assert not log.is_blank_from(422)


def test_a_blank_of_the_wrong_length_is_damage(disk: MemoryFiles) -> None:
    append(opened(disk), 5)
    disk.damage(FOLDER / name(300), 244, rec.blank(55))
    found, end = scanned(opened(disk))
    assert (found[-1], end.end) == (422, 544)


def test_no_record_behind_the_end_or_in_noise(disk: MemoryFiles) -> None:
    log = opened(disk)
    append(log, 1)
    assert log.record_behind(SIZE) is None
    assert log.is_blank_from(SIZE)
    (copy,) = [log._segments.read(0, SIZE)]
    disk.damage(FOLDER / name(0), 150, copy)  # it says that it begins at 0
    assert log.record_behind(SIZE) is None
    assert log.record_behind(0) == 0


def test_reading_what_is_no_record_names_the_file(disk: MemoryFiles) -> None:
    log = opened(disk)
    append(log, 4)
    with pytest.raises(Corrupt, match=f"{name(300)} is damaged at offset 310"):
        log.read(310, 20)
