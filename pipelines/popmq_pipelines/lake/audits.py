"""What audits have left on disk: of each table, the partitions that the audit knows now.

OUT/T/snapshot_id=S/part-00000.parquet      an audit's own directory
OUT/BROKER/report/T/snapshot_id=S/…         what `audit` writes for several brokers
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

from popmq_pipelines.snapshot.columns import AUDIT_TABLES
from popmq_pipelines.snapshot.manifest import digest
from popmq_pipelines.tables import ledger as ledgers
from popmq_pipelines.tables.ledger import Ledger

RUNS: Final = "recon_run"
"""Its partitions are runs, also those that gave no verdict; the ledger names all others."""
FORMAT: Final = 1
"""Goes into each digest: a lake that was written in another way is written again."""


class NothingAudited(Exception):
    """No audit lies there: name a directory that `backfill`, `reconcile` or `audit` wrote."""


class OneNameTwice(Exception):
    """Two audits have one name, and the lake tells them apart by it: publish one of them."""


@dataclass(frozen=True, slots=True)
class Partition:
    """The rows of one snapshot in one table; there is at least one."""

    snapshot_id: str
    day: date | None
    """Of the snapshot, in UTC; None: nobody told it."""
    files: tuple[Path, ...]
    source_digest: str
    """Over the bytes of `files`."""


@dataclass(frozen=True, slots=True)
class AuditedTables:
    broker: str
    """By which the lake tells audits apart."""
    out: Path
    ledger: Ledger

    def partitions(self, table: str) -> Iterator[Partition]:
        """In the order of the log. Raises `OSError`."""
        if table == RUNS:
            folders = sorted((self.out / RUNS).glob("snapshot_id=*"))
            ids = [folder.name.partition("=")[2] for folder in folders]
        else:
            ids = [epoch.snapshot_id for epoch in self.ledger.epochs]
        moments = {one.snapshot_id: one.moment_ms for one in self.ledger.epochs}
        for snapshot_id in ids:
            folder = self.out / table / f"snapshot_id={snapshot_id}"
            files = tuple(sorted(folder.glob("part-*.parquet")))
            if any(pq.read_metadata(file).num_rows for file in files):
                day = _day(moments.get(snapshot_id, 0))
                yield Partition(snapshot_id, day, files, source_digest(files))

    @property
    def newest(self) -> tuple[str, date | None] | None:
        """Snapshot and day of the last run that judged something."""
        newest = self.ledger.newest
        return (newest.snapshot_id, _day(newest.moment_ms)) if newest else None


def find(outs: Iterable[Path]) -> list[AuditedTables]:
    """Raises `NothingAudited`, `OneNameTwice`, `LedgerDamaged`, `OSError`."""
    found: dict[str, AuditedTables] = {}
    for out in outs:
        if (out / RUNS).is_dir():
            ledger = ledgers.load(out / "ledger")
            here = [AuditedTables(ledger.broker or out.resolve().name, out, ledger)]
        else:
            here = [
                AuditedTables(place.name, report, ledgers.load(report / "ledger"))
                for place in sorted(out.glob("*"))
                if ((report := place / "report") / RUNS).is_dir()
            ]
        if not here:
            raise NothingAudited(f"{out}: {NothingAudited.__doc__}")
        for one in here:
            if one.broker in found:
                raise OneNameTwice(f"{one.out}: {one.broker}: {OneNameTwice.__doc__}")
            found[one.broker] = one
    return [found[name] for name in sorted(found)]


def source_digest(files: Iterable[Path]) -> str:
    """16 hex digits over names and bytes. Raises `OSError`."""
    told = hashlib.sha256(f"{FORMAT}\n".encode())
    for file in files:
        told.update(f"{file.name} {digest(file)}\n".encode())
    return told.hexdigest()[:16]


def run_digest(wanted: Iterable[Iterable[Partition]]) -> str:
    """16 hex digits over all that an audit knows, table by table."""
    told = hashlib.sha256()
    for table, partitions in zip(AUDIT_TABLES, wanted, strict=True):
        for one in partitions:
            told.update(f"{table} {one.snapshot_id} {one.source_digest}\n".encode())
    return told.hexdigest()[:16]


def _day(moment_ms: int) -> date | None:
    return datetime.fromtimestamp(moment_ms / 1000, UTC).date() if moment_ms else None
