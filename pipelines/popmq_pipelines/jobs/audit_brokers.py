"""Audit the data directories of several brokers, one after the other, in one Spark.

    OUT/BROKER/snapshots/…   the newest snapshot; older ones go, the ledger has links to their files
    OUT/BROKER/report/…      tables and memory, and beside them report.html and report.md
    OUT/BROKER.prom          figures
    OUT/both-ends/report/…, OUT/both-ends.prom
                             the counts of clients, held against all of them (audit_both_ends.py)
    OUT/cluster/…            one report of all of these (report_cluster.py)

BROKER is the last part of a data directory's name. A broker that cannot be read, or was audited
before and is not asked about any more, is INCOMPLETE: what it said last is not repeated.
"""

import os
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from popmq_pipelines.audit.verdict import AuditVerdict, Report
from popmq_pipelines.cluster import cluster_text
from popmq_pipelines.export.snapshot_writer import CannotExport, export
from popmq_pipelines.jobs import audit_both_ends
from popmq_pipelines.jobs.backfill import backfill
from popmq_pipelines.jobs.compact import compact
from popmq_pipelines.jobs.report_cluster import report_cluster
from popmq_pipelines.report.publish import ReportTargets, publish
from popmq_pipelines.snapshot import manifest as manifests
from popmq_pipelines.snapshot.manifest import NoSnapshot
from popmq_pipelines.snapshot.seal import BadKey, key_of
from popmq_pipelines.tables import ledger as ledgers
from popmq_pipelines.tables import ledger_tables
from popmq_pipelines.tables.ledger import LedgerDamaged

CRASHED: Final = 70
ORDER: Final = (AuditVerdict.FAIL.exit_code, CRASHED, AuditVerdict.INCOMPLETE.exit_code, 0)
"""Exit codes, the one first that is told when there are several."""

Start = Callable[[int], SparkSession]
"""Given how many rows there are to judge."""


def audit_brokers(
    data_dirs: Sequence[Path], out: Path, start: Start, *, grace_ms: int, skew_ms: int
) -> int:
    """`start` is called once, when there is something to judge. `skew_ms`: by how much the clocks
    of brokers may differ. Returns an exit code."""
    codes = []
    exported: dict[str, Path] = {}
    row_count = 0
    for data_dir in data_dirs:
        broker = data_dir.name
        snapshot = out / broker / "snapshots" / f"{broker}-{_now()}"
        try:
            key = key_of(os.environ)
            row_count += export(data_dir, snapshot, snapshot.name, key).row_count
            exported[broker] = snapshot
        except (CannotExport, BadKey, OSError) as wrong:
            codes.append(_unread(out, broker, f"{broker} cannot be read: {wrong}"))
    for broker in _left_out(out, {data_dir.name for data_dir in data_dirs}):
        why = f"{broker} was audited before and is not now: name its data directory as well; or, "
        why += f"if it is gone for good, delete {out / broker} and {broker}.prom beside it"
        codes.append(_unread(out, broker, why))
    unread_count = len(codes)
    spark = start(row_count) if exported else None
    for broker, snapshot in exported.items():
        assert spark is not None
        try:
            codes.append(_audit(spark, out, broker, snapshot, grace_ms))
        except Exception:
            traceback.print_exc()
            _unread(out, broker, "its audit crashed; the log has the reason")
            codes.append(CRASHED)
    if spark is not None and not unread_count:
        codes.append(_both_ends(spark, out, list(exported.values()), skew_ms))
    elif (out / audit_both_ends.FOLDER).exists():
        why = "not every broker could be read"
        codes.append(_tell_both_ends(audit_both_ends.not_read(why), out))
    codes.append(_tell_cluster(out))
    return next(code for code in ORDER if code in codes or code == 0)


def _now() -> str:
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())


def _audit(spark: SparkSession, out: Path, broker: str, snapshot: Path, grace_ms: int) -> int:
    report = _targets(out, broker).out
    assert report is not None
    codes: list[int] = []
    try:
        backfill(
            spark,
            snapshot.parent,
            report,
            since=None,
            until=None,
            grace_ms=grace_ms,
            tell=lambda told, folder: codes.append(_tell(told, folder, out, broker)),
        )
        if not codes:  # it ends where the last one did, and was taken in the same moment
            return _unread(out, broker, f"{snapshot.name} is no later than the last one")
        compact(report, manifests.load(snapshot).log_start)
    except (LedgerDamaged, NoSnapshot) as wrong:
        return _unread(out, broker, str(wrong))
    for other in snapshot.parent.iterdir():
        if other != snapshot:
            shutil.rmtree(other)
    return codes[-1]


def _both_ends(spark: SparkSession, out: Path, snapshots: Sequence[Path], skew_ms: int) -> int:
    """0 as well when no client counts."""
    try:
        key = key_of(os.environ)
        report = audit_both_ends.audit_both_ends(spark, snapshots, key, skew_ms=skew_ms)
    except Exception:
        traceback.print_exc()
        why = "the balance of the clients' counts crashed; the log has the reason"
        _tell_both_ends(audit_both_ends.not_read(why), out)
        return CRASHED
    return 0 if report is None else _tell_both_ends(report, out)


def _tell_both_ends(report: Report, out: Path) -> int:
    return _tell(report, out, out, audit_both_ends.FOLDER)


def _tell_cluster(out: Path) -> int:
    try:
        report = report_cluster(out, time.time_ns() // 1_000_000)
    except Exception:
        traceback.print_exc()
        return CRASHED
    print(f"\n{cluster_text.text(report)}", flush=True)
    return report.verdict.exit_code


def _unread(out: Path, broker: str, why: str) -> int:
    """INCOMPLETE, without a snapshot."""
    ledger = _known(out, broker)
    report = Report(
        snapshot_id=f"none of {broker}",
        verdict=AuditVerdict.INCOMPLETE,
        problems=[why],
        broker=ledger.broker or broker,
        watermark=ledger.watermark or None,
    )
    return _tell(report, out / broker / "snapshots", out, broker)


def _known(out: Path, broker: str) -> ledgers.Ledger:
    try:
        return ledgers.load(ledger_tables.folder(out / broker / "report"))
    except LedgerDamaged as wrong:
        print(wrong, file=sys.stderr)
        return ledgers.Ledger()


def _left_out(out: Path, named: set[str]) -> list[str]:
    """Brokers that have been audited here and are not among those named."""
    books = out.glob("*/report/ledger/ledger.json")
    return sorted({book.parents[2].name for book in books} - named)


def _tell(report: Report, snapshot: Path, out: Path, broker: str) -> int:
    (out / broker).mkdir(parents=True, exist_ok=True)
    return publish(report, snapshot, _targets(out, broker), time.time())


def _targets(out: Path, broker: str) -> ReportTargets:
    folder = out / broker
    return ReportTargets(
        out=folder / "report",
        html=folder / "report.html",
        markdown=folder / "report.md",
        prometheus=out / f"{broker}.prom",
    )
