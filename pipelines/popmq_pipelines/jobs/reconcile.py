"""Audit a snapshot: read what is new and what that touches, judge it, write tables and verdict."""

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from popmq_pipelines.audit import latency, order, overview, skips
from popmq_pipelines.audit.audit import Audit, GroupTables, QueueTables, audit, lease_states
from popmq_pipelines.audit.leases import OPEN, Rules
from popmq_pipelines.audit.verdict import Report
from popmq_pipelines.frames import queues
from popmq_pipelines.jobs.report import incomplete, lost, report, run_row
from popmq_pipelines.tables import evidence as gathering
from popmq_pipelines.tables import ledger as ledgers
from popmq_pipelines.tables import ledger_tables, opened_snapshot, results
from popmq_pipelines.tables.ledger import EPOCHS_MAX, Ledger
from popmq_pipelines.tables.opened_snapshot import OpenedSnapshot
from popmq_pipelines.tables.session import fitted

GRACE_MS: Final = 60_000
"""How long after its time a lease may wait for revive: a busy broker, a slow disk."""

WENT_BACK: Final = "log went back"
ANOTHER_LOG: Final = "another log"
ACCEPT: Final = (
    "A disk was lost, wiped or exchanged, or a backup restored. Once that is known and accepted, "
    "begin a new audit: take its directory away."
)
RECORD: Final = ("topic", "queue_id", "queue_offset", "store_timestamp_ms", "message_id")
"""What makes a record that lies where another one was another record."""


def reconcile(
    spark: SparkSession, snapshot: OpenedSnapshot, out: Path | None, *, grace_ms: int
) -> Report:
    """Writes the tables below `out`, where runs before may have left theirs; without it, nothing
    stays. Raises `LedgerDamaged`."""
    if out is None:
        with TemporaryDirectory(prefix="popmq-audit-") as folder:
            return reconcile(spark, snapshot, Path(folder), grace_ms=grace_ms)
    ledger = take_back(out, snapshot.id)
    with fitted(spark, snapshot.manifest.row_count if snapshot.manifest else 0):
        told = _lost(snapshot, ledger) or _unsaid(snapshot, ledger)
        if told is None:
            told = _judge(spark, snapshot, out, ledger, grace_ms)
        row = results.run_frame(spark, run_row(told, snapshot, grace_ms))
        results.write_run(out, "recon_run", row, snapshot.id)
    return told


def take_back(out: Path, snapshot_id: str) -> Ledger:
    """The ledger before this snapshot; what it and later ones left is removed."""
    folder = ledger_tables.folder(out)
    ledger = ledgers.load(folder)
    before = ledgers.rewound(ledger, snapshot_id)
    results.clear(out, snapshot_id)
    for epoch in ledger.epochs[len(before.epochs) :]:
        results.clear(out, epoch.snapshot_id)
        ledger_tables.drop(out, epoch.number)
    if before != ledger:
        ledgers.save(folder, before)
    return before


def _lost(snapshot: OpenedSnapshot, ledger: Ledger) -> Report | None:
    """None: the broker has what was audited, as far as the snapshot can tell."""
    manifest, newest = snapshot.manifest, ledger.newest
    if manifest is None or newest is None:
        return None
    if ledgers.went_back(ledger, manifest):
        what = (
            f"the log of {ledger.broker} ended at log offset {newest.log_end} in "
            f"{newest.snapshot_id}, and ends at {manifest.log_end} now: all behind it is lost. "
        )
        return lost(snapshot, ledger, WENT_BACK, what + ACCEPT)
    last = newest.last_row
    if snapshot.problems or last is None or manifest.log_from > last["log_offset"]:
        return None
    if _same(opened_snapshot.record_at(snapshot, last["log_offset"]), last):
        return None
    what = (
        f"the log is not the one that was audited: at log offset {last['log_offset']} "
        f"{newest.snapshot_id} has {last['topic']} queue {last['queue_id']} offset "
        f"{last['queue_offset']}, this one does not. "
    )
    return lost(snapshot, ledger, ANOTHER_LOG, what + ACCEPT)


def _unsaid(snapshot: OpenedSnapshot, ledger: Ledger) -> Report | None:
    problems = list(snapshot.problems) or ledgers.problems(ledger, snapshot.whole)
    return incomplete(snapshot, problems) if problems else None


def _same(found: dict[str, Any] | None, known: dict[str, Any]) -> bool:
    return found is not None and all(found[name] == known[name] for name in RECORD)


def _judge(
    spark: SparkSession, snapshot: OpenedSnapshot, out: Path, before: Ledger, grace_ms: int
) -> Report:
    manifest = snapshot.whole
    fresh = gathering.keep(spark, out, before, snapshot)
    judged = ledgers.judged(
        before, fresh.epoch.number, fresh.epoch.touched, manifest.as_of_ms - grace_ms
    )
    epoch = replace(fresh.epoch, judged=judged)
    ledger = Ledger(manifest.broker, (*before.epochs, epoch))
    evidence = gathering.gather(spark, out, ledger, fresh, judged)
    rules = Rules(
        as_of_ms=manifest.as_of_ms,
        running_since_ms=manifest.running_since_ms,
        grace_ms=grace_ms,
        kept_from=opened_snapshot.kept_from(snapshot),
    )
    with ExitStack() as stack:

        def kept(name: str, frame: DataFrame) -> DataFrame:
            return stack.enter_context(results.kept(out, name, frame))

        runs = kept("runs", queues.runs(evidence.messages))
        doubted = kept("doubted", queues.doubtful(evidence.messages, runs))
        seen = QueueTables(runs, doubted, queues.unique(evidence.messages, doubted))
        states = kept("states", lease_states(evidence, seen, rules))
        bounds = kept("bounds", skips.bounds(evidence.told))
        in_order = order.leases_in_order(evidence.told, states, seen.unique, bounds)
        gone_on = GroupTables(bounds, kept("in_order", in_order))
        found = audit(evidence, seen, states, gone_on, rules)
        found = replace(
            found,
            arrivals=kept("arrivals", found.arrivals),
            settled=kept("settled", found.settled),
        )
        _write(out, ledger, found)
        ledger = _closed(out, ledger, states, found)
        told = report(spark, snapshot, out, ledger, evidence.messages, states)
    ledgers.save(ledger_tables.folder(out), ledger)
    return told


def _write(out: Path, ledger: Ledger, found: Audit) -> None:
    epoch = ledger.epochs[-1]
    targets = ledger.names(epoch.judged)
    sources = ledgers.sources(ledger, epoch.judged)
    leases_at_most = sum(one.lease_count for one in sources)
    results.write(out, "recon_message_state", found.messages, targets, row_count=leases_at_most)
    results.write(out, "recon_gaps", found.gaps, targets)
    results.write(out, "recon_duplicates", found.duplicates, targets)
    results.write(out, "recon_balance", found.balance, targets)
    results.write(out, "recon_latency", latency.latency(found.settled), targets)
    times = latency.times(found.settled, found.arrivals)
    results.write(out, "recon_times", times, targets)
    results.write(out, "recon_traffic", latency.traffic(found.arrivals), targets)
    results.write_run(out, "recon_revive", found.revive, epoch.snapshot_id)


def _closed(out: Path, ledger: Ledger, states: DataFrame, found: Audit) -> Ledger:
    """The ledger with what the next run has to know of this one."""
    epoch = ledger.epochs[-1]
    open_leases = states.where(F.col("state").isin(OPEN)).groupBy("epoch").agg(F.count("*"))
    still_open = {row["epoch"] for row in results.taken(open_leases, EPOCHS_MAX)}
    for number, snapshot_id in ledger.names(epoch.judged).items():
        if any(results.row_count(out, table, snapshot_id) for table in results.FINDINGS):
            still_open.add(number)
    (journal,) = results.taken(overview.revive_of_run(found.revive), 1)
    before = ledger.epochs[-2].wakes if len(ledger.epochs) > 1 else {}
    judged = {str(number) for number in epoch.judged}
    first = found.wakes.groupBy("epoch").agg(F.min("wakes_ms").alias("wakes_ms"))
    woken = {str(row["epoch"]): row["wakes_ms"] for row in results.taken(first, EPOCHS_MAX)}
    closed = replace(
        epoch,
        wakes={
            **{name: at_ms for name, at_ms in before.items() if name not in judged},
            **{name: at_ms for name, at_ms in woken.items() if name in judged},
        },
        still_open=sorted(still_open),
        revive_lag_count=journal["lag_count"],
        oldest_open_age_ms=journal["oldest_open_age_ms"],
    )
    return replace(ledger, epochs=(*ledger.epochs[:-1], closed), again=())
