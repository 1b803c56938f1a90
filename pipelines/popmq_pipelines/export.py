"""Write a snapshot of a broker's data directory: Parquet per table, the manifest last.

A snapshot without a manifest was not finished; with one, every file's rows and SHA-256 are in it,
so whoever reads it knows that nothing is missing.

    manifest.json   snapshot, broker's cluster, log_end, as_of_ms, live, schema version, files
"""

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from popmq_broker.core import checkpoint as ck
from popmq_broker.core import offsets
from popmq_broker.core.record import Record
from popmq_common import properties as names
from popmq_common.names import REVIVE_PREFIX
from popmq_pipelines.log_reader import records
from popmq_pipelines.tables import SCHEMA_VERSION, TABLES, Row

MANIFEST = "manifest.json"
ROWS_PER_GROUP = 50_000
_ARROW = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "boolean": pa.bool_(),
}


class SnapshotExists(Exception):
    """A snapshot is never written over: choose another directory."""


def export(data_dir: Path, into: Path) -> dict[str, Any]:
    """The manifest. Raises `SnapshotExists`, `FileNotFoundError`."""
    if (into / MANIFEST).exists():
        raise SnapshotExists(f"{into} holds a snapshot already; choose another directory")
    log_files = data_dir / "commitlog"
    if not log_files.is_dir():
        raise FileNotFoundError(f"{data_dir} is no data directory: it has no commitlog/")
    into.mkdir(parents=True, exist_ok=True)
    live = _is_live(data_dir)
    writers = {name: TableWriter(into / f"{name}.parquet", name) for name in TABLES}
    last: Record | None = None
    count = 0
    for record in records(log_files):
        last = record
        count += 1
        for table, row in rows_of(record):
            writers[table].add(row)
    for row in _offset_rows(data_dir):
        writers["offsets"].add(row)
    last_ms = last.store_timestamp_ms if last else 0
    manifest = {
        "snapshot": into.name,
        "schemaVersion": SCHEMA_VERSION,
        "live": live,
        # A broker that does not run revives nothing: its leases are judged as of its last record.
        "asOfMs": time.time_ns() // 1_000_000 if live else last_ms,
        "logEnd": last.log_offset if last else 0,
        "records": count,
        "files": {name: writer.close() for name, writer in writers.items()},
    }
    fresh = into / f"{MANIFEST}.tmp"
    fresh.write_text(json.dumps(manifest, indent=1, sort_keys=True))
    os.replace(fresh, into / MANIFEST)
    return manifest


def rows_of(record: Record) -> Iterator[tuple[str, Row]]:
    """(table, row) of everything one record says."""
    if not record.topic.startswith(REVIVE_PREFIX):
        yield "messages", _message_row(record)
        return
    tag = names.decode(record.properties).get(names.TAGS)
    where = f"log offset {record.log_offset}"
    if tag == ck.CHECKPOINT_TAG:
        yield from _checkpoint_rows(ck.decode_checkpoint(record.body, where=where), record)
    elif tag in (ck.ACK_TAG, ck.BATCH_ACK_TAG):
        ack = ck.decode_ack(record.body, where=where)
        for offset in ack.offsets:
            yield (
                "acks",
                {
                    "consumer_group": ack.group,
                    "topic": ack.topic,
                    "queue_id": ack.queue_id,
                    "queue_offset": offset,
                    "generation": ack.generation,
                    "expired": ack.expired,
                    "log_offset": record.log_offset,
                },
            )


def _message_row(record: Record) -> Row:
    return {
        "topic": record.topic,
        "queue_id": record.queue_id,
        "queue_offset": record.queue_offset,
        "log_offset": record.log_offset,
        "size_bytes": len(record.body),
        "store_timestamp_ms": record.store_timestamp_ms,
        "message_id": names.decode(record.properties).get(names.UNIQ_KEY, ""),
        "reconsume_times": record.reconsume_times,
    }


def _checkpoint_rows(checkpoint: ck.Checkpoint, record: Record) -> Iterator[tuple[str, Row]]:
    key = {
        "consumer_group": checkpoint.group,
        "topic": checkpoint.topic,
        "queue_id": checkpoint.queue_id,
        "log_offset": record.log_offset,
    }
    if not checkpoint.offsets:
        yield "moves", {**key, "position": checkpoint.start_offset}
    for offset in checkpoint.offsets:
        yield (
            "checkpoints",
            {
                **key,
                "queue_offset": offset,
                "generation": checkpoint.generation,
                "pop_time_ms": checkpoint.pop_time_ms,
                "due_ms": checkpoint.due_ms,
            },
        )


def _offset_rows(data_dir: Path) -> Iterator[Row]:
    path = data_dir / "config" / "consumerOffset.json"
    if not path.exists():
        return
    for key, offset in offsets.decode(path.read_text(), where=str(path)).offsets.items():
        yield {
            "consumer_group": key.group,
            "topic": key.topic,
            "queue_id": key.queue_id,
            "committed_offset": offset,
        }


def _is_live(data_dir: Path) -> bool:
    """Whether a broker holds the directory's lock."""
    try:
        with open(data_dir / "lock", "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


class TableWriter:
    """One Parquet file, written in row groups, so memory does not grow with the log."""

    def __init__(self, path: Path, table: str) -> None:
        self._path = path
        fields = [(name, _ARROW[kind]) for name, kind in TABLES[table].items()]
        self._schema = pa.schema(fields)
        self._writer = pq.ParquetWriter(path, self._schema)
        self._rows: list[Row] = []
        self._count = 0

    def add(self, row: Row) -> None:
        self._rows.append(row)
        if len(self._rows) >= ROWS_PER_GROUP:
            self._flush()

    def _flush(self) -> None:
        self._writer.write_table(pa.Table.from_pylist(self._rows, schema=self._schema))
        self._count += len(self._rows)
        self._rows.clear()

    def close(self) -> dict[str, Any]:
        """What the manifest says of the file."""
        self._flush()
        self._writer.close()
        digest = hashlib.sha256(self._path.read_bytes()).hexdigest()
        return {"file": self._path.name, "rows": self._count, "sha256": digest}
