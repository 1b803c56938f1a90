"""What the audit of one broker left behind, read without Spark and summed up as it is read.

The tables lie by epoch; one epoch's rows are in memory at a time, and of them only sums stay:
by topic and group, by owner and minute, by span and attempt.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from popmq_common.records.names import is_system_topic, is_user_topic
from popmq_pipelines.audit.verdict import Report
from popmq_pipelines.cluster.owners import Named, Owners, Said
from popmq_pipelines.report import last_report
from popmq_pipelines.snapshot.columns import AUDIT_TABLES, names
from popmq_pipelines.tables import ledger as ledgers
from popmq_pipelines.tables import ledger_tables, results
from popmq_pipelines.tables.ledger import Epoch, Ledger

BALANCE: Final = tuple(
    column.name for column in AUDIT_TABLES["recon_balance"] if column.kind == "bigint"
)[1:]
"""The counts of recon_balance, without its minute."""


@dataclass(frozen=True, slots=True)
class Traffic:
    count: int = 0
    size_bytes: int = 0

    def plus(self, other: "Traffic") -> "Traffic":
        return Traffic(self.count + other.count, self.size_bytes + other.size_bytes)


NOTHING: Final = Traffic()
Taken = tuple[str, str]
"""Topic and group."""
Timed = tuple[str, str, int]
"""Owner, span and attempt."""
_Queue = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedBroker:
    name: str
    """By which its audit lies there; two replicas have one broker name."""
    report: Report
    snapshot: Path
    """Of the report, for the commands that it names."""
    ledger: Ledger
    balance: Mapping[Taken, Counter[str]] = field(default_factory=dict)
    ready: Mapping[Taken, int] = field(default_factory=dict)
    """Messages at the group's position and behind it, or waiting in place."""
    skipped: Mapping[Taken, int] = field(default_factory=dict)
    stored: Mapping[str, Traffic] = field(default_factory=dict)
    """By topic."""
    minutes: Mapping[str, Mapping[int, Traffic]] = field(default_factory=dict)
    """Owner → minute → what was stored of topics that clients may use."""
    times: Mapping[Timed, Counter[int]] = field(default_factory=dict)
    """→ how long it took, in ms → how many messages."""


def owners_said(out: Path) -> Said:
    """By the newest snapshot that was audited. Raises `LedgerDamaged`, `OSError`."""
    return _owners(_Tables(out, ledgers.load(ledger_tables.folder(out))))


def read(name: str, out: Path, owners: Owners) -> AuditedBroker:
    """`out`: an audit's directory. Raises `NoReport`, `LedgerDamaged`, `OSError`."""
    report, snapshot = last_report.load(out)
    ledger = ledgers.load(ledger_tables.folder(out))
    tables = _Tables(out, ledger)
    stored, minutes = _traffic(tables, owners)
    return AuditedBroker(
        name=name,
        report=report,
        snapshot=snapshot,
        ledger=ledger,
        balance=_balance(tables),
        ready=_ready(tables),
        skipped=_skipped(tables),
        stored=stored,
        minutes=minutes,
        times=_times(tables, owners),
    )


def findings(out: Path) -> Iterator[dict[str, Any]]:
    """All of them, row by row, in the order of the epochs. Raises `LedgerDamaged`, `OSError`."""
    tables = _Tables(out, ledgers.load(ledger_tables.folder(out)))
    for table in results.FINDINGS:
        for rows in tables.of_epochs(table, names(table)):
            yield from rows.to_pylist()


@dataclass(frozen=True, slots=True)
class _Tables:
    out: Path
    ledger: Ledger

    def of_epochs(self, table: str, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Of the audit's tables, file by file. Older versions did not write all of them."""
        for epoch in self.ledger.epochs:
            yield from _files(results.partition(self.out, table, epoch.snapshot_id), columns)

    def kept(
        self, table: str, columns: Sequence[str], epochs: Sequence[Epoch]
    ) -> Iterator[pa.Table]:
        """Of what the ledger keeps."""
        for epoch in epochs:
            yield from _files(ledger_tables.place(self.out, epoch.number) / table, columns)


def _files(folder: Path, columns: Sequence[str]) -> Iterator[pa.Table]:
    for file in sorted(folder.glob("part-*.parquet")):
        yield pq.read_table(file, columns=list(columns), partitioning=None)


def _summed(rows: pa.Table, keys: Sequence[str], sums: Mapping[str, str]) -> Iterator[list[Any]]:
    """Keys, then sums in their order. `sums`: column → sum, min, max or count."""
    found = rows.group_by(list(keys)).aggregate(list(sums.items()))
    columns = [*keys, *(f"{name}_{how}" for name, how in sums.items())]
    for row in zip(*(found.column(name).to_pylist() for name in columns), strict=True):
        yield list(row)


def _balance(tables: _Tables) -> dict[Taken, Counter[str]]:
    found: dict[Taken, Counter[str]] = {}
    wanted = ["topic", "consumer_group", *BALANCE]
    for rows in tables.of_epochs("recon_balance", wanted):
        for topic, group, *counts in _summed(rows, wanted[:2], dict.fromkeys(BALANCE, "sum")):
            sums = found.setdefault((topic, group), Counter())
            sums.update(dict(zip(BALANCE, counts, strict=True)))
    return found


def _ready(tables: _Tables) -> dict[Taken, int]:
    found: Counter[Taken] = Counter()
    first, following = _bounds(tables)
    newest = tables.ledger.epochs[-1:]
    columns = ["topic", "consumer_group", "queue_id", "next_offset"]
    for rows in tables.kept("positions", columns, newest):
        for topic, group, queue_id, next_offset in zip(
            *(rows.column(name).to_pylist() for name in columns), strict=True
        ):
            end = following.get((topic, queue_id), 0)
            start = max(next_offset, first.get((topic, queue_id), 0))
            found[topic, group] += max(0, end - start)
    for rows in tables.of_epochs("recon_message_state", ["topic", "consumer_group", "state"]):
        in_place = rows.filter(pc.equal(rows.column("state"), "in_place"))
        for topic, group, count in _summed(in_place, columns[:2], {"state": "count"}):
            found[topic, group] += count
    return dict(found)


def _bounds(tables: _Tables) -> tuple[dict[_Queue, int], dict[_Queue, int]]:
    """Each queue's first offset that is known, and the one behind its last."""
    first: dict[_Queue, int] = {}
    following: dict[_Queue, int] = {}
    columns = ["topic", "queue_id", "first_offset", "last_offset"]
    for rows in tables.kept("spans", columns, tables.ledger.epochs):
        for topic, queue_id, lowest, highest in zip(
            *(rows.column(name).to_pylist() for name in columns), strict=True
        ):
            queue = (topic, queue_id)
            first[queue] = min(lowest, first.get(queue, lowest))
            following[queue] = max(highest + 1, following.get(queue, 0))
    return first, following


def _skipped(tables: _Tables) -> dict[Taken, int]:
    found: Counter[Taken] = Counter()
    columns = ["kind", "topic", "consumer_group", "offset_count"]
    for rows in tables.of_epochs("recon_gaps", columns):
        skipped = rows.filter(pc.equal(rows.column("kind"), "skipped"))
        for topic, group, count in _summed(skipped, columns[1:3], {"offset_count": "sum"}):
            found[topic, group or ""] += count
    return dict(found)


def _traffic(
    tables: _Tables, owners: Owners
) -> tuple[dict[str, Traffic], dict[str, dict[int, Traffic]]]:
    stored: dict[str, Traffic] = {}
    minutes: dict[str, dict[int, Traffic]] = {}
    columns = ["topic", "minute_ms", "stored", "stored_bytes"]
    for rows in tables.of_epochs("recon_traffic", columns):
        for topic, minute_ms, count, size in zip(
            *(rows.column(name).to_pylist() for name in columns), strict=True
        ):
            fresh = Traffic(count, size)
            stored[topic] = stored.get(topic, NOTHING).plus(fresh)
            if is_user_topic(topic):
                of_owner = minutes.setdefault(owners.of_topic(topic), {})
                of_owner[minute_ms] = of_owner.get(minute_ms, NOTHING).plus(fresh)
    return stored, minutes


def _times(tables: _Tables, owners: Owners) -> dict[Timed, Counter[int]]:
    found: dict[Timed, Counter[int]] = {}
    keys = ["topic", "consumer_group", "span", "attempt", "bin_ms"]
    for rows in tables.of_epochs("recon_times", [*keys, "message_count"]):
        for topic, group, span, attempt, bin_ms, count in _summed(
            rows, keys, {"message_count": "sum"}
        ):
            if not is_system_topic(topic):
                timed = (owners.of_taken(topic, group), span, attempt)
                found.setdefault(timed, Counter())[bin_ms] += count
    return found


def _owners(tables: _Tables) -> Said:
    """The epochs are in the order of the log, and so are the rows of each: the last one counts."""
    found: dict[Named, tuple[int, str]] = {}
    columns = ["kind", "name", "owner", "log_offset", "store_timestamp_ms"]
    for rows in tables.kept("owners", columns, tables.ledger.epochs):
        for row in sorted(rows.to_pylist(), key=lambda row: int(row["log_offset"])):
            found[row["kind"], row["name"]] = (row["store_timestamp_ms"], row["owner"] or "")
    return found
