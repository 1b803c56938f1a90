"""The store's `checkpoint` file: how far what is on disk. One page of 4 KiB, big-endian.

    0    i64  physicMsgTimestamp   store time of the last record on disk, ms
    8    i64  logicsMsgTimestamp   the same for the queues
    16   i64  indexMsgTimestamp    the same for the key index
    24   i64  masterFlushedOffset  the log is on disk up to here
    32   i64  confirmPhyOffset     the queues are on disk for all records before this one

Source: RocketMQ StoreCheckpoint. A directory of RocketMQ's may hold 0 in the last two: then the
queues are checked against the whole log.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from struct import Struct

from popmq_broker.store.segments import sync_folder

PAGE_BYTES = 4096
_LAYOUT = Struct(">qqqqq")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFile:
    store_timestamp_ms: int = 0
    flushed: int = 0
    queues_flushed: int = 0


def load(path: Path) -> CheckpointFile:
    try:
        page = path.read_bytes()
    except FileNotFoundError:
        return CheckpointFile()
    if len(page) < _LAYOUT.size:
        return CheckpointFile()
    physic_ms, _, _, flushed, queues_flushed = _LAYOUT.unpack_from(page)
    return CheckpointFile(
        store_timestamp_ms=physic_ms,
        flushed=max(0, flushed),
        queues_flushed=max(0, queues_flushed),
    )


def save(path: Path, values: CheckpointFile) -> None:
    """Replaced as a whole: a torn page would make recovery trust wrong marks."""
    stamp = values.store_timestamp_ms
    page = _LAYOUT.pack(stamp, stamp, stamp, values.flushed, values.queues_flushed)
    fresh = path.with_suffix(".tmp")
    with open(fresh, "wb") as file:
        file.write(page.ljust(PAGE_BYTES, b"\0"))
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path)
    sync_folder(path.parent)
