"""The ConsumeQueue entry: where one message of a queue lies in the CommitLog.

Entry number n is the message with queue offset n, so an entry is found by multiplication, never
by search. Big-endian, 20 bytes:

    0 .. 8    i64   log_offset   first byte of the record
    8 .. 12   i32   size_bytes   length of the record; 0 marks an unused slot
    12 .. 20  i64   tags_code    Java's hash of the tag, compared before the record is read

There is no checksum: the record has one, and a lost queue file is rebuilt from the log.

Source: RocketMQ ConsumeQueue (CQ_STORE_UNIT_SIZE), MessageExtBrokerInner.tagsString2tagsCode.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from operator import itemgetter
from struct import Struct
from typing import Any, Final, NamedTuple, cast

from popmq_common.records import properties as names
from popmq_common.units import LogOffset

ENTRY_BYTES: Final = 20
_LAYOUT: Final = Struct(">qiq")
assert _LAYOUT.size == ENTRY_BYTES


class QueueEntry(NamedTuple):
    log_offset: LogOffset
    size_bytes: int
    tags_code: int


_SIZE_BYTES: Final = itemgetter(1)
_entry: Final = cast(Callable[[tuple[Any, ...]], QueueEntry], partial(tuple.__new__, QueueEntry))
"""An entry of its fields; half the time of `QueueEntry(*fields)`, which is Python."""
DAMAGED: Final = QueueEntry(LogOffset(1 << 62), 0, 0)
"""In the place of an entry that is not the one of its message: no record is there."""


def encode(entry: QueueEntry) -> bytes:
    return _LAYOUT.pack(*entry)


pack: Final = _LAYOUT.pack
"""`encode` without a `QueueEntry`, for the append path."""


def decode_at(slots: bytes | bytearray, at: int) -> QueueEntry | None:
    """The slot that begins there; None: it was never written."""
    log_offset, size_bytes, tags_code = _LAYOUT.unpack_from(slots, at)
    if size_bytes <= 0 or log_offset < 0:
        return None
    return QueueEntry(LogOffset(log_offset), size_bytes, tags_code)


def decode_all(slots: bytes) -> list[QueueEntry]:
    """Consecutive slots; stops before the first that was never written."""
    entries = _decoded(slots)
    if not _all_written(entries):
        del entries[list(map(_is_written, entries)).index(False) :]
    return entries


def decode_each(slots: bytes) -> list[QueueEntry]:
    """Consecutive slots that all were written; `DAMAGED` for what cannot have been."""
    entries = _decoded(slots)
    if _all_written(entries):
        return entries
    return [entry if _is_written(entry) else DAMAGED for entry in entries]


def _decoded(slots: bytes) -> list[QueueEntry]:
    assert len(slots) % ENTRY_BYTES == 0
    return list(map(_entry, _LAYOUT.iter_unpack(slots)))


def _all_written(entries: list[QueueEntry]) -> bool:
    """Without a step of Python for each of them."""
    return not entries or (min(map(_SIZE_BYTES, entries)) > 0 and min(entries)[0] >= 0)


def _is_written(entry: QueueEntry) -> bool:
    return entry.size_bytes > 0 and entry.log_offset >= 0


@lru_cache(maxsize=4096)
def tags_code(tag: str) -> int:
    """Java's `String.hashCode`: over UTF-16 units, 32 bits with sign. 0 without a tag."""
    value = 0
    units = tag.encode("utf-16-be", "surrogatepass")
    for i in range(0, len(units), 2):
        value = (value * 31 + (units[i] << 8 | units[i + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


def tag_of(properties: bytes) -> str | None:
    return names.value_of(properties, _TAG)


def tags_code_of(properties: bytes) -> int:
    """Of the tag in a property string; 0 without one."""
    if properties.find(_TAG) < 0:
        return 0
    tag = tag_of(properties)
    return tags_code(tag) if tag else 0


_TAG = (names.TAGS + names.NAME_END).encode()
