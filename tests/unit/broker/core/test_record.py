"""CommitLog records: RocketMQ's bytes, and no torn or changed record taken for a whole one."""

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from popmq_broker.core import record as rec
from popmq_broker.core.record import Record, SysFlag
from popmq_common.errors import Corrupt
from popmq_common.units import LogOffset, QueueOffset

HOST = bytes([127, 0, 0, 1]) + (10911).to_bytes(4, "big")
HOST_V6 = bytes(15) + b"\x01" + (10911).to_bytes(4, "big")


def make(**changes: object) -> Record:
    fields: dict[str, object] = {
        "topic": "orders",
        "queue_id": 3,
        "queue_offset": QueueOffset(7),
        "log_offset": LogOffset(4096),
        "body": b"hello",
        "properties": b"TAGS\x01new\x02",
        "sys_flag": 0,
        "flag": 0,
        "born_timestamp_ms": 1_700_000_000_000,
        "born_host": HOST,
        "store_timestamp_ms": 1_700_000_000_001,
        "store_host": HOST,
        "reconsume_times": 2,
    }
    return Record(**{**fields, **changes})  # type: ignore[arg-type]


def test_the_bytes_are_rocketmqs() -> None:
    """Written out by hand from RocketMQ's table, field by field."""
    properties = b"TAGS\x01new\x02"
    covered = (
        struct.pack(">ii", 91 + 5 + 6 + len(properties) + 20, -626843481)
        + struct.pack(">i", zlib.crc32(b"hello") & 0x7FFFFFFF)
        + struct.pack(">ii", 3, 0)
        + struct.pack(">qq", 7, 4096)
        + struct.pack(">iq", 0, 1_700_000_000_000)
        + HOST
        + struct.pack(">q", 1_700_000_000_001)
        + HOST
        + struct.pack(">iq", 2, 0)
        + struct.pack(">i", 5)
        + b"hello"
        + b"\x06orders"
        + struct.pack(">h", len(properties) + 20)
        + properties
    )
    digits = str(zlib.crc32(covered) & 0x7FFFFFFF).zfill(10)[::-1]
    assert rec.encode(make()) == covered + b"__CRC32#\x01" + digits.encode() + b"\x02"


@pytest.mark.parametrize(
    "record",
    [
        make(),
        make(body=b"", properties=b""),
        make(topic="x" * 127),
        make(topic="x" * 128),
        make(topic="x" * 255),
        make(born_host=HOST_V6, sys_flag=int(SysFlag.BORN_HOST_V6)),
        make(store_host=HOST_V6, sys_flag=int(SysFlag.STORE_HOST_V6)),
        make(sys_flag=int(SysFlag.COMPRESSED)),
    ],
)
def test_round_trip(record: Record) -> None:
    data = rec.encode(record)
    assert len(data) == rec.size_bytes(
        record.topic, record.body, record.properties, record.born_host, record.store_host
    )
    assert rec.decode(data, where="f", log_offset=4096) == record


def test_a_record_without_the_checksum_item_is_read() -> None:
    """As RocketMQ writes it by default."""
    data = bytearray(rec.encode(make())[: -rec.CHECKSUM_BYTES])
    struct.pack_into(">i", data, 0, len(data))
    at = len(data) - len(b"TAGS\x01new\x02") - 2
    struct.pack_into(">h", data, at, len(b"TAGS\x01new\x02"))
    assert rec.decode(bytes(data), where="f", log_offset=4096) == make()


@given(st.data())
def test_any_flipped_bit_is_found(data: st.DataObject) -> None:
    whole = bytearray(rec.encode(make()))
    bit = data.draw(st.integers(0, 8 * len(whole) - 1))
    whole[bit // 8] ^= 1 << bit % 8
    with pytest.raises(Corrupt, match="f is damaged at offset 4096"):
        rec.decode(bytes(whole), where="f", log_offset=4096)


def test_a_record_torn_at_any_byte_is_found() -> None:
    whole = rec.encode(make())
    for kept in range(len(whole)):
        torn = whole[:kept].ljust(len(whole), b"\0")
        if torn != whole:
            with pytest.raises(Corrupt):
                rec.decode(torn, where="f", log_offset=4096)


def test_a_record_at_another_place_is_not_taken() -> None:
    with pytest.raises(Corrupt, match="says it begins at 4096"):
        rec.decode(rec.encode(make()), where="f", log_offset=0)
