"""Read a snapshot, audit it, write the tables and the verdict."""

from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from popmq_pipelines import io
from popmq_pipelines.io import Snapshot
from popmq_pipelines.manifest import code_version
from popmq_pipelines.transforms import findings, leases
from popmq_pipelines.transforms.audit import Audit, audit, lease_states
from popmq_pipelines.verdict import BALANCE_SHOWN_MAX, Report, judge

GRACE_MS: Final = 60_000
"""How long after its time a lease may wait for revive: a busy broker, a slow disk."""


def reconcile(
    spark: SparkSession, snapshot: Snapshot, out: Path | None, *, grace_ms: int
) -> Report:
    """Writes all tables of an audit below `out`, if given; of an incomplete snapshot the last."""
    io.clear_audit(out, snapshot.id)
    if snapshot.problems:
        report = _report(snapshot, {}, {}, [], [], [])
        return _finish(spark, snapshot, out, report, grace_ms)
    tables = io.read_tables(spark, snapshot)
    states = lease_states(tables, snapshot.whole, grace_ms).cache()
    try:
        found = audit(tables, states, snapshot.whole)
        report = _write(out, snapshot, found)
    finally:
        states.unpersist()
    return _finish(spark, snapshot, out, report, grace_ms)


def _write(out: Path | None, snapshot: Snapshot, found: Audit) -> Report:
    gaps, duplicates = found.gaps.cache(), found.duplicates.cache()
    balance, revive = found.balance.cache(), found.revive.cache()
    try:
        both = gaps.unionByName(duplicates)
        report = _report(
            snapshot,
            _counts(io.collect(leases.counts(found.states)), "state", "lease_count"),
            _counts(io.collect(findings.counts(both)), "kind", "finding_count"),
            io.collect(findings.shown(both)),
            io.collect(balance.limit(BALANCE_SHOWN_MAX)),
            io.collect(revive),
        )
        tables = {
            "recon_message_state": found.messages,
            "recon_gaps": findings.shown(gaps),
            "recon_duplicates": findings.shown(duplicates),
            "recon_revive": revive,
            "recon_balance": balance,
        }
        io.write_audit(out, snapshot.id, tables)
    finally:
        for frame in (gaps, duplicates, balance, revive):
            frame.unpersist()
    return report


def _report(
    snapshot: Snapshot,
    lease_counts: dict[str, int],
    finding_counts: dict[str, int],
    shown: list[dict[str, Any]],
    balance: list[dict[str, Any]],
    revive: list[dict[str, Any]],
) -> Report:
    manifest = snapshot.manifest
    return Report(
        snapshot_id=snapshot.id,
        verdict=judge(snapshot.problems, sum(finding_counts.values())),
        problems=snapshot.problems,
        as_of_ms=manifest.as_of_ms if manifest else None,
        log_start=manifest.log_start if manifest else None,
        log_end=manifest.log_end if manifest else None,
        lease_states=lease_counts,
        finding_counts=finding_counts,
        findings=shown,
        balance=balance,
        revive=revive,
    )


def _finish(
    spark: SparkSession, snapshot: Snapshot, out: Path | None, report: Report, grace_ms: int
) -> Report:
    manifest = snapshot.manifest
    files = manifest.files if manifest else {}
    row = {
        "verdict": report.verdict.value,
        "problems": "\n".join(report.problems),
        "finding_count": sum(report.finding_counts.values()),
        "lease_count": sum(report.lease_states.values()),
        "record_count": int(files.get("commitlog_index", {}).get("rows") or 0),
        "log_start": report.log_start,
        "log_end": report.log_end,
        "as_of_ms": report.as_of_ms,
        "grace_ms": grace_ms,
        "broker": manifest.broker if manifest else None,
        "cluster": manifest.cluster if manifest else None,
        "code_version": code_version(),
        "manifest_sha256": snapshot.manifest_sha256,
    }
    io.write_audit(out, snapshot.id, {"recon_run": io.run_frame(spark, row)})
    return report


def _counts(rows: list[dict[str, Any]], key: str, count: str) -> dict[str, int]:
    return {row[key]: row[count] for row in rows}
