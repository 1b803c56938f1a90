"""Two hundred histories without a fault: nothing is found. One of each fault in others: found, with
exactly its offsets. All in one audit, and the same in four snapshots that go on from each other."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from harness.audit_histories import FAULTS, Found, World
from pyspark.sql import SparkSession

from popmq_pipelines.audit.verdict import AuditVerdict, Report
from popmq_pipelines.jobs.backfill import backfill
from popmq_pipelines.jobs.reconcile import GRACE_MS, reconcile
from popmq_pipelines.snapshot.manifest import MANIFEST
from popmq_pipelines.tables import opened_snapshot, results

pytestmark = [pytest.mark.pipelines, pytest.mark.timeout(1_800)]

SEED = int(os.environ.get("AUDIT_SEED", "1"))
NEW_QUEUE = 9
"""Nothing was stored in it before: who begins there goes over nothing of an earlier epoch."""
CLEAN = 200
LEASE_STATES = {"acked", "dead", "in_place", "retried", "superseded", "voided"}
STEPS = 4_000


def audit(spark: SparkSession, snapshot: Path, out: Path) -> Report:
    return reconcile(spark, opened_snapshot.open_snapshot(snapshot), out, grace_ms=GRACE_MS)


def found(report: Report) -> list[Found]:
    return sorted(
        (
            row["kind"],
            row["topic"],
            row["queue_id"],
            row["queue_offset"],
            row["offset_count"],
        )
        for row in report.findings
    )


def test_each_planted_fault_is_found_and_no_clean_history_is_accused(
    spark: SparkSession, tmp_path: Path
) -> None:
    print(f"AUDIT_SEED={SEED}")
    world = World(SEED, len(FAULTS) + CLEAN)
    world.live(STEPS // 2)
    world.plant(FAULTS)
    world.live(STEPS // 2)
    world.pass_time(2 * GRACE_MS)
    world.log.cut(tmp_path / "s1")
    report = audit(spark, tmp_path / "s1", tmp_path / "out")
    assert found(report) == sorted(world.expected)
    assert report.verdict is AuditVerdict.FAIL
    assert set(report.lease_states) >= LEASE_STATES
    for row in report.findings:  # whoever reads it knows what to type
        assert (row["message_id"] is None) == (row["kind"] == "message missing")


def test_in_several_snapshots_it_finds_what_it_finds_in_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The faults lie in the second of four; the last ones still hand out messages of the first."""
    world = World(SEED, len(FAULTS) + 5)
    folder = live_through(world, tmp_path / "snapshots", 4)
    whole = audit(spark, folder / "s4", tmp_path / "whole")
    assert found(whole) == sorted(world.expected)
    out = tmp_path / "out"
    reports = backfill(spark, folder, out, since=None, until=None, grace_ms=GRACE_MS)
    assert [report.verdict for report in reports] == [AuditVerdict.PASS, *[AuditVerdict.FAIL] * 3]
    assert found(reports[-1]) == found(whole)
    assert totals(reports[-1]) == totals(whole)
    assert states(spark, out, ["s1", "s2", "s3", "s4"]) == states(spark, tmp_path / "whole", ["s4"])


def test_an_audit_that_is_repeated_writes_the_same_bytes(
    spark: SparkSession, tmp_path: Path
) -> None:
    """From the second of three on: what the first run of these two left is taken back."""
    folder = live_through(World(SEED, len(FAULTS) + 2), tmp_path / "snapshots", 3)
    out = tmp_path / "out"
    reports = backfill(spark, folder, out, since=None, until=None, grace_ms=GRACE_MS)
    assert [report.verdict for report in reports] == [AuditVerdict.PASS, *[AuditVerdict.FAIL] * 2]
    written = all_bytes(out)
    assert len(written) >= 3 * 4
    again = backfill(spark, folder, out, since="s2", until=None, grace_ms=GRACE_MS)
    assert [report.signature for report in again] == [one.signature for one in reports[1:]]
    assert all_bytes(out) == written


def live_through(world: World, folder: Path, snapshots: int) -> Path:
    """So many snapshots that go on from each other, the faults planted before the second."""
    print(f"AUDIT_SEED={SEED}")
    for number in range(snapshots):
        world.live(150)
        if number == 1:
            world.plant(FAULTS)
        if number == snapshots - 1:
            world.pass_time(2 * GRACE_MS)
        world.settle()
        before = folder / f"s{number}" if number else None
        world.log.cut(folder / f"s{number + 1}", goes_on=before)
    return folder


@pytest.mark.parametrize("grows", [False, True], ids=["goes on", "tells all again"])
def test_what_rests_is_not_looked_at_again(
    spark: SparkSession, tmp_path: Path, grows: bool
) -> None:
    """A run costs what is new, also where each snapshot tells everything."""
    world = World(SEED, 2)
    folder = tmp_path / "snapshots"
    for number, history in enumerate(world.histories, 1):
        sent = [history.send(NEW_QUEUE) for _ in range(3)]
        history.end(history.lease(sent, NEW_QUEUE))
        before = folder / f"s{number - 1}" if number > 1 else None
        world.log.cut(folder / f"s{number}", goes_on=before, grows=grows)
    out = tmp_path / "out"
    first, second = backfill(spark, folder, out, since=None, until=None, grace_ms=GRACE_MS)
    assert (first.verdict, second.verdict) == (AuditVerdict.PASS, AuditVerdict.PASS)
    assert (first.judged, second.judged) == (["s1"], ["s2"])
    assert {row["topic"]: row["acked"] for row in second.balance} == {"topic-0": 3, "topic-1": 3}


def totals(report: Report) -> dict[tuple[str, str], list[int]]:
    names = ("acked", "in_flight", "retried", "dead", "voided", "overdue", "again_after_expiry")
    return {
        (row["topic"], row["consumer_group"]): [row[name] for name in names]
        for row in report.balance
        if any(row[name] for name in names)
    }


def states(spark: SparkSession, out: Path, snapshot_ids: list[str]) -> list[tuple[object, ...]]:
    frame = results.read(spark, out, "recon_message_state", snapshot_ids)
    return sorted(tuple(row) for row in frame.collect())


def all_bytes(out: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(out)): path.read_bytes()
        for path in out.glob("recon_*/**/*.parquet")
        if "recon_run" not in path.parts
    }


def drop_a_file(snapshot: Path) -> None:
    (snapshot / "pop_acks.parquet").unlink()


def truncate_a_file(snapshot: Path) -> None:
    path = snapshot / "commitlog_index.parquet"
    path.write_bytes(path.read_bytes()[:-1_000])


def change_a_byte(snapshot: Path) -> None:
    path = snapshot / "pop_checkpoints.parquet"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def drop_the_manifest(snapshot: Path) -> None:
    (snapshot / MANIFEST).unlink()


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (drop_a_file, "pop_acks.parquet is missing"),
        (truncate_a_file, "commitlog_index.parquet is not the file that was exported"),
        (change_a_byte, "pop_checkpoints.parquet is not the file that was exported"),
        (drop_the_manifest, "manifest.json is missing"),
    ],
)
def test_a_snapshot_that_is_not_whole_is_named_and_never_green(
    spark: SparkSession, tmp_path: Path, damage: Callable[[Path], None], named: str
) -> None:
    world = World(SEED, 3)
    world.live(50)
    world.log.cut(tmp_path / "s1")
    damage(tmp_path / "s1")
    report = audit(spark, tmp_path / "s1", tmp_path / "out")
    assert report.verdict is AuditVerdict.INCOMPLETE
    (problem,) = report.problems
    assert named in problem
    shutil.rmtree(tmp_path / "out" / "recon_run")
    assert not list((tmp_path / "out").rglob("*.parquet"))
