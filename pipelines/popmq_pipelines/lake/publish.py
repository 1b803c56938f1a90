"""Brings a lake up to date with audits: one commit per table and broker, if something changed.

    LAKE/T         T of AUDIT_TABLES; partitions: broker, day
    LAKE/runs      a run and table → the table's version that has what the run knew

`runs` is written last. After a crash the next call writes the tables that are not up to date.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pyarrow as pa

from popmq_pipelines.lake import delta_table, lake_rows
from popmq_pipelines.lake.audits import AuditedTables, Partition, run_digest
from popmq_pipelines.snapshot.columns import AUDIT_TABLES

RUNS_TABLE: Final = "runs"
RUNS_SCHEMA: Final = pa.schema(
    [
        *lake_rows.WHOSE,
        ("table_name", pa.string()),
        ("version", pa.int64()),
        ("published_at", pa.timestamp("us", "UTC")),
    ]
)


@dataclass(frozen=True, slots=True)
class Published:
    """What one call did for one broker."""

    broker: str
    written: tuple[str, ...]
    """Tables that have a new version."""
    replaced_count: int
    """Partitions that are new or other ones."""
    expired_count: int
    """Partitions that the audit no longer has."""


def publish(audit: AuditedTables, lake: Path, *, keep_days: int, now_ms: int) -> Published:
    """`now_ms`: since 1970. Raises `LakeRefused`, `OSError`."""
    versions: dict[str, int] = {}
    written: list[str] = []
    replaced_count = expired_count = 0
    wanted = [list(audit.partitions(table)) for table in AUDIT_TABLES]
    for table, partitions in zip(AUDIT_TABLES, wanted, strict=True):
        version, replaced, expired = _bring(audit, table, partitions, lake, keep_days)
        versions[table] = version
        replaced_count += replaced
        expired_count += expired
        if replaced or expired:
            written.append(table)
    _note_run(audit, lake, versions, run_digest(wanted), keep_days, now_ms)
    return Published(audit.broker, tuple(written), replaced_count, expired_count)


def _bring(
    audit: AuditedTables, name: str, wanted: Sequence[Partition], lake: Path, keep_days: int
) -> tuple[int, int, int]:
    """(version that has `wanted`, partitions written, partitions removed)."""
    schema = lake_rows.schema(name)
    table = delta_table.opened(lake / name, schema, keep_days)
    there = delta_table.known(table, audit.broker)
    have = {(one.snapshot_id, one.source_digest) for one in wanted}
    changed = [one for one in wanted if (one.snapshot_id, one.source_digest) not in there]
    stale = {snapshot_id for snapshot_id, _ in there - have}
    run = audit.newest
    note = {"popmq.broker": audit.broker, "popmq.run": run[0] if run else ""}
    if changed:
        rows = pa.RecordBatchReader.from_batches(
            schema, lake_rows.batches(name, audit.broker, changed)
        )
        replaced_ids = stale | {one.snapshot_id for one in changed}
        delta_table.replace(table, audit.broker, replaced_ids, rows, note)
    elif stale:
        delta_table.remove(table, audit.broker, stale, note)
    version = table.version()
    if changed:
        days = {one.day for one in changed if one.day is not None}
        delta_table.compact(table, audit.broker, sorted(days))
    delta_table.vacuum(table, keep_days)
    return version, len(changed), len(stale - {one.snapshot_id for one in changed})


def _note_run(
    audit: AuditedTables,
    lake: Path,
    versions: dict[str, int],
    digest: str,
    keep_days: int,
    now_ms: int,
) -> None:
    """Nothing, if the run is there."""
    if audit.newest is None:
        return
    snapshot_id, day = audit.newest
    table = delta_table.opened(lake / RUNS_TABLE, RUNS_SCHEMA, keep_days)
    if (snapshot_id, digest) in delta_table.known(table, audit.broker):
        return
    at = datetime.fromtimestamp(now_ms / 1000, UTC)
    whose = {
        "broker": audit.broker,
        "day": day,
        "snapshot_id": snapshot_id,
        "source_digest": digest,
        "published_at": at,
    }
    rows = [{**whose, "table_name": name, "version": one} for name, one in versions.items()]
    batch = pa.RecordBatch.from_pylist(rows, schema=RUNS_SCHEMA)
    reader = pa.RecordBatchReader.from_batches(RUNS_SCHEMA, [batch])
    note = {"popmq.broker": audit.broker, "popmq.run": snapshot_id}
    delta_table.replace(table, audit.broker, [snapshot_id], reader, note)
    delta_table.vacuum(table, keep_days)
