"""Header blocks: what any client's encoder makes is read as the hpack library reads it."""

import pytest
from hpack import Decoder, Encoder
from hypothesis import given
from hypothesis import strategies as st

from popmq_proxy.front.http2.headers import LOOKED_AT, Header, HeaderReader, block_of
from popmq_proxy.front.http2.wire import ConnectionBroken

ASKED = [
    (b":method", b"POST"),
    (b":scheme", b"http"),
    (b":path", b"/apache.rocketmq.v2.MessagingService/SendMessage"),
    (b":authority", b"localhost:8081"),
    (b"content-type", b"application/grpc"),
    (b"te", b"trailers"),
    (b"grpc-timeout", b"9999876u"),
    (b"x-mq-client-id", b"me@1"),
]
names = st.one_of(
    st.sampled_from(sorted(LOOKED_AT)),
    st.text("abcdefghijklmnopqrstuvwxyz-", min_size=1, max_size=200).map(str.encode),
)
PRINTABLE = st.characters(min_codepoint=0x20, max_codepoint=0x7E)
values = st.text(PRINTABLE, max_size=300).map(str.encode)
blocks = st.lists(st.tuples(names, values), max_size=20)


def wanted(headers: list[Header]) -> list[Header]:
    return [(name, value) for name, value in headers if name in LOOKED_AT]


def reader() -> HeaderReader:
    return HeaderReader(1 << 20)


@given(st.lists(blocks, min_size=1, max_size=4), st.booleans())
def test_a_client_with_a_table(sent: list[list[Header]], huffman: bool) -> None:
    encoder, ours = Encoder(), reader()
    for headers in sent:
        assert wanted(ours.read(encoder.encode(headers, huffman=huffman))) == wanted(headers)


@given(st.lists(blocks, min_size=1, max_size=4), st.booleans())
def test_a_client_that_has_followed_our_settings(sent: list[list[Header]], huffman: bool) -> None:
    encoder, ours = Encoder(), reader()
    ours.read(encoder.encode(ASKED))
    ours.forbid_table()
    encoder.header_table_size = 0
    for headers in [*sent, ASKED]:
        assert wanted(ours.read(encoder.encode(headers, huffman=huffman))) == wanted(headers)


@given(st.binary(max_size=60))
def test_noise_is_read_as_the_library_reads_it_or_refused(block: bytes) -> None:
    ours = reader()
    ours.forbid_table()
    ours.read(b"\x20")
    library = Decoder()
    library.max_allowed_table_size = 0
    library.header_table_size = 0
    try:
        found: list[Header] | None = ours.read(block)
    except ConnectionBroken:
        found = None
    try:
        expected = [(bytes(name), bytes(value)) for name, value in library.decode(block, raw=True)]
    except Exception:
        return  # what nobody looks at is not decoded, so noise in there goes unseen
    assert found is not None
    assert wanted(found) == wanted(expected)


def test_a_table_that_was_forbidden_is_an_error() -> None:
    encoder, ours = Encoder(), reader()
    ours.read(encoder.encode(ASKED))
    ours.forbid_table()
    with pytest.raises(ConnectionBroken, match="cannot be read"):
        ours.read(encoder.encode(ASKED))  # indexes into the table it still has


@given(blocks, st.sampled_from([0, 200, 404, 415]))
def test_our_blocks_are_read_by_the_library(headers: list[Header], status: int) -> None:
    found = Decoder().decode(block_of(tuple(headers), status), raw=True)
    first = [(b":status", b"%d" % status)] if status else []
    assert [(bytes(name), bytes(value)) for name, value in found] == [*first, *headers]
