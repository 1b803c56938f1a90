"""The CommitLog's records as hashes of their bytes, for Spark's `mapInArrow`."""

from collections.abc import Iterator
from hashlib import sha256
from typing import Any, Final

import pyarrow as pa

from popmq_pipelines.decode.raw_store import batched, whole_records

HASHES: Final = pa.schema(
    [
        ("log_offset", pa.int64()),
        ("size_bytes", pa.int32()),
        ("sha256", pa.binary()),
        ("topic", pa.string()),
        ("queue_id", pa.int32()),
        ("queue_offset", pa.int64()),
        ("problem", pa.string()),
    ]
)
HASHES_DDL: Final = (
    "log_offset bigint, size_bytes int, sha256 binary, topic string, queue_id int, "
    "queue_offset bigint, problem string"
)


def hashes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Of the CommitLog files that rows of `raw_store.LOG_FILES_DDL` name."""
    for batch in batches:
        for file in batch.to_pylist():
            yield from batched(_hashes_of(**file), HASHES)


def _hashes_of(path: str, base: int, last: bool) -> Iterator[tuple[Any, ...]]:
    for record, data in whole_records(path, base, last):
        if isinstance(record, str):
            yield (*(None,) * 6, record)
        else:
            place = record.topic, record.queue_id, record.queue_offset
            yield (record.log_offset, len(data), sha256(data).digest(), *place, None)
