"""gRPC's own framing: however the bytes are cut, the same messages come out."""

import gzip
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from popmq_proxy.front.grpc_wire import (
    PACKED_BYTES,
    PIECE_BYTES,
    PREFIX,
    Code,
    GrpcError,
    MessageReader,
    Unpacking,
    framed,
    only_message,
    percent_encoded,
    timeout_s,
)

LIMIT = 1_000


@given(st.lists(st.binary(max_size=50), max_size=6), st.data())
def test_messages_come_out_whole_wherever_the_body_is_cut(
    messages: list[bytes], data: st.DataObject
) -> None:
    body = framed(messages)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=8)))
    reader = MessageReader(LIMIT)
    found: list[bytes] = []
    for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True):
        reader.feed(body[start:end])
        while (message := reader.next()) is not None:
            found.append(message[1])
    reader.end()
    assert found == messages
    assert reader.held_bytes == 0


@given(st.binary(max_size=80))
def test_one_whole_message_is_recognized(body: bytes) -> None:
    assert only_message(framed([body])) == body
    assert only_message(framed([body]) + b"\0") is None
    assert only_message(framed([body])[:-1]) is None


def test_a_body_that_ends_inside_a_message_is_an_error() -> None:
    reader = MessageReader(LIMIT)
    reader.feed(framed([b"hello"])[:-1])
    assert reader.next() is None
    with pytest.raises(GrpcError, match="middle of a message"):
        reader.end()


def test_a_huge_length_is_refused_before_anything_is_held() -> None:
    reader = MessageReader(LIMIT)
    reader.feed(PREFIX.pack(0, 1 << 30))
    with pytest.raises(GrpcError) as refused:
        reader.next()
    assert refused.value.code == Code.RESOURCE_EXHAUSTED


def unpacked(message: bytes, encoding: str = "gzip", bytes_max: int = LIMIT) -> bytes:
    unpacking = Unpacking(message, encoding, bytes_max)
    while not unpacking.step():
        assert unpacking.unpacked_bytes <= bytes_max
    return unpacking.message()


def test_gzip_is_understood_and_bounded() -> None:
    assert unpacked(gzip.compress(b"hello")) == b"hello"
    assert unpacked(gzip.compress(bytes(LIMIT))) == bytes(LIMIT)
    with pytest.raises(GrpcError, match="when unpacked"):
        unpacked(gzip.compress(bytes(100_000)))
    with pytest.raises(GrpcError, match="no gzip"):
        unpacked(b"abc")


@given(st.binary(max_size=50), st.integers(1, 40_000), st.sampled_from([0, 1, 9]))
def test_a_message_of_any_size_comes_back(text: bytes, times: int, level: int) -> None:
    message = text * times
    packed = gzip.compress(message, level)
    assert unpacked(packed, bytes_max=len(message)) == message


def test_a_message_is_unpacked_piece_by_piece() -> None:
    packed = gzip.compress(bytes(3 * PIECE_BYTES + 1))
    unpacking = Unpacking(packed, "gzip", 10 * PIECE_BYTES)
    steps = 1
    while not unpacking.step():
        assert unpacking.unpacked_bytes <= steps * PIECE_BYTES
        steps += 1
    assert steps >= 4
    assert unpacking.message() == bytes(3 * PIECE_BYTES + 1)


def test_an_unpacked_message_is_held_once() -> None:
    unpacking = Unpacking(gzip.compress(bytes(64 * PIECE_BYTES)), "gzip", 64 * PIECE_BYTES)
    tracemalloc.start()
    try:
        while not unpacking.step():
            pass
        message = unpacking.message()
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most_bytes < 1.5 * len(message)


@pytest.mark.parametrize("wrong", ["cut", "flipped", "empty", "more", "twice", "much more"])
def test_what_is_not_one_whole_gzip_is_refused(wrong: str) -> None:
    whole = gzip.compress(b"hello" * 50)
    packed = {
        "cut": whole[:-9],
        "flipped": whole[:-1] + bytes([whole[-1] ^ 1]),
        "empty": b"",
        "more": whole + b"\0",
        "twice": whole + gzip.compress(b"more"),
        "much more": whole + bytes(2 * PACKED_BYTES),
    }[wrong]
    with pytest.raises(GrpcError) as refused:
        unpacked(packed)
    assert refused.value.code == Code.INVALID_ARGUMENT


@pytest.mark.parametrize(("encoding", "code"), [("", Code.INTERNAL), ("br", Code.UNIMPLEMENTED)])
def test_what_cannot_be_unpacked_is_refused(encoding: str, code: Code) -> None:
    with pytest.raises(GrpcError) as refused:
        unpacked(b"x", encoding)
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("", None), ("1S", 1), ("250m", 0.25), ("2M", 120), ("1H", 3600), ("99999999n", 0.099999999)],
)
def test_timeouts(text: str, seconds: float | None) -> None:
    found = timeout_s(text)
    assert found == seconds if seconds is None else found == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["1", "S", "-1S", "1.5S", "123456789S", "1s", "٣S"])
def test_timeouts_that_cannot_be_read(text: str) -> None:
    with pytest.raises(GrpcError, match="grpc-timeout"):
        timeout_s(text)


def test_a_status_message_is_printable_ascii() -> None:
    assert percent_encoded("100 % größer\n") == b"100 %25 gr%C3%B6%C3%9Fer%0A"
