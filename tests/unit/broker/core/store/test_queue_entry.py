"""Queue entries: bytes, and Java's hash of tags."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from popmq_broker.core.store.queue_entry import (
    ENTRY_BYTES,
    QueueEntry,
    decode_all,
    encode,
    pack,
    tags_code,
)
from popmq_common.units import LogOffset

entries = st.builds(
    QueueEntry,
    log_offset=st.integers(0, 2**63 - 1).map(LogOffset),
    size_bytes=st.integers(1, 2**31 - 1),
    tags_code=st.integers(-(2**63), 2**63 - 1),
)


def test_an_entry_is_what_the_table_says() -> None:
    entry = QueueEntry(LogOffset(0x0102), 0x0304, -2)
    data = bytes.fromhex("0000000000000102 00000304 fffffffffffffffe")
    assert encode(entry) == pack(*entry) == data
    assert decode_all(data) == [entry]
    assert len(data) == ENTRY_BYTES


@given(st.lists(entries, max_size=20))
def test_round_trip(found: list[QueueEntry]) -> None:
    assert decode_all(b"".join(map(encode, found))) == found


@pytest.mark.parametrize(
    "unused", [bytes(ENTRY_BYTES), pack(5, 0, 1), pack(5, -1, 1), pack(-1, 5, 1)]
)
def test_reading_stops_before_an_unused_slot(unused: bytes) -> None:
    used = pack(0, 100, 0)
    assert decode_all(used + unused + used) == [QueueEntry(LogOffset(0), 100, 0)]
    assert decode_all(unused) == []


def test_half_a_slot_is_a_mistake() -> None:
    with pytest.raises(AssertionError):
        decode_all(b"123")


@pytest.mark.parametrize(
    ("tag", "code"),
    [
        ("", 0),
        ("a", 97),
        ("TagA", 2_598_919),
        ("hello world", 1_794_106_052),
        ("polygenelubricants", -(2**31)),  # the smallest value Java's hash can take
        ("😀", 1_772_899),  # two UTF-16 units: 0xD83D * 31 + 0xDE00
    ],
)
def test_the_tags_code_is_javas_hash(tag: str, code: int) -> None:
    assert tags_code(tag) == code


@given(st.text())
def test_the_tags_code_fits_32_bits(tag: str) -> None:
    assert -(2**31) <= tags_code(tag) < 2**31
