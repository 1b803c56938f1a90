"""A snapshot has everything that the log says, and is whole or no snapshot."""

import fcntl
import hashlib
import os
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from harness.log_writer import (
    BROKER,
    CLUSTER,
    GROUP,
    INVISIBLE_MS,
    RETRY,
    REVIVE,
    START_MS,
    TOPIC,
    LogWriter,
)

from popmq_pipelines.export import parquet_table
from popmq_pipelines.export.snapshot_writer import CannotExport, export
from popmq_pipelines.snapshot.chain import follow
from popmq_pipelines.snapshot.columns import SNAPSHOT_TABLES
from popmq_pipelines.snapshot.manifest import MANIFEST, load


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    written = LogWriter(tmp_path / "data")
    for i in range(3):
        written.send(f"m{i}")
    lease = written.pop(0, 1, 2)
    written.now_ms += 1
    written.ack(lease, 0, 1)
    written.expire(lease, 2, "m2")
    written.move(1)
    written.save_offsets()
    return written


def rows(folder: Path, table: str) -> list[dict[str, object]]:
    return list(pq.read_table(folder / f"{table}.parquet", partitioning=None).to_pylist())


def tree(folder: Path) -> dict[str, tuple[str, int]]:
    """Every file's content and time of change."""
    return {
        str(path.relative_to(folder)): (
            hashlib.sha256(path.read_bytes()).hexdigest(),
            path.stat().st_mtime_ns,
        )
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_the_tables_say_what_the_log_says(log: LogWriter, tmp_path: Path) -> None:
    export(log.data_dir, tmp_path / "snap")
    index = rows(tmp_path / "snap", "commitlog_index")
    assert [(row["topic"], row["queue_id"], row["queue_offset"]) for row in index] == [
        (TOPIC, 0, 0),
        (TOPIC, 0, 1),
        (TOPIC, 0, 2),
        (REVIVE, 0, 0),
        (REVIVE, 1, 0),
        (RETRY, 0, 0),
        (REVIVE, 0, 1),
        (REVIVE, 1, 1),
    ]
    assert [row["tags"] for row in index] == [None, None, None, "ck", "bAck", None, "ack", "ck"]
    assert [row["first_pop_time_ms"] is not None for row in index] == [i == 5 for i in range(8)]
    assert index[2]["body_crc"] == index[5]["body_crc"] != index[1]["body_crc"]
    assert (index[5]["message_id"], index[5]["reconsume_times"]) == ("id-m2", 1)
    leases = rows(tmp_path / "snap", "pop_checkpoints")
    assert [row["queue_offset"] for row in leases] == [0, 1, 2]
    assert {row["due_ms"] for row in leases} == {START_MS + INVISIBLE_MS}
    acks = rows(tmp_path / "snap", "pop_acks")
    assert [(row["queue_offset"], row["expired"]) for row in acks] == [
        (0, False),
        (1, False),
        (2, True),
    ]
    assert acks[2]["previous_log_offset"] == index[5]["log_offset"]
    (move,) = rows(tmp_path / "snap", "position_moves")
    assert (move["to_offset"], move["moved_at_ms"]) == (1, START_MS + 1)
    assert (TOPIC, GROUP, 0, 1, None, None) in [
        tuple(row.values()) for row in rows(tmp_path / "snap", "consume_offsets")
    ]


def test_the_manifest_describes_every_file(log: LogWriter, tmp_path: Path) -> None:
    written = export(log.data_dir, tmp_path / "snap", "s1")
    manifest = load(tmp_path / "snap")
    assert manifest == written
    assert (manifest.snapshot_id, manifest.broker, manifest.cluster) == ("s1", BROKER, CLUSTER)
    assert (manifest.log_start, manifest.log_end, manifest.offsets_log_end) == (
        0,
        log.end,
        log.end,
    )
    assert (manifest.as_of_ms, manifest.log_first_ms) == (log.now_ms, START_MS)
    assert manifest.running_since_ms == 0
    assert manifest.files.keys() == SNAPSHOT_TABLES.keys()
    for table, told in manifest.files.items():
        found = rows(tmp_path / "snap", table)
        assert told["rows"] == len(found)
        places = [row["log_offset"] for row in found if "log_offset" in row]
        ends = (places[0], places[-1]) if places else (None, None)
        assert (told["log_offset_min"], told["log_offset_max"]) == ends
    assert follow(tmp_path / "snap").problems == []


def test_nothing_in_the_data_directory_is_touched(log: LogWriter, tmp_path: Path) -> None:
    before = tree(log.data_dir)
    export(log.data_dir, tmp_path / "snap")
    assert tree(log.data_dir) == before


def test_the_same_log_gives_the_same_bytes(log: LogWriter, tmp_path: Path) -> None:
    """But for the time at which it was taken, which the manifest tells."""
    one = export(log.data_dir, tmp_path / "one")
    two = export(log.data_dir, tmp_path / "two")
    assert one.taken_ms <= two.taken_ms
    assert replace(one, taken_ms=0) == replace(two, taken_ms=0)
    for table in SNAPSHOT_TABLES:
        name = f"{table}.parquet"
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_a_snapshot_is_never_written_over(log: LogWriter, tmp_path: Path) -> None:
    export(log.data_dir, tmp_path / "snap")
    before = tree(tmp_path / "snap")
    with pytest.raises(CannotExport, match="already"):
        export(log.data_dir, tmp_path / "snap")
    assert tree(tmp_path / "snap") == before


def test_an_export_that_was_broken_off_can_be_done_again(log: LogWriter, tmp_path: Path) -> None:
    export(log.data_dir, tmp_path / "snap", "s1")
    (tmp_path / "snap" / MANIFEST).unlink()
    (tmp_path / "snap" / "pop_acks.parquet").write_bytes(b"half")
    export(log.data_dir, tmp_path / "snap", "s1")
    assert follow(tmp_path / "snap").problems == []


def test_many_row_groups_hold_the_same_rows(
    log: LogWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export(log.data_dir, tmp_path / "one")
    monkeypatch.setattr(parquet_table, "ROWS_PER_BATCH", 1)
    monkeypatch.setattr(parquet_table, "ROWS_PER_GROUP", 3)
    export(log.data_dir, tmp_path / "many")
    many = pq.ParquetFile(tmp_path / "many" / "commitlog_index.parquet")
    assert many.metadata.num_row_groups == 3
    assert rows(tmp_path / "many", "commitlog_index") == rows(tmp_path / "one", "commitlog_index")


def test_what_cannot_be_exported(log: LogWriter, tmp_path: Path) -> None:
    with pytest.raises(CannotExport, match="no data directory"):
        export(tmp_path / "nowhere", tmp_path / "snap")
    with pytest.raises(CannotExport, match="inside the data directory"):
        export(log.data_dir, log.data_dir / "commitlog" / "snap")
    for illegal in ("a/b", "..", "", "x" * 129):
        with pytest.raises(CannotExport, match="illegal snapshot id"):
            export(log.data_dir, tmp_path / "snap", illegal)


def test_a_journal_record_that_says_nothing_is_a_problem(log: LogWriter, tmp_path: Path) -> None:
    log._journal("ck", b"no checkpoint")
    log._journal("ack", b"{}")
    manifest = export(log.data_dir, tmp_path / "snap")
    assert len(manifest.problems) == 2
    assert all("revive topic" in problem for problem in manifest.problems)


def test_offsets_that_cannot_be_read_are_a_problem(log: LogWriter, tmp_path: Path) -> None:
    log.write_offsets("{")
    assert "consumerOffset.json" in export(log.data_dir, tmp_path / "snap").problems[0]


def test_rocketmqs_offsets_are_read(log: LogWriter, tmp_path: Path) -> None:
    log.write_offsets('{"offsetTable":{"orders@billing":{0:123,1:7}}}')
    export(log.data_dir, tmp_path / "snap")
    assert [tuple(row.values()) for row in rows(tmp_path / "snap", "consume_offsets")] == [
        (TOPIC, GROUP, 0, 123, None, None),
        (TOPIC, GROUP, 1, 7, None, None),
    ]


def test_a_log_shorter_than_the_offsets_know_is_a_problem(log: LogWriter, tmp_path: Path) -> None:
    log.write_offsets(f'{{"popmqLogEnd": {log.end + 1}, "offsetTable": {{}}}}')
    assert "on disk up to" in export(log.data_dir, tmp_path / "snap").problems[0]


def test_a_log_shorter_than_the_flushed_mark_is_a_problem(log: LogWriter, tmp_path: Path) -> None:
    (log.data_dir / "checkpoint").write_bytes(bytes(24) + (log.end + 1).to_bytes(8, "big"))
    assert "on disk up to" in export(log.data_dir, tmp_path / "snap").problems[0]


def test_a_running_broker_is_judged_as_of_now(log: LogWriter, tmp_path: Path) -> None:
    """It runs when it holds the lock; a killed one leaves `abort` but no lock."""
    (log.data_dir / "abort").touch()
    (log.data_dir / "lock").touch()
    os.utime(log.data_dir / "lock", ns=(0, 5_000_000))
    assert export(log.data_dir, tmp_path / "killed").running_since_ms == 0
    with open(log.data_dir / "lock", "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        manifest = export(log.data_dir, tmp_path / "live")
        (log.data_dir / "abort").unlink()  # it has stopped, and is about to give the lock back
        assert export(log.data_dir, tmp_path / "stopped").running_since_ms == 0
    assert manifest.running_since_ms == 5
    assert manifest.as_of_ms > log.now_ms


def test_a_snapshot_is_for_the_broker_s_user_alone(log: LogWriter, tmp_path: Path) -> None:
    """Also the folders above it that were missing."""
    before = os.umask(0o022)
    try:
        export(log.data_dir, tmp_path / "snapshots" / "broker" / "one")
    finally:
        os.umask(before)
    made = [tmp_path / "snapshots", *(tmp_path / "snapshots").rglob("*")]
    assert len(made) > len(SNAPSHOT_TABLES)
    assert [str(path) for path in made if path.stat().st_mode & 0o077] == []
