"""A snapshot of many messages that a healthy broker might have made, written column by column.

Batches of `BATCH` messages are stored, handed out together and acked together. One queue has nine
batches of ten: a hot one is the case that is hard.
"""

from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from popmq_broker.core.leases import checkpoint as ck
from popmq_common.records.names import PASSES_GROUP, REVIVE_GROUP, revive_topic
from popmq_pipelines.export.parquet_table import arrow_schema
from popmq_pipelines.snapshot.columns import SCHEMA_VERSION, SNAPSHOT_TABLES
from popmq_pipelines.snapshot.manifest import MANIFEST, Manifest, digest, encode

BATCH: Final = 32
BATCHES_PER_CHUNK: Final = 8_192
RECORD_BYTES: Final = 512
START_MS: Final = 1_700_000_000_000
MESSAGES_PER_S: Final = 2_000
LATER_MS: Final = 600_000
COLD_QUEUES: Final = 7
TOPIC, GROUP = "orders", "billing"
REVIVE: Final = revive_topic("PopMQ")
Columns = dict[str, Any]
_Ints = np.ndarray[Any, np.dtype[np.int64]]


def write(folder: Path, message_count: int) -> None:
    """Rounded up to whole batches."""
    folder.mkdir(parents=True)
    batches = -(-message_count // BATCH)
    schemas = {name: arrow_schema(columns) for name, columns in SNAPSHOT_TABLES.items()}
    writers = {
        name: pq.ParquetWriter(folder / f"{name}.parquet", schema, compression="zstd")
        for name, schema in schemas.items()
    }
    for first in range(0, batches, BATCHES_PER_CHUNK):
        numbers = np.arange(first, min(batches, first + BATCHES_PER_CHUNK), dtype=np.int64)
        for name, columns in _chunk(numbers).items():
            _append(writers[name], name, columns)
    _append(writers["consume_offsets"], "consume_offsets", _offsets(batches))
    for writer in writers.values():
        writer.close()
    _finish(folder, batches)


def _append(writer: pq.ParquetWriter, name: str, columns: Columns) -> None:
    writer.write_table(pa.table(columns, schema=arrow_schema(SNAPSHOT_TABLES[name])))


def _queue(batch: _Ints) -> tuple[_Ints, _Ints]:
    """Queue and number of each batch inside its queue."""
    cold = batch % 10 == 9
    tens = batch // 10
    queue = np.where(cold, 1 + tens % COLD_QUEUES, 0)
    number = np.where(cold, tens // COLD_QUEUES, batch - tens)
    return queue, number


def _chunk(batch: _Ints) -> dict[str, Columns]:
    """The rows of these batches: each has its messages' records, a checkpoint and an ack record."""
    count = len(batch)
    queue, number = _queue(batch)
    base = batch * (BATCH + 2) * RECORD_BYTES
    stored_ms = START_MS + batch * BATCH * 1_000 // MESSAGES_PER_S
    inside = np.tile(np.arange(BATCH, dtype=np.int64), count)
    offsets = np.repeat(number * BATCH, BATCH) + inside
    records = BATCH + 2
    place = np.tile(np.arange(records, dtype=np.int64), count)
    is_message = place < BATCH
    journal = np.repeat(batch, records) * 2 + place - BATCH
    crc = (np.repeat(base, records) // RECORD_BYTES + place) % 1_000_003
    names = np.char.add("id-", np.char.zfill((np.repeat(base, records) + place).astype(str), 24))
    index: Columns = {
        "topic": np.where(is_message, TOPIC, REVIVE),
        "queue_id": np.where(is_message, np.repeat(queue, records), 0).astype(np.int32),
        "queue_offset": np.where(is_message, np.repeat(number * BATCH, records) + place, journal),
        "log_offset": np.repeat(base, records) + place * RECORD_BYTES,
        "size_bytes": np.full(count * records, RECORD_BYTES, np.int32),
        "store_timestamp_ms": np.repeat(stored_ms, records) + (place - BATCH).clip(0) * 20,
        "born_timestamp_ms": np.repeat(stored_ms, records),
        "message_id": names,
        "tags": pa.array(np.where(place == BATCH, ck.CHECKPOINT_TAG, ck.ACK_TAG), mask=is_message),
        "reconsume_times": np.zeros(count * records, np.int32),
        "sys_flag": np.zeros(count * records, np.int32),
        "body_crc": crc.astype(np.int32),
        "first_pop_time_ms": pa.nulls(count * records, pa.int64()),
        "message_group": pa.nulls(count * records, pa.string()),
        "more_properties": pa.nulls(count * records, pa.string()),
    }
    leased: Columns = {
        "topic": np.full(count * BATCH, TOPIC),
        "consumer_group": np.full(count * BATCH, GROUP),
        "queue_id": np.repeat(queue, BATCH).astype(np.int32),
        "queue_offset": offsets,
        "pop_time_ms": np.repeat(stored_ms + 5, BATCH),
        "generation": np.ones(count * BATCH, np.int32),
    }

    def where(of: int) -> Columns:
        return {
            "revive_queue_id": np.zeros(count * BATCH, np.int32),
            "revive_offset": np.repeat(batch * 2 + of, BATCH),
            "log_offset": np.repeat(base + (BATCH + of) * RECORD_BYTES, BATCH),
        }

    checkpoints = {
        **leased,
        "invisible_ms": np.full(count * BATCH, 60_000),
        "due_ms": np.repeat(stored_ms + 60_005, BATCH),
        "start_offset": np.repeat(number * BATCH, BATCH),
        "attempt": pa.nulls(count * BATCH, pa.int32()),
        **where(0),
    }
    acks = {
        **leased,
        "expired": np.zeros(count * BATCH, bool),
        **where(1),
        "previous_log_offset": np.repeat(base + BATCH * RECORD_BYTES, BATCH),
    }
    return {"commitlog_index": index, "pop_checkpoints": checkpoints, "pop_acks": acks}


def _offsets(batches: int) -> Columns:
    queue, number = _queue(np.arange(max(0, batches - 10 * COLD_QUEUES), batches, dtype=np.int64))
    ends = {int(q): (int(n) + 1) * BATCH for q, n in zip(queue, number, strict=True)}
    rows = [(TOPIC, GROUP, queue_id, ends[queue_id]) for queue_id in sorted(ends)]
    rows += [(REVIVE, REVIVE_GROUP, 0, -1), (REVIVE, PASSES_GROUP, 0, 0)]
    topics, groups, queue_ids, next_offsets = zip(*rows, strict=True)
    return {
        "topic": topics,
        "consumer_group": groups,
        "queue_id": pa.array(queue_ids, pa.int32()),
        "next_offset": pa.array(next_offsets, pa.int64()),
        "filter_kind": pa.nulls(len(rows), pa.string()),
        "filter": pa.nulls(len(rows), pa.string()),
    }


def _finish(folder: Path, batches: int) -> None:
    files = {}
    for name in SNAPSHOT_TABLES:
        path = folder / f"{name}.parquet"
        rows = pq.read_metadata(path).num_rows
        files[name] = {"file": path.name, "rows": rows, "sha256": digest(path)}
    end = batches * (BATCH + 2) * RECORD_BYTES
    manifest = Manifest(
        schema_version=SCHEMA_VERSION,
        code_version="scale",
        snapshot_id=folder.name,
        broker="scale",
        cluster="PopMQ",
        log_start=0,
        log_from=0,
        log_end=end,
        log_last=end - RECORD_BYTES,
        log_last_sha256="",
        log_first_ms=START_MS,
        offsets_log_end=end,
        as_of_ms=START_MS + batches * BATCH * 1_000 // MESSAGES_PER_S + LATER_MS,
        running_since_ms=0,
        problems=[],
        files=files,
    )
    (folder / MANIFEST).write_bytes(encode(manifest))
