"""The audit from end to end: verdicts, tables, and snapshots that are not whole."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from harness.audit import LONG_MS, Bench, found, healthy
from harness.log_writer import GROUP, RETRY, REVIVE, TOPIC, LogWriter, resign
from pyspark.sql import SparkSession

from popmq_broker.core.groups import offsets
from popmq_broker.core.groups.offsets import OffsetTable, QueueKey
from popmq_common.records.names import REVIVE_GROUP
from popmq_pipelines.audit.verdict import AuditVerdict
from popmq_pipelines.snapshot.columns import AUDIT_TABLES
from popmq_pipelines.snapshot.manifest import MANIFEST, digest

pytestmark = [pytest.mark.pipelines, pytest.mark.timeout(600)]


def test_a_healthy_log_passes(bench: Bench) -> None:
    healthy(bench.log)
    report = bench.audit()
    assert found(report) == []
    assert report.verdict is AuditVerdict.PASS
    assert report.lease_states == {
        "acked": 4,
        "dead": 1,
        "in_flight": 1,
        "retried": 1,
        "superseded": 2,
    }
    states = {
        (row["topic"], row["queue_offset"]): (row["state"], row["lease_count"])
        for row in bench.table("recon_message_state")
    }
    assert states == {
        (TOPIC, 0): ("acked", 1),
        (TOPIC, 1): ("acked", 1),
        (TOPIC, 2): ("acked", 1),
        (TOPIC, 3): ("retried", 1),
        (TOPIC, 4): ("acked", 3),
        (TOPIC, 5): ("in_flight", 1),
        (RETRY, 0): ("dead", 1),
    }
    (run,) = bench.table("recon_run")
    assert (run["verdict"], run["finding_count"], run["lease_count"]) == ("PASS", 0, 9)
    assert (run["broker"], run["cluster"], run["log_end"]) == ("broker-a", "test", bench.log.end)

    check_the_books(bench)


def check_the_books(bench: Bench) -> None:
    counted = ("acked", "in_flight", "retried", "dead", "voided", "overdue", "uncopied")
    rows = bench.table("recon_balance")
    assert {row["topic"] for row in rows} == {TOPIC, RETRY}
    for row in rows:
        assert row["stored"] == sum(row[name] for name in counted) + row["not_leased"]
    (orders,) = [row for row in rows if row["topic"] == TOPIC]
    assert (orders["stored"], orders["acked"], orders["not_leased"]) == (6, 4, 0)
    revive = {row["queue_id"]: row for row in bench.table("recon_revive")}
    assert sum(row["lease_count"] for row in revive.values()) == 9
    assert sum(row["in_flight_count"] for row in revive.values()) == 1
    assert {i: row["end_offset"] for i, row in revive.items()} == {
        i: bench.log.stored[REVIVE, i] for i in (0, 1)
    }


def test_an_ack_taken_out_of_the_export_fails_and_is_named(bench: Bench) -> None:
    healthy(bench.log)
    bench.export()
    taken = take_row(bench.snapshot, "pop_acks", 0)
    report = bench.judge()
    assert report.verdict is AuditVerdict.FAIL
    assert found(report) == [
        ("journal record not exported", REVIVE, None, 1, 0),
        ("lease overdue", taken["topic"], taken["consumer_group"], 0, taken["queue_offset"]),
    ]


def test_a_checkpoint_taken_out_of_the_export_fails(bench: Bench) -> None:
    healthy(bench.log)
    bench.export()
    taken = take_row(bench.snapshot, "pop_checkpoints", 0)
    assert found(bench.judge()) == [
        ("ack without checkpoint", TOPIC, GROUP, 0, taken["queue_offset"])
    ]


def take_row(snapshot: Path, table: str, number: int) -> dict[str, Any]:
    """Take a row out of an exported table, and make the manifest agree with the file."""
    path = snapshot / f"{table}.parquet"
    rows = pq.read_table(path, partitioning=None)
    taken: dict[str, Any] = rows.slice(number, 1).to_pylist()[0]
    left = rows.take([i for i in range(rows.num_rows) if i != number])
    pq.write_table(left, path)
    ranges = {
        f"{name}_{end}": choose(left.column(name).to_pylist())
        for name in ("log_offset", "queue_offset")
        for end, choose in (("min", min), ("max", max))
    }
    resign(snapshot / MANIFEST, table, sha256=digest(path), rows=left.num_rows, **ranges)
    return taken


def test_offsets_that_would_skip_a_live_lease_at_the_next_start_fail(bench: Bench) -> None:
    for i in range(2):
        bench.log.send(f"m{i}")
    bench.log.ack(bench.log.pop(0))  # revive queue 0 offset 0, and 1 offset 0
    bench.log.pop(1)  # revive queue 0 offset 1
    key = QueueKey(REVIVE_GROUP, REVIVE, 0)
    table = OffsetTable(bench.log.end, {**bench.log.positions, key: 1})
    bench.log.write_offsets(offsets.encode(table, bench.log.now_ms))
    assert found(bench.audit()) == [("replay would skip", TOPIC, GROUP, 0, 1)]


def test_a_log_whose_beginning_was_deleted_passes(spark: SparkSession, tmp_path: Path) -> None:
    """Of leases and messages before the first record nothing is known."""
    log = LogWriter(tmp_path / "data", start=4_096)
    log.stored[TOPIC, 0] = 10
    log.stored[REVIVE, 0] = log.stored[REVIVE, 1] = 5
    before = log.now_ms - 5
    log.send("m10")
    lease = log.pop(10)
    log.ack(replace(lease, offsets=(9,), pop_time_ms=before))
    log.ack(lease)
    log.pop(8, invisible_ms=1)  # revive has yet to look at it
    log.pass_time(LONG_MS)
    log.save_offsets()
    report = Bench(spark, tmp_path, log).audit()
    assert (report.verdict, report.lease_states) == (AuditVerdict.PASS, {"acked": 1, "deleted": 1})


def test_a_live_log_may_end_in_the_middle_of_a_pair_or_of_a_record(bench: Bench) -> None:
    healthy(bench.log)
    bench.log.copy("m5")
    bench.log.write_raw(b"\0\0\0\xf0\xda\xa3\x20\xa7 half of a record")
    assert bench.audit().verdict is AuditVerdict.PASS


def test_an_incomplete_run_leaves_no_tables_of_an_earlier_one(bench: Bench) -> None:
    healthy(bench.log)
    assert bench.audit().verdict is AuditVerdict.PASS
    (bench.snapshot / "pop_acks.parquet").unlink()
    assert bench.judge().verdict is AuditVerdict.INCOMPLETE
    left = {path.parent.name for path in bench.out.glob("*/snapshot_id=s1")}
    assert left == {"recon_run"}


def test_a_second_run_gives_the_same_tables(bench: Bench) -> None:
    healthy(bench.log)
    bench.export()
    first = (bench.judge(), {name: bench.table(name) for name in AUDIT_TABLES})
    second = (bench.judge(), {name: bench.table(name) for name in AUDIT_TABLES})
    assert first == second
