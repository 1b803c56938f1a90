"""The store's `checkpoint` file: how far what is on disk. One page of 4 KiB, big-endian.

    0    i64  physicMsgTimestamp   store time of the last record on disk, ms
    8    i64  logicsMsgTimestamp   the same for the queues
    16   i64  indexMsgTimestamp    the same for index files that are full; 0: there is none
    24   i64  masterFlushedOffset  the log is on disk up to here
    32   i64  confirmPhyOffset     the same
    64   i64  "PopMQ" and a version
    72   i64  log_end              as masterFlushedOffset
    80   i64  queues_end           the queues are on disk for all records before this one
    88   i64  log_ms               as physicMsgTimestamp
    96   i64  CRC-32 of bytes 64 to 95

RocketMQ passes over what is behind its five numbers, and writes the first of them without the
others: then the two halves differ, the marks say nothing about the log, and it is read whole.
The page is written in place: what matters lies in one sector, which disks write whole or not at
all, and the checksum tells if one did not.

Source: RocketMQ StoreCheckpoint.
"""

from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Final
from zlib import crc32

from popmq_broker.store.files.files import Files

PAGE_BYTES: Final = 4096
_ROCKETMQ = Struct(">qqqqq")
_OURS = Struct(">qqqq")
_CRC = Struct(">q")
_OURS_AT: Final = 64
_SIGNATURE: Final = int.from_bytes(b"PopMQ\0\0\1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    log_end: int
    queues_end: int
    log_ms: int = 0
    queues_ms: int = 0
    index_ms: int = 0


def load(files: Files, path: Path) -> Marks | None:
    """None when there is no file, it is damaged, or RocketMQ has written it."""
    page = files.read(path)
    if page is None or len(page) < PAGE_BYTES:
        return None
    physic_ms, logics_ms, index_ms, _, _ = _ROCKETMQ.unpack_from(page)
    signature, log_end, queues_end, log_ms = _OURS.unpack_from(page, _OURS_AT)
    (crc,) = _CRC.unpack_from(page, _OURS_AT + _OURS.size)
    ours = page[_OURS_AT : _OURS_AT + _OURS.size]
    if signature != _SIGNATURE or crc32(ours) != crc or log_ms != physic_ms:
        return None
    return Marks(
        log_end=log_end,
        queues_end=queues_end,
        log_ms=log_ms,
        queues_ms=logics_ms,
        index_ms=index_ms,
    )


def save(files: Files, path: Path, marks: Marks) -> None:
    """On disk when it returns. Raises `OSError`."""
    rocketmq = _ROCKETMQ.pack(
        marks.log_ms, marks.queues_ms, marks.index_ms, marks.log_end, marks.log_end
    )
    ours = _OURS.pack(_SIGNATURE, marks.log_end, marks.queues_end, marks.log_ms)
    page = rocketmq.ljust(_OURS_AT, b"\0") + ours + _CRC.pack(crc32(ours))
    file = files.open(path, size_bytes=PAGE_BYTES)
    try:
        file.pwrite(page, 0)
        file.fdatasync()
    finally:
        file.close()
