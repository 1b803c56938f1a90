"""A CommitLog record ⇄ bytes. Big-endian.

    bytes     type   field
    0         i32    total_bytes        the whole record
    4         i32    magic              0xDAA320A7 (topic length 1 byte), …AB (2 bytes)
    8         i32    body_crc           CRC-32 of the body without its top bit
    12        i32    queue_id
    16        i32    flag               the application's, opaque
    20        i64    queue_offset
    28        i64    log_offset         where this record begins
    36        i32    sys_flag           bits below
    40        i64    born_timestamp_ms
    48        8|20   born_host          address, then port as i32
              i64    store_timestamp_ms
              8|20   store_host
              i32    reconsume_times    deliveries that failed before this copy was made
              i64    prepared_offset    the half message of a committed transaction
              i32    body_bytes, then the body
              u8|u16 topic_bytes, then the topic
              i16    property_bytes, then the property string; its last item is
                     "__CRC32#" 0x01, ten digits, 0x02: a checksum of all before it

The checksum item is RocketMQ's `enabledAppendPropCRC`: CRC-32 without its top bit, in decimal,
the lowest digit first. It is what tells a torn record from a whole one: the body's own checksum
leaves topic and properties uncovered. Records without it, of a RocketMQ that does not write it,
are read too; in those a zero byte among the properties shows the tear.

A file ends with a blank: i32 remaining bytes, i32 blank magic, then anything. A record fits when
its length plus 8 does not exceed what is left of the file, so there is always room for the blank.

Source: RocketMQ MessageExtEncoder, CommitLog.checkMessageAndReturnSize, MessageSysFlag.
"""

import zlib
from dataclasses import dataclass
from enum import IntFlag
from struct import Struct
from struct import error as StructError
from typing import Final

from popmq_common.errors import Corrupt
from popmq_common.units import LogOffset, QueueOffset

MAGIC_V1: Final = 0xDAA320A7 - (1 << 32)
MAGIC_V2: Final = 0xDAA320AB - (1 << 32)
MAGIC_BLANK: Final = 0xCBD43194 - (1 << 32)
BLANK_BYTES: Final = 8
CHECKSUM_NAME: Final = b"__CRC32#\x01"
CHECKSUM_BYTES: Final = 20
TOPIC_BYTES_V1_MAX: Final = 127
_START = Struct(">iiiiiqqiq")
_I32 = Struct(">i")
_I64 = Struct(">q")
_TRIES = Struct(">iq")
_PROPERTY_BYTES = Struct(">h")
_TOPIC_BYTES_V2 = Struct(">H")
_BLANK = Struct(">ii")
assert _START.size == 48


class SysFlag(IntFlag):
    COMPRESSED = 0x1
    PREPARED = 0x4
    COMMIT = 0x8
    ROLLBACK = 0xC
    BORN_HOST_V6 = 0x10
    STORE_HOST_V6 = 0x20


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One message as stored. `topic`, `properties` and hosts stay bytes-near: no copy is decoded
    that nobody asks for."""

    topic: str
    queue_id: int
    queue_offset: QueueOffset
    log_offset: LogOffset
    body: bytes
    properties: bytes
    sys_flag: int
    flag: int
    born_timestamp_ms: int
    born_host: bytes
    store_timestamp_ms: int
    store_host: bytes
    reconsume_times: int
    prepared_offset: int = 0


def size_bytes(
    topic: str, body: bytes, properties: bytes, born_host: bytes, store_host: bytes
) -> int:
    """Length of the record these make."""
    topic_bytes = len(topic.encode())
    length_bytes = 1 if topic_bytes <= TOPIC_BYTES_V1_MAX else 2
    hosts = len(born_host) + len(store_host)
    fixed = 74 + CHECKSUM_BYTES
    return fixed + hosts + length_bytes + len(body) + topic_bytes + len(properties)


def encode(record: Record) -> bytes:
    """The record's bytes; host lengths set the IPv6 bits of `sys_flag`."""
    topic = record.topic.encode()
    v2 = len(topic) > TOPIC_BYTES_V1_MAX
    topic_length = _TOPIC_BYTES_V2.pack(len(topic)) if v2 else bytes((len(topic),))
    sys_flag = record.sys_flag & ~(SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6)
    if len(record.born_host) == 20:
        sys_flag |= SysFlag.BORN_HOST_V6
    if len(record.store_host) == 20:
        sys_flag |= SysFlag.STORE_HOST_V6
    total = size_bytes(
        record.topic, record.body, record.properties, record.born_host, record.store_host
    )
    covered = b"".join(
        (
            _START.pack(
                total,
                MAGIC_V2 if v2 else MAGIC_V1,
                zlib.crc32(record.body) & 0x7FFFFFFF if record.body else 0,
                record.queue_id,
                record.flag,
                record.queue_offset,
                record.log_offset,
                sys_flag,
                record.born_timestamp_ms,
            ),
            record.born_host,
            _I64.pack(record.store_timestamp_ms),
            record.store_host,
            _TRIES.pack(record.reconsume_times, record.prepared_offset),
            _I32.pack(len(record.body)),
            record.body,
            topic_length,
            topic,
            _PROPERTY_BYTES.pack(len(record.properties) + CHECKSUM_BYTES),
            record.properties,
        )
    )
    return covered + _checksum(covered)


def _ends_with_checksum(properties: bytes) -> bool:
    """Also when the item itself is damaged: its name need not be whole to be recognised."""
    tail = properties[-CHECKSUM_BYTES:]
    return len(tail) == CHECKSUM_BYTES and (
        sum(a == b for a, b in zip(tail, CHECKSUM_NAME, strict=False)) >= len(CHECKSUM_NAME) - 2
    )


def _checksum(covered: bytes) -> bytes:
    digits = f"{zlib.crc32(covered) & 0x7FFFFFFF:010d}"[::-1]
    return CHECKSUM_NAME + digits.encode() + b"\x02"


def blank(remaining_bytes: int) -> bytes:
    """The filler that ends a file; the reader goes on at the next one."""
    assert remaining_bytes >= BLANK_BYTES
    return _BLANK.pack(remaining_bytes, MAGIC_BLANK)


def decode(data: bytes, *, where: str, log_offset: int, check_crc: bool = True) -> Record:
    """One whole record. Raises `Corrupt` naming `where` (the file) and `log_offset`.

    `data` is exactly the record; lengths inside must add up to its length.
    """

    def damaged(reason: str) -> Corrupt:
        return Corrupt(path=where, offset=log_offset, reason=reason)

    if len(data) < 91:
        raise damaged(f"a record of {len(data)} bytes is too short")
    total, magic, crc, queue_id, flag, queue_offset, own_offset, sys_flag, born_ms = (
        _START.unpack_from(data)
    )
    if total != len(data) or magic not in (MAGIC_V1, MAGIC_V2):
        raise damaged("no record begins here")
    if own_offset != log_offset:
        raise damaged(f"the record says it begins at {own_offset}")
    at = _START.size
    born_host, at = _take(data, at, 20 if sys_flag & SysFlag.BORN_HOST_V6 else 8)
    try:
        (store_ms,) = _I64.unpack_from(data, at)
        store_host, at = _take(data, at + 8, 20 if sys_flag & SysFlag.STORE_HOST_V6 else 8)
        tries, prepared_offset = _TRIES.unpack_from(data, at)
        (body_bytes,) = _I32.unpack_from(data, at + 12)
        body, at = _take(data, at + 16, body_bytes)
        if magic == MAGIC_V1:
            topic, at = _take(data, at + 1, data[at])
        else:
            topic, at = _take(data, at + 2, _TOPIC_BYTES_V2.unpack_from(data, at)[0])
        (property_bytes,) = _PROPERTY_BYTES.unpack_from(data, at)
        properties, at = _take(data, at + 2, property_bytes)
        topic_text = topic.decode()
    except (ValueError, IndexError, StructError) as wrong:
        raise damaged(f"its lengths do not add up ({wrong})") from wrong
    if at != total:
        raise damaged(f"its parts take {at} of {total} bytes")
    if check_crc and body and zlib.crc32(body) & 0x7FFFFFFF != crc:
        raise damaged("the body's checksum is wrong")
    if _ends_with_checksum(properties):
        if check_crc and _checksum(data[:-CHECKSUM_BYTES]) != data[-CHECKSUM_BYTES:]:
            raise damaged("the record's checksum is wrong")
        properties = properties[:-CHECKSUM_BYTES]
    elif b"\0" in properties:
        raise damaged("its properties were not written")
    return Record(
        topic=topic_text,
        queue_id=queue_id,
        queue_offset=QueueOffset(queue_offset),
        log_offset=LogOffset(own_offset),
        body=body,
        properties=properties,
        sys_flag=sys_flag,
        flag=flag,
        born_timestamp_ms=born_ms,
        born_host=born_host,
        store_timestamp_ms=store_ms,
        store_host=store_host,
        reconsume_times=tries,
        prepared_offset=prepared_offset,
    )


def peek(head: bytes) -> tuple[int, int]:
    """(total_bytes, magic) of what begins at `head`; zeros where nothing was written."""
    if len(head) < BLANK_BYTES:
        return 0, 0
    total, magic = _BLANK.unpack_from(head)
    return total, magic


def _take(data: bytes, at: int, count: int) -> tuple[bytes, int]:
    if count < 0 or at + count > len(data):
        raise ValueError(f"{count} bytes wanted at {at} of {len(data)}")
    return data[at : at + count], at + count
