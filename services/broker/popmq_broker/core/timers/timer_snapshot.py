"""What waits for its time, as a file: a start need not read every parked message again.

    bytes   type   field
    0       8s     "POPMQTM1"
    8       i64    log_end       everything that the log says before it is in this file
    16      i64    loaded_to     the timer topic's messages from this offset on are not
    24      u32    levels        then per level: u32 level, i64 offset of the next to deliver
            u32    buckets       then per bucket: i64 start_ms, u32 count, and `count` of
                                 u32 due, i64 offset, u32 code (core/timers/timer_wheel.py), each
                                 field for all entries, then the next. Little-endian
            u32    CRC-32 of all before it

Derived: when it is missing, damaged or ahead of the log, all is made again from the log.
"""

import sys
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from struct import Struct
from struct import error as StructError
from typing import Final
from zlib import crc32

from popmq_broker.core.timers.timer_wheel import GONE, Wheel, WheelEntry
from popmq_common.errors import Corrupt

_MAGIC: Final = b"POPMQTM1"
_HEAD = Struct("<8sqqI")
_LEVEL = Struct("<Iq")
_COUNT = Struct("<I")
_BUCKET = Struct("<qI")


@dataclass(frozen=True, slots=True)
class TimerSnapshot:
    log_end: int
    loaded_to: int
    levels: dict[int, int] = field(default_factory=dict)
    blocks: list[tuple[int, "array[int]", "array[int]", "array[int]"]] = field(default_factory=list)

    def entries(self) -> Iterator[WheelEntry]:
        for start_ms, dues, offsets, codes in self.blocks:
            for due, offset, code in zip(dues, offsets, codes, strict=True):
                if offset != GONE:
                    yield WheelEntry(start_ms + due, offset, code)


def encode(wheel: Wheel, log_end: int, loaded_to: int, levels: dict[int, int]) -> bytes:
    text = bytearray(_HEAD.pack(_MAGIC, log_end, loaded_to, len(levels)))
    for level, offset in sorted(levels.items()):
        text += _LEVEL.pack(level, offset)
    buckets = [bucket for bucket in wheel.buckets() if len(bucket)]
    text += _COUNT.pack(len(buckets))
    for bucket in buckets:
        text += _BUCKET.pack(bucket.start_ms, len(bucket))
        for part in (bucket.dues, bucket.offsets, bucket.codes):
            text += _little(part[bucket.at :])
    text += _COUNT.pack(crc32(text))
    return bytes(text)


def decode(data: bytes, *, where: str) -> TimerSnapshot:
    """Raises `Corrupt` naming `where`."""
    try:
        magic, log_end, loaded_to, level_count = _HEAD.unpack_from(data)
        if magic != _MAGIC or _COUNT.unpack_from(data, len(data) - 4)[0] != crc32(data[:-4]):
            raise Corrupt(path=where, offset=0, reason="its checksum is wrong")
        at = _HEAD.size
        levels = {}
        for _ in range(level_count):
            level, offset = _LEVEL.unpack_from(data, at)
            levels[level] = offset
            at += _LEVEL.size
        found = TimerSnapshot(log_end, loaded_to, levels)
        (bucket_count,) = _COUNT.unpack_from(data, at)
        at += _COUNT.size
        for _ in range(bucket_count):
            start_ms, count = _BUCKET.unpack_from(data, at)
            at += _BUCKET.size
            parts = []
            for code in "IqI":
                part = array(code)
                size = part.itemsize * count
                part.frombytes(data[at : at + size])
                parts.append(_native(part))
                at += size
            found.blocks.append((start_ms, *parts))
    except (StructError, ValueError) as wrong:
        raise Corrupt(path=where, offset=0, reason=f"no timers: {wrong!r}") from wrong
    return found


def _little(part: "array[int]") -> bytes:
    return _native(part).tobytes()


def _native(part: "array[int]") -> "array[int]":
    if sys.byteorder == "big":
        part.byteswap()
    return part
