"""From the tables of an audit to its report: bounded reads, sums and the first findings."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from popmq_pipelines.audit import leases, overview
from popmq_pipelines.audit.verdict import (
    BALANCE_SHOWN_MAX,
    FINDINGS_SHOWN_MAX,
    MINUTES_SHOWN_MAX,
    PLACES_SHOWN_MAX,
    RUNS_SHOWN_MAX,
    AuditVerdict,
    Report,
    judge,
)
from popmq_pipelines.frames import findings
from popmq_pipelines.snapshot.manifest import code_version
from popmq_pipelines.tables import results
from popmq_pipelines.tables.ledger import Ledger
from popmq_pipelines.tables.opened_snapshot import OpenedSnapshot

SPANS: int = 3
"""Kinds of latency: rows of a minute."""
KINDS_MAX: int = 100
"""Kinds of findings and states of leases; there are some twenty."""


def incomplete(snapshot: OpenedSnapshot, problems: Sequence[str]) -> Report:
    manifest = snapshot.manifest
    return Report(
        snapshot_id=snapshot.id,
        verdict=AuditVerdict.INCOMPLETE,
        problems=list(problems),
        as_of_ms=manifest.as_of_ms if manifest else None,
        log_start=manifest.log_start if manifest else None,
        log_end=manifest.log_end if manifest else None,
        broker=manifest.broker if manifest else "",
    )


def lost(snapshot: OpenedSnapshot, ledger: Ledger, kind: str, what: str) -> Report:
    """Of a broker that no longer has what was audited: FAIL, whatever else it says."""
    manifest = snapshot.manifest
    assert manifest is not None
    return Report(
        snapshot_id=snapshot.id,
        verdict=AuditVerdict.FAIL,
        problems=[what, *snapshot.problems],
        as_of_ms=manifest.as_of_ms,
        log_start=manifest.log_start,
        log_end=manifest.log_end,
        finding_counts={kind: 1},
        broker=ledger.broker,
        watermark=ledger.watermark,
    )


def report(
    spark: SparkSession,
    snapshot: OpenedSnapshot,
    out: Path,
    ledger: Ledger,
    messages: DataFrame,
    states: DataFrame,
) -> Report:
    """`ledger` with this run; `messages` and `states` are what it judged."""
    manifest, epoch = snapshot.whole, ledger.epochs[-1]
    everywhere = [one.snapshot_id for one in ledger.epochs]
    gaps = results.read(spark, out, "recon_gaps", everywhere)
    found = findings.union([gaps, results.read(spark, out, "recon_duplicates", everywhere)])
    kinds = results.taken(findings.counts(found), KINDS_MAX)
    counts = {row["kind"]: row["finding_count"] for row in kinds}
    balance = results.read(spark, out, "recon_balance", everywhere)
    latency = results.read(spark, out, "recon_latency", everywhere)
    revive = results.read(spark, out, "recon_revive", [snapshot.id])
    minutes = results.taken(overview.by_minute(balance), MINUTES_SHOWN_MAX)
    took = results.taken(overview.latency_by_minute(latency), SPANS * MINUTES_SHOWN_MAX)
    (totals,) = results.taken(overview.totals(balance), 1)
    states_counted = results.taken(leases.counts(states), KINDS_MAX)
    told = Report(
        snapshot_id=snapshot.id,
        verdict=judge((), sum(counts.values())),
        as_of_ms=manifest.as_of_ms,
        log_start=manifest.log_start,
        log_end=manifest.log_end,
        lease_states={row["state"]: row["lease_count"] for row in states_counted},
        finding_counts=counts,
        finding_places=results.taken(findings.places(found), PLACES_SHOWN_MAX) if counts else [],
        findings=_first(found, messages) if counts else [],
        balance=results.taken(overview.by_group(balance), BALANCE_SHOWN_MAX),
        revive=results.taken(revive.orderBy("queue_id"), BALANCE_SHOWN_MAX),
        broker=manifest.broker,
        watermark=manifest.log_end,
        judged=list(ledger.names(epoch.judged).values()),
        minutes=list(reversed(minutes)),
        latency=list(reversed(took)),
        again={
            "the lease ran out, or the message was given back": totals["again_after_expiry"],
            "the group's position was moved back": totals["again_after_move"],
        },
        revive_history=[
            {
                "as_of_ms": one.as_of_ms,
                "lag_count": one.revive_lag_count,
                "oldest_open_age_ms": one.oldest_open_age_ms,
            }
            for one in ledger.epochs[-RUNS_SHOWN_MAX:]
        ],
    )
    row = {"counts": json.dumps(counts), "manifest": snapshot.manifest_sha256}
    signed = results.signature(out, everywhere, row)
    return replace(told, signature=signed)


def _first(found: DataFrame, messages: DataFrame) -> list[dict[str, Any]]:
    return results.taken(findings.shown(found, messages, FINDINGS_SHOWN_MAX), FINDINGS_SHOWN_MAX)


def run_row(told: Report, snapshot: OpenedSnapshot, grace_ms: int) -> dict[str, Any]:
    """A row of recon_run."""
    manifest = snapshot.manifest
    files = manifest.files if manifest else {}
    return {
        "verdict": told.verdict.value,
        "problems": "\n".join(told.problems),
        "finding_count": sum(told.finding_counts.values()),
        "lease_count": sum(told.lease_states.values()),
        "record_count": int(files.get("commitlog_index", {}).get("rows") or 0),
        "log_start": told.log_start,
        "log_end": told.log_end,
        "as_of_ms": told.as_of_ms,
        "grace_ms": grace_ms,
        "broker": manifest.broker if manifest else None,
        "cluster": manifest.cluster if manifest else None,
        "code_version": code_version(),
        "manifest_sha256": snapshot.manifest_sha256,
        "watermark": told.watermark,
        "judged_epochs": "\n".join(told.judged),
        "signature": told.signature,
    }
