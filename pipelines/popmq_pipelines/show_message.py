"""Everything a snapshot knows about one message, in the order of the log; without Spark."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from popmq_pipelines.snapshot.columns import SNAPSHOT_TABLES

_TABLES = ("commitlog_index", "pop_checkpoints", "pop_acks")


def history(
    snapshot: Path, topic: str, queue_id: int, queue_offset: int
) -> list[tuple[str, dict[str, Any]]]:
    """(table, row) pairs. Raises `FileNotFoundError` when a table is missing."""
    place = [
        ("topic", "==", topic),
        ("queue_id", "==", queue_id),
        ("queue_offset", "==", queue_offset),
    ]
    found: list[tuple[str, dict[str, Any]]] = []
    for table in _TABLES:
        path = snapshot / f"{table}.parquet"
        rows = pq.read_table(path, filters=place, partitioning=None).to_pylist()
        found += [(table, row) for row in rows]
    return sorted(found, key=lambda pair: int(pair[1]["log_offset"]))


def lines(found: list[tuple[str, dict[str, Any]]]) -> list[str]:
    """One line per row: table, then its columns but those that name the message."""
    hidden = {"topic", "queue_id", "queue_offset"}
    told = []
    for table, row in found:
        names = [column.name for column in SNAPSHOT_TABLES[table] if column.name not in hidden]
        values = [f"{name}={row[name]}" for name in names if row[name] is not None]
        told.append(f"{table:<16} " + " ".join(values))
    return told
