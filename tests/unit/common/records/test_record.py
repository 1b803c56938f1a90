"""The record's bytes against a hand-written one, round trips, and every kind of damage."""

from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from popmq_common.errors import Corrupt
from popmq_common.records import hosts
from popmq_common.records import record as rec
from popmq_common.records.record import Record, SysFlag
from popmq_common.units import LogOffset, QueueOffset

PLAIN = Record(
    topic="orders",
    queue_id=3,
    queue_offset=QueueOffset(7),
    log_offset=LogOffset(1_000),
    body=b"hello",
    properties=b"TAGS\x01red\x02",
    sys_flag=0,
    flag=9,
    born_timestamp_ms=1_700_000_000_000,
    born_host=hosts.encode("10.0.0.1", 4321),
    store_timestamp_ms=1_700_000_000_005,
    store_host=hosts.encode("10.0.0.2", 10911),
    reconsume_times=2,
    prepared_offset=11,
)
BY_HAND = " ".join(
    [
        "00 00 00 83",  # 131 bytes
        "da a3 20 a7",  # magic, version 1
        "36 10 a6 86",  # CRC-32 of hello, 0x3610A686
        "00 00 00 03",  # queue id
        "00 00 00 09",  # flag
        "00 00 00 00 00 00 00 07",  # queue offset
        "00 00 00 00 00 00 03 e8",  # log offset
        "00 00 00 00",  # sys flag
        "00 00 01 8b cf e5 68 00",  # born
        "0a 00 00 01 00 00 10 e1",  # 10.0.0.1:4321
        "00 00 01 8b cf e5 68 05",  # stored
        "0a 00 00 02 00 00 2a 9f",  # 10.0.0.2:10911
        "00 00 00 02",  # tries
        "00 00 00 00 00 00 00 0b",  # prepared offset
        "00 00 00 05 68 65 6c 6c 6f",  # body
        "06 6f 72 64 65 72 73",  # topic
        "00 1d 54 41 47 53 01 72 65 64 02",  # properties
        # __CRC32#, then 1716379605 from its end
        "5f 5f 43 52 43 33 32 23 01 35 30 36 39 37 33 36 31 37 31 02",
    ]
)

i32 = st.integers(-(2**31), 2**31 - 1)
i64 = st.integers(-(2**63), 2**63 - 1)
host = st.binary(min_size=8, max_size=8) | st.binary(min_size=20, max_size=20)
records = st.builds(
    Record,
    topic=st.text(min_size=1, max_size=255).filter(lambda t: len(t.encode()) <= 255),
    queue_id=i32,
    queue_offset=i64.map(QueueOffset),
    log_offset=i64.map(LogOffset),
    body=st.binary(max_size=300),
    properties=st.binary(max_size=300) | st.just(b"p" * (32_767 - rec.CHECKSUM_BYTES)),
    sys_flag=st.integers(0, 0x7FF),
    flag=i32,
    born_timestamp_ms=i64,
    born_host=host,
    store_timestamp_ms=i64,
    store_host=host,
    reconsume_times=i32,
    prepared_offset=i64,
)


def decode(data: bytes, log_offset: int = PLAIN.log_offset) -> Record:
    return rec.decode(data, where="file", log_offset=log_offset)


def test_a_record_is_what_the_table_says() -> None:
    assert rec.encode(PLAIN).hex(" ") == BY_HAND
    assert decode(bytes.fromhex(BY_HAND)) == PLAIN
    assert (
        len(rec.encode(PLAIN)) == 91 + len("orders") + len(PLAIN.body) + len(PLAIN.properties) + 20
    )


def without_checksum(record: Record) -> bytes:
    """As RocketMQ writes it unless told otherwise."""
    data = bytearray(rec.encode(record)[: -rec.CHECKSUM_BYTES])
    data[0:4] = len(data).to_bytes(4)
    at = len(data) - len(record.properties) - 2
    data[at : at + 2] = len(record.properties).to_bytes(2)
    return bytes(data)


def test_a_record_without_the_checksum_item_is_read() -> None:
    assert decode(without_checksum(PLAIN)) == PLAIN
    damaged = without_checksum(PLAIN).replace(b"hello", b"jello")
    with pytest.raises(Corrupt, match="the body's checksum is wrong"):
        decode(damaged)


@pytest.mark.parametrize("length", range(111))
def test_without_it_a_tear_shows_in_lengths_body_or_properties(length: int) -> None:
    whole = without_checksum(PLAIN)
    assert len(whole) == 111
    for torn in (
        whole[:length].ljust(len(whole), b"\0"),  # a prefix
        bytes(length) + whole[length:],  # its first sector is lost
    ):
        if torn != whole:
            with pytest.raises(Corrupt):
                decode(torn)


@given(st.integers(0, 8 * 131 - 1))
def test_any_flipped_bit_is_found(bit: int) -> None:
    data = bytearray.fromhex(BY_HAND)
    data[bit // 8] ^= 1 << bit % 8
    with pytest.raises(Corrupt, match="file is damaged at offset 1000"):
        decode(bytes(data))


@given(records)
def test_round_trip(record: Record) -> None:
    data = rec.encode(record)
    v6 = SysFlag.BORN_HOST_V6 * (len(record.born_host) == 20)
    v6 |= SysFlag.STORE_HOST_V6 * (len(record.store_host) == 20)
    assert decode(data, record.log_offset) == record._replace(sys_flag=record.sys_flag & ~0x30 | v6)
    assert len(data) == rec.size_bytes(
        record.topic, record.body, record.properties, record.born_host, record.store_host
    )
    assert rec.peek(data) == (len(data), rec.peek(data)[1])


def test_flags_that_mean_nothing_here_are_kept() -> None:
    zstd_batch = 0x1 | 0x40 | 0x200
    assert decode(rec.encode(PLAIN._replace(sys_flag=zstd_batch))).sys_flag == zstd_batch


@pytest.mark.parametrize(("topic", "magic"), [("t" * 127, rec.MAGIC_V1), ("t" * 128, rec.MAGIC_V2)])
def test_a_long_topic_makes_version_2(topic: str, magic: int) -> None:
    data = rec.encode(PLAIN._replace(topic=topic))
    assert rec.peek(data) == (len(data), magic)
    assert decode(data).topic == topic


def test_an_empty_body_has_checksum_0() -> None:
    data = rec.encode(PLAIN._replace(body=b""))
    assert data[8:12] == bytes(4)
    assert decode(data).body == b""


def test_the_checksum_has_no_top_bit() -> None:
    body = next(bytes((i,)) for i in range(256) if crc32(bytes((i,))) >> 31)
    assert decode(rec.encode(PLAIN._replace(body=body))).body == body


@pytest.mark.parametrize("length", range(len(bytes.fromhex(BY_HAND))))
def test_a_part_of_a_record_is_damage(length: int) -> None:
    with pytest.raises(Corrupt, match=r"file is damaged at offset 1000"):
        decode(bytes.fromhex(BY_HAND)[:length])


@pytest.mark.parametrize("length", range(len(bytes.fromhex(BY_HAND))))
def test_a_record_torn_anywhere_is_damage(length: int) -> None:
    whole = bytes.fromhex(BY_HAND)
    torn = whole[:length].ljust(len(whole), b"\0")
    with pytest.raises(Corrupt, match="file is damaged at offset 1000"):
        decode(torn)


@pytest.mark.parametrize(
    ("at", "value", "reason"),
    [
        (3, 0x84, "no record begins here"),
        (7, 0xA8, "no record begins here"),
        (35, 0xE9, "says it begins at 1001"),
        (39, 0x10, "its"),  # an IPv6 flag that is not true
        (8, 0, "checksum"),
        (88, 0, "checksum"),
        (87, 4, "its"),  # body length
        (84, 0xFF, "its"),  # … below zero
        (93, 7, "its"),  # topic length
        (94, 0xFF, "its"),  # no UTF-8
        (101, 8, "its"),  # property length
        (120, 0, "the record's checksum is wrong"),  # the item's own name
        (100, 0x80, "its"),  # … below zero
    ],
)
def test_damage_is_found(at: int, value: int, reason: str) -> None:
    data = bytearray.fromhex(BY_HAND)
    assert data[at] != value
    data[at] = value
    with pytest.raises(Corrupt, match=reason):
        decode(bytes(data))


def test_the_checksum_can_be_left_to_others() -> None:
    data = bytearray.fromhex(BY_HAND)
    data[88] ^= 1
    record = rec.decode(bytes(data), where="file", log_offset=1_000, check_crc=False)
    assert record.body == b"iello"


@given(st.binary(max_size=400))
def test_noise_is_no_record(noise: bytes) -> None:
    with pytest.raises(Corrupt):
        decode(noise)


def test_a_blank_is_its_length_and_its_magic() -> None:
    assert rec.blank(1000).hex(" ") == "00 00 03 e8 cb d4 31 94"
    assert rec.peek(rec.blank(8)) == (8, rec.MAGIC_BLANK)
    assert rec.peek(b"1234567") == (0, 0)
    with pytest.raises(AssertionError):
        rec.blank(7)


@pytest.mark.parametrize(
    ("sys_flag", "queued"), [(0x0, True), (0x4, False), (0x8, True), (0xC, False), (0x1, True)]
)
def test_half_messages_and_rollbacks_are_in_no_queue(sys_flag: int, queued: bool) -> None:
    assert rec.is_queued(PLAIN._replace(sys_flag=sys_flag)) is queued


@given(record=records)
def test_parts_are_what_decoding_finds(record: Record) -> None:
    """Or nothing, for records that are not as this server writes most."""
    data = rec.encode(record)
    parts = rec.parts(data)
    usual = len(record.born_host) == len(record.store_host) == 8
    if not usual or len(record.topic.encode()) > rec.TOPIC_BYTES_V1_MAX:
        assert parts is None
        return
    found = rec.decode(data, where="f", log_offset=record.log_offset)
    assert parts is not None
    assert parts.topic.decode() == found.topic
    for name in set(parts._fields) - {"topic"}:
        assert getattr(parts, name) == getattr(found, name), name


def test_parts_of_a_record_without_our_checksum_are_none() -> None:
    data = rec.encode(PLAIN)
    assert rec.parts(data) is not None
    assert rec.parts(data[: -rec.CHECKSUM_BYTES]) is None
