"""The commands of the audit: audit, reconcile, backfill, report, compact, counts, schedule."""

import argparse
import os
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from popmq_pipelines.command_parts import (
    alone_in,
    fail,
    refusal,
    report_options,
    spark_options,
    start_spark,
    tell,
    tell_again,
    tell_last,
    where_options,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SKEW_S: Final = 5.0
LATE_INTERVALS: Final = 3
"""Of a schedule, without a new snapshot."""


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    audit = commands.add_parser(
        "audit", help="export and audit the data directories of all brokers; the worst verdict"
    )
    audit.add_argument("data_dirs", type=Path, nargs="+", metavar="DATA_DIR", help="…/BROKER")
    audit.add_argument(
        "--out", type=Path, default=Path(), help="a directory for all audits; default: this one"
    )
    _skew_option(audit)
    spark_options(audit)
    reconcile = commands.add_parser("reconcile", help="audit a snapshot with Spark")
    reconcile.add_argument("--snapshot", type=Path, required=True)
    reconcile.add_argument("--out", type=Path, help="tables and memory; default: nothing stays")
    spark_options(reconcile)
    report_options(reconcile)
    backfill = commands.add_parser(
        "backfill", help="audit all snapshots of a folder that were not yet, or a range again"
    )
    backfill.add_argument("--snapshots", type=Path, required=True)
    backfill.add_argument("--out", type=Path, required=True, help="tables and memory")
    backfill.add_argument("--from", dest="since", metavar="ID", help="again from this one on")
    backfill.add_argument("--to", dest="until", metavar="ID", help="the last one")
    backfill.add_argument(
        "--max-age-s",
        type=float,
        help="INCOMPLETE when the newest snapshot is older; default: three intervals of the "
        "schedule that runs this, else any age will do",
    )
    spark_options(backfill)
    report_options(backfill)
    report = commands.add_parser("report", help="the last report again, without Spark")
    report.add_argument("--out", type=Path, required=True, help="an audit's directory")
    report_options(report)
    compact = commands.add_parser("compact", help="forget what the broker has deleted")
    compact.add_argument("--out", type=Path, required=True, help="an audit's directory")
    compact.add_argument("--snapshot", type=Path, required=True, help="the newest one")
    counts = commands.add_parser(
        "counts", help="balance what clients have counted with the snapshots of all brokers"
    )
    counts.add_argument(
        "places", type=Path, nargs="+", metavar="PLACE", help="snapshots, or folders of them"
    )
    counts.add_argument("--json", action="store_true", help="print the result as JSON")
    _skew_option(counts)
    where_options(counts)
    schedule = commands.add_parser(
        "schedule", help="run a command every so often; what is missed is made up for"
    )
    schedule.add_argument("--every-s", type=float, default=600.0, help="default: %(default)s")
    schedule.add_argument("--state", type=Path, required=True, help="a file: when it ran last")
    schedule.add_argument("--prometheus", type=Path, help="write figures for a textfile collector")
    schedule.add_argument("run", nargs="+", metavar="COMMAND")


def _skew_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--skew-s",
        type=float,
        default=SKEW_S,
        help="by how much brokers' clocks may differ; default: %(default)s",
    )


def _audit(options: argparse.Namespace) -> int:
    from popmq_pipelines.jobs import audit_both_ends, report_cluster
    from popmq_pipelines.jobs.audit_brokers import audit_brokers
    from popmq_pipelines.tables import session

    for taken in (audit_both_ends.FOLDER, report_cluster.FOLDER):
        if any(path.name == taken for path in options.data_dirs):
            return fail(f"a data directory is named {taken}; a report of that name goes there")
    if len({path.name for path in options.data_dirs}) < len(options.data_dirs):
        return fail("two data directories have the same last name: it is the broker's")
    with alone_in(options.out), ExitStack() as stack:
        if left := os.environ.get("SPARK_LOCAL_DIRS"):  # by a run that was killed
            shutil.rmtree(left, ignore_errors=True)

        def start(row_count: int) -> "SparkSession":
            spark = start_spark("popmq-audit", options, row_count)
            stack.callback(spark.stop)
            return spark

        grace_ms = int(options.grace_s * 1000)
        try:
            skew_ms = int(options.skew_s * 1000)
            return audit_brokers(
                options.data_dirs, options.out, start, grace_ms=grace_ms, skew_ms=skew_ms
            )
        except session.JavaMissing as wrong:
            return fail(str(wrong))


def _reconcile(options: argparse.Namespace) -> int:
    from popmq_pipelines.jobs.backfill import row_count
    from popmq_pipelines.jobs.reconcile import reconcile
    from popmq_pipelines.snapshot import seal
    from popmq_pipelines.tables import ledger, ledger_tables, opened_snapshot, session

    if wrong_there := refusal(options.snapshot, options.grace_s):
        return fail(wrong_there)
    audited: Mapping[str, str] = {}
    try:
        key = seal.key_of(os.environ)
        if options.out is not None:
            audited = ledger.load(ledger_tables.folder(options.out)).audited
        spark = start_spark("popmq-reconcile", options, row_count([options.snapshot]))
    except (session.JavaMissing, ledger.LedgerDamaged, seal.BadKey) as wrong:
        return fail(str(wrong))
    try:
        snapshot = opened_snapshot.open_next(options.snapshot, audited, key)
        grace_ms = int(options.grace_s * 1000)
        report = reconcile(spark, snapshot, options.out, grace_ms=grace_ms)
    finally:
        spark.stop()
    return tell(report, options.snapshot, options, options.out)


def _backfill(options: argparse.Namespace) -> int:
    from popmq_pipelines.audit.verdict import AuditVerdict
    from popmq_pipelines.jobs.backfill import NoSuchSnapshot, backfill, pending, row_count, too_old
    from popmq_pipelines.snapshot.seal import BadKey
    from popmq_pipelines.tables import session
    from popmq_pipelines.tables.ledger import LedgerDamaged

    if wrong_there := refusal(options.snapshots, options.grace_s):
        return fail(wrong_there)
    try:
        fresh = pending(options.snapshots, options.out)
        row_count_known = None if options.since else row_count(fresh)
        spark = start_spark("popmq-backfill", options, row_count_known)
    except (session.JavaMissing, LedgerDamaged) as wrong:
        return fail(str(wrong))
    codes = [0]
    try:
        backfill(
            spark,
            options.snapshots,
            options.out,
            since=options.since,
            until=options.until,
            grace_ms=int(options.grace_s * 1000),
            tell=lambda report, folder: codes.append(tell(report, folder, options, options.out)),
        )
    except (NoSuchSnapshot, LedgerDamaged, BadKey) as wrong:
        return fail(str(wrong))
    finally:
        spark.stop()
    late = too_old(options.snapshots, options.out, _max_age_s(options), time.time())
    if late is not None and codes[-1] != AuditVerdict.FAIL.exit_code:
        return tell(late, options.snapshots, options, options.out)
    if len(codes) == 1:
        return tell_last(options)
    return codes[-1]


def _max_age_s(options: argparse.Namespace) -> float:
    """0: any age will do."""
    from popmq_pipelines.report.schedule import EVERY_S

    if options.max_age_s is not None:
        return float(options.max_age_s)
    return LATE_INTERVALS * float(os.environ.get(EVERY_S, 0))


def _counts(options: argparse.Namespace) -> int:
    from popmq_pipelines.jobs import balance_counts
    from popmq_pipelines.snapshot.manifest import NoSnapshot
    from popmq_pipelines.snapshot.seal import BadKey, key_of
    from popmq_pipelines.tables import session

    try:
        snapshots = balance_counts.newest(options.places, key_of(os.environ))
        rows = sum(one.manifest.row_count for one in snapshots if one.manifest is not None)
        spark = start_spark("popmq-counts", options, rows)
    except (NoSnapshot, BadKey, session.JavaMissing) as wrong:
        return fail(str(wrong))
    try:
        found = balance_counts.balance_counts(spark, snapshots, skew_ms=int(options.skew_s * 1000))
    finally:
        spark.stop()
    print(balance_counts.as_json(found) if options.json else balance_counts.text(found))
    return found.verdict.exit_code


def _compact(options: argparse.Namespace) -> int:
    from popmq_pipelines.jobs.compact import compact
    from popmq_pipelines.snapshot import manifest
    from popmq_pipelines.tables.ledger import LedgerDamaged

    try:
        gone = compact(options.out, manifest.load(options.snapshot).log_start)
    except (manifest.NoSnapshot, LedgerDamaged) as wrong:
        return fail(str(wrong))
    print(f"{gone.epoch_count} snapshots forgotten, {gone.freed_bytes:,} bytes of rows dropped")
    return 0


def _schedule(options: argparse.Namespace) -> int:
    from popmq_pipelines.report import schedule

    if options.every_s < 1:
        return fail(f"--every-s {options.every_s}: at least 1 is needed")
    return schedule.forever(options.run, options.state, options.every_s, options.prometheus)


COMMANDS: Final[Mapping[str, Callable[[Any], int]]] = {
    "audit": _audit,
    "reconcile": _reconcile,
    "backfill": _backfill,
    "report": tell_again,
    "compact": _compact,
    "counts": _counts,
    "schedule": _schedule,
}
