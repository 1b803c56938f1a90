"""The log is read to its end, wherever that is, and damage before the end is told."""

from itertools import pairwise
from pathlib import Path

import pytest
from harness.log_writer import SEGMENT_BYTES, LogWriter

from popmq_common.records import record
from popmq_pipelines.export.log_reader import LogScan, flushed_mark


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    written = LogWriter(tmp_path / "data")
    for i in range(40):
        written.send(f"m{i}")
    return written


def scan(log: LogWriter, flushed: int = 0) -> LogScan:
    return LogScan(log.data_dir / "commitlog", flushed=flushed)


def bodies(found: LogScan) -> list[str]:
    return [stored.record.body.decode() for stored in found]


def all_bodies(count: int = 40) -> list[str]:
    return [f"m{i}" for i in range(count)]


def log_files(log: LogWriter) -> list[Path]:
    return sorted((log.data_dir / "commitlog").iterdir())


def test_every_record_of_every_file(log: LogWriter) -> None:
    found = scan(log, flushed=log.end)
    assert bodies(found) == all_bodies()
    assert len(log_files(log)) > 2
    assert (found.start, found.end, found.problem) == (0, log.end, None)


def test_sizes_lead_from_record_to_record(log: LogWriter) -> None:
    stored = list(scan(log))
    for one, following in pairwise(stored):
        end = one.record.log_offset + one.size_bytes
        assert following.record.log_offset in (end, -(-end // SEGMENT_BYTES) * SEGMENT_BYTES)


def test_a_scan_can_be_repeated_and_sees_what_came_since(log: LogWriter) -> None:
    found = scan(log)
    assert len(list(found)) == 40
    log.send("one more")
    assert len(list(found)) == 41


def test_an_empty_log(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    found = LogScan(tmp_path / "commitlog")
    assert list(found) == []
    assert (found.start, found.end, found.problem) == (0, 0, None)


def test_a_log_that_does_not_begin_at_zero(tmp_path: Path) -> None:
    log = LogWriter(tmp_path / "data", start=3 * SEGMENT_BYTES)
    log.send("m0")
    found = scan(log)
    assert bodies(found) == ["m0"]
    assert found.start == 3 * SEGMENT_BYTES


def test_a_file_made_ahead_of_time_is_no_damage(log: LogWriter) -> None:
    last = int(log_files(log)[-1].name)
    ahead = log.data_dir / "commitlog" / f"{last + SEGMENT_BYTES:020d}"
    ahead.write_bytes(bytes(SEGMENT_BYTES))
    found = scan(log)
    assert bodies(found) == all_bodies()
    assert found.problem is None


def test_other_files_in_the_folder_are_passed_over(log: LogWriter) -> None:
    (log.data_dir / "commitlog" / "notes.txt").write_text("hello")
    assert bodies(scan(log)) == all_bodies()


@pytest.mark.parametrize("kept", range(1, 140, 3))
def test_every_way_to_tear_the_last_record(log: LogWriter, kept: int) -> None:
    """Only a part of it has reached the file; the rest is zeros."""
    start = list(scan(log))[-1].record.log_offset
    file = log_files(log)[-1]
    with open(file, "r+b") as source:
        source.truncate(min(start % SEGMENT_BYTES + kept, log.end % SEGMENT_BYTES - 1))
        source.truncate(SEGMENT_BYTES)
    found = scan(log)
    assert bodies(found) == all_bodies(39)
    assert (found.end, found.problem) == (start, None)


def test_a_torn_record_below_what_was_on_disk_is_damage(log: LogWriter) -> None:
    with open(log_files(log)[-1], "r+b") as source:
        source.truncate(log.end % SEGMENT_BYTES - 1)
        source.truncate(SEGMENT_BYTES)
    found = scan(log, flushed=log.end)
    assert len(list(found)) == 39
    assert found.problem is not None
    assert f"up to {log.end}" in found.problem


def test_damage_in_a_file_that_others_follow(log: LogWriter) -> None:
    with open(log_files(log)[0], "r+b") as source:
        source.seek(300)
        source.write(b"\xff" * 8)
    found = scan(log)
    assert 0 < len(list(found)) < 40
    assert found.problem is not None
    assert "later files" in found.problem


def test_behind_damage_to_what_was_on_disk_it_goes_on(log: LogWriter) -> None:
    places = [stored.record.log_offset for stored in scan(log)]
    for which, size_bytes in ((1, 8), (7, 300), (20, 8)):
        path = log.data_dir / "commitlog" / f"{places[which] // SEGMENT_BYTES * SEGMENT_BYTES:020d}"
        with open(path, "r+b") as source:
            source.seek(places[which] % SEGMENT_BYTES + 5)
            source.write(b"\xff" * size_bytes)
    found = scan(log, flushed=log.end)
    got = bodies(found)
    assert 30 < len(got) < 38
    assert {"m1", "m7", "m20"}.isdisjoint(got)
    assert {"m0", "m2", "m6", "m21", "m39"} <= set(got)
    assert found.end == log.end
    assert found.problem is not None
    assert f"no whole record at log offset {places[1]}" in found.problem


def test_a_blank_that_does_not_reach_the_end_of_its_file_is_damage(log: LogWriter) -> None:
    second = list(scan(log))[1].record.log_offset
    with open(log_files(log)[0], "r+b") as source:
        source.seek(second)
        source.write(record.blank(SEGMENT_BYTES - second - 1))
    found = scan(log)
    assert bodies(found) == ["m0"]
    assert found.problem is not None


def test_a_file_that_is_gone(log: LogWriter) -> None:
    log_files(log)[1].unlink()
    found = scan(log)
    assert 0 < len(list(found)) < 40
    assert found.problem is not None
    assert "no file for offsets" in found.problem


def test_a_last_file_that_is_gone_shows_by_the_flushed_mark(log: LogWriter) -> None:
    log_files(log)[-1].unlink()
    found = scan(log, flushed=log.end)
    assert 0 < len(list(found)) < 40
    assert found.problem is not None


def test_a_file_that_was_cut_short_in_reading(log: LogWriter) -> None:
    """A broker with a full disk takes back what it has half written."""
    found = scan(log)
    with open(log_files(log)[-1], "r+b") as source:
        source.truncate(10)
    assert len(list(found)) < 40
    assert found.problem is None


def test_the_flushed_mark(tmp_path: Path) -> None:
    assert flushed_mark(tmp_path) == 0
    page = tmp_path / "checkpoint"
    page.write_bytes(b"short")
    assert flushed_mark(tmp_path) == 0
    page.write_bytes((bytes(24) + (4_711).to_bytes(8, "big")).ljust(4096, b"\0"))
    assert flushed_mark(tmp_path) == 4_711
