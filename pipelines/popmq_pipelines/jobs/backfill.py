"""Audit all snapshots of a folder that were not audited yet, or a range of them again."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from pyspark.sql import SparkSession

from popmq_pipelines.audit.verdict import AuditVerdict, Report
from popmq_pipelines.jobs.reconcile import reconcile, take_back
from popmq_pipelines.snapshot import manifest as manifests
from popmq_pipelines.snapshot.manifest import NoSnapshot
from popmq_pipelines.snapshot.seal import key_of
from popmq_pipelines.tables import ledger as ledgers
from popmq_pipelines.tables import ledger_tables, opened_snapshot
from popmq_pipelines.tables.ledger import Ledger


class NoSuchSnapshot(Exception):
    """The folder has no finished snapshot of that id."""


def backfill(
    spark: SparkSession,
    snapshots: Path,
    out: Path,
    *,
    since: str | None,
    until: str | None,
    grace_ms: int,
    tell: Callable[[Report, Path], None] = lambda _report, _folder: None,
) -> list[Report]:
    """In the order of the log, those that the audit in `out` does not have. With `since` it goes
    back to before that one first; `until` is the last. One that is not whole is passed over: a
    later one that tells again what it told may go on. Raises `NoSuchSnapshot`, `LedgerDamaged`,
    `BadKey`."""
    folders = in_order(snapshots)
    for wanted in (since, until):
        if wanted is not None and wanted not in {name for name, _ in folders}:
            raise NoSuchSnapshot(f"{snapshots}: {wanted}: {NoSuchSnapshot.__doc__}")
    if since is not None:
        take_back(out, since)
    reports = []
    key = key_of(os.environ)
    book = ledger_tables.folder(out)

    def judge(folder: Path) -> None:
        snapshot = opened_snapshot.open_next(folder, ledgers.load(book).audited, key)
        report = reconcile(spark, snapshot, out, grace_ms=grace_ms)
        reports.append(report)
        tell(report, folder)

    for folder in unaudited(folders, ledgers.load(book), until):
        judge(folder)
    if until is None:
        for folder in shorter(folders, ledgers.load(book)):
            judge(folder)
    return reports


def row_count(folders: Sequence[Path]) -> int:
    """Of all tables of these snapshots; those without a manifest have none."""
    found = 0
    for folder in folders:
        with suppress(NoSnapshot):
            found += manifests.load(folder).row_count
    return found


def pending(snapshots: Path, out: Path) -> list[Path]:
    """Those that were not audited yet. Raises `LedgerDamaged`."""
    return unaudited(in_order(snapshots), ledgers.load(ledger_tables.folder(out)), None)


def in_order(snapshots: Path) -> list[tuple[str, Path]]:
    """(snapshot id, folder) of those that are finished, in the order of the log."""
    found = []
    for folder in sorted(path for path in snapshots.iterdir() if path.is_dir()):
        try:
            manifest = manifests.load(folder)
        except NoSnapshot:  # it is being written, or was given up
            continue
        found.append((manifest.log_end, manifest.as_of_ms, manifest.snapshot_id, folder))
    return [(snapshot_id, folder) for _, _, snapshot_id, folder in sorted(found)]


def too_old(snapshots: Path, out: Path, max_age_s: float, now_s: float) -> Report | None:
    """INCOMPLETE, when the newest snapshot is older than that: nobody has looked at what came
    since. `max_age_s` 0: any age will do."""
    found = [(manifests.load(folder).moment_ms, name) for name, folder in in_order(snapshots)]
    if not max_age_s or not found:
        return None
    taken_ms, name = max(found)
    age_s = now_s - taken_ms / 1000
    if age_s <= max_age_s:
        return None
    ledger = ledgers.load(ledger_tables.folder(out))
    why = (
        f"the newest snapshot was taken {age_s:.0f} s ago, {max_age_s:.0f} s are allowed: is the "
        "broker there, and does it export? (popmq export status)"
    )
    return Report(
        snapshot_id=name,
        verdict=AuditVerdict.INCOMPLETE,
        problems=[why],
        broker=ledger.broker,
        watermark=ledger.watermark or None,
    )


def shorter(folders: Sequence[tuple[str, Path]], ledger: Ledger) -> list[Path]:
    """The latest of those that were taken behind the last that was audited, of a log that is
    shorter: it lies before that one in the order of the log, and must not be passed over."""
    found = [
        (manifest.moment_ms, folder)
        for name, folder in folders
        if name not in ledger.audited
        and ledgers.went_back(ledger, manifest := manifests.load(folder))
    ]
    return [max(found)[1]] if found else []


def unaudited(folders: Sequence[tuple[str, Path]], ledger: Ledger, until: str | None) -> list[Path]:
    """Those behind the last that was audited, up to `until`."""
    known = [place for place, (name, _) in enumerate(folders) if name in ledger.audited]
    first = known[-1] + 1 if known else 0
    ends = [place for place, (name, _) in enumerate(folders) if name == until]
    last = ends[0] + 1 if ends else len(folders)
    return [folder for _, folder in folders[first:last]]
