"""Header blocks: what any client's encoder makes is read as the hpack library reads it."""

import pytest
from hpack import Decoder, Encoder
from hypothesis import given
from hypothesis import strategies as st

from popmq_proxy.front.http2.header_blocks.fields import Header
from popmq_proxy.front.http2.header_blocks.headers import (
    CHECKED_BLOCKS,
    FORGOTTEN_MAX,
    KNOWN,
    LONG_BYTES,
    LOOKED_AT,
    HeaderReader,
    block_of,
)
from popmq_proxy.front.http2.wire import ConnectionBroken, Error

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
LIMIT = 1 << 20
names = st.one_of(
    st.sampled_from(sorted(LOOKED_AT)),
    st.text("abcdefghijklmnopqrstuvwxyz-", min_size=1, max_size=200).map(str.encode),
)
PRINTABLE = st.characters(min_codepoint=0x20, max_codepoint=0x7E)
values = st.text(PRINTABLE, max_size=300).map(str.encode)
blocks = st.lists(st.tuples(names, values), max_size=20)


def wanted(headers: list[Header]) -> list[Header]:
    return [(name, value) for name, value in headers if name in LOOKED_AT]


def plain_reader(encoder: Encoder) -> HeaderReader:
    """One that has checked its client's first blocks."""
    ours = HeaderReader(LIMIT)
    for _ in range(CHECKED_BLOCKS):
        ours.read(encoder.encode(ASKED))
    return ours


@given(st.lists(blocks, min_size=1, max_size=4), st.booleans(), st.booleans())
def test_a_client_with_a_table(sent: list[list[Header]], huffman: bool, later: bool) -> None:
    encoder = Encoder()
    ours = plain_reader(encoder) if later else HeaderReader(LIMIT)
    for headers in sent:
        assert ours.read(encoder.encode(headers, huffman=huffman)) == wanted(headers)


@given(st.lists(blocks, min_size=1, max_size=4), st.booleans())
def test_a_client_that_gives_its_table_up(sent: list[list[Header]], huffman: bool) -> None:
    encoder = Encoder()
    ours = plain_reader(encoder)
    assert ours.wants_no_table
    encoder.header_table_size = 0
    for headers in [*sent, ASKED]:
        assert ours.read(encoder.encode(headers, huffman=huffman)) == wanted(headers)
        assert not ours.wants_no_table, "it is asked once"


@given(st.lists(blocks, min_size=1, max_size=12))
def test_a_client_that_never_had_a_table(sent: list[list[Header]]) -> None:
    """It does not say so, as .NET's does not; a table that is not used needs no end."""
    ours = HeaderReader(LIMIT)
    for headers in [*sent, *sent, ASKED]:
        assert ours.read(block_of(tuple(headers), 0)) == wanted(headers)
        assert not ours.wants_no_table


@given(st.integers(0, 4_096), st.lists(blocks, min_size=1, max_size=4))
def test_a_table_of_any_size_up_to_ours(size: int, sent: list[list[Header]]) -> None:
    encoder, ours = Encoder(), HeaderReader(LIMIT)
    ours.read(encoder.encode(ASKED))
    encoder.header_table_size = size
    for headers in [*sent, ASKED]:
        assert ours.read(encoder.encode(headers)) == wanted(headers)


DIFFER = (b"grpc-timeout", b"x-mq-request-id", b"x-mq-date-time", b"authorization")
DIFFERING = st.sampled_from(DIFFER)
FIELDS = st.tuples(st.one_of(DIFFERING, st.sampled_from(sorted(LOOKED_AT)), names), values)


@given(
    st.lists(st.lists(FIELDS, max_size=9), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 2), st.lists(values, min_size=9, max_size=9)), max_size=20),
    st.booleans(),
)
def test_blocks_that_are_alike_are_known_but_for_what_differs(
    kinds: list[list[Header]], sent: list[tuple[int, list[bytes]]], huffman: bool
) -> None:
    """What was prepared of one holds for all of them; the time-out is each block's own."""
    encoder = Encoder()
    ours = plain_reader(encoder)
    encoder.header_table_size = 0
    for which, others in sent:
        headers = [
            (name, other if name in DIFFER else value)
            for (name, value), other in zip(kinds[which % len(kinds)], others, strict=False)
        ]
        fields = ours.read(encoder.encode(headers, huffman=huffman))
        expected = dict(wanted(headers))
        timeout = expected.pop(b"grpc-timeout", None)
        signature = expected.pop(b"authorization", b"")
        date = expected.pop(b"x-mq-date-time", b"")
        if ours.alike is None:
            assert fields == wanted(headers)
            continue
        if ours.alike.prepared is None:
            assert fields == wanted(headers)
            ours.alike.prepared = expected
        assert ours.alike.prepared == expected
        assert ours.timeout == timeout
        assert ours.signature == ((signature, date) if signature else None)


def test_the_last_of_two_signatures_counts_though_it_is_from_the_static_table() -> None:
    """HPACK's static table has `authorization` with an empty value."""
    ours = plain_reader(encoder := Encoder())
    encoder.header_table_size = 0
    for _ in range(20):
        sent = [(b"authorization", b"0"), (b"authorization", b"")]
        assert ours.read(encoder.encode(sent)) == wanted(sent)
        assert ours.alike is None


METADATA = [
    *((b"x-mq-client-id", b"me@4711@0@1x2y3z"), (b"x-mq-language", b"GO")),
    *((b"x-mq-protocol", b"v2"), (b"x-mq-client-version", b"5.1.4")),
    *((b"x-mq-date-time", b"20260101T000000Z"), (b"x-mq-request-id", b"01234567-89ab")),
]


@pytest.mark.parametrize("signed", [False, True])
def test_metadata_that_begins_elsewhere_each_time_is_known_too(signed: bool) -> None:
    """Go's clients go through a map of it: the same circle from another point. They call two
    methods, each second with another date and signature."""
    encoder = Encoder()
    ours = plain_reader(encoder)
    encoder.header_table_size = 0
    ours.read(encoder.encode(ASKED))  # it begins with the table's end
    known, methods = 0, (b"/s/ReceiveMessage", b"/s/AckMessage")
    ways = len(methods) * (len(METADATA) + signed)
    for number in range(6 * ways):
        date = b"20260101T0000%02dZ" % (number % 60)
        metadata = [(name, date if name == b"x-mq-date-time" else of) for name, of in METADATA]
        if signed:
            metadata.append((b"authorization", SIGNATURE % (b"%040x" % number)))
        at = number // len(methods) % len(metadata)
        head = [
            (name, methods[number % len(methods)] if name == b":path" else value)
            for name, value in (*ASKED[:-1], (b"grpc-timeout", b"%dm" % number))
        ]
        ours.read(encoder.encode([*head, *metadata[at:], *metadata[:at]]))
        if ours.alike is not None:
            known += ours.alike.prepared is not None
            ours.alike.prepared = {}
    assert known == 4 * ways, "each way is remembered, prepared, and known"


SIGNATURE = b"MQv2-HMAC-SHA1 Credential=alice//Rocketmq, SignedHeaders=x-mq-date-time, Signature=%s"


def test_what_is_always_written_in_another_way_is_remembered_no_more() -> None:
    encoder = Encoder()
    ours = plain_reader(encoder)
    encoder.header_table_size = 0
    for number in range(200):
        headers = [*ASKED, (b"traceparent", b"%032d" % number)]
        assert ours.read(encoder.encode(headers)) == wanted(headers)
    assert ours._forgotten_count == FORGOTTEN_MAX
    assert ours._parts == []


def as_the_library(decoder: Decoder, block: bytes) -> list[Header] | None:
    try:
        return [(bytes(name), bytes(value)) for name, value in decoder.decode(block, raw=True)]
    except Exception:
        return None


@given(st.binary(max_size=60))
def test_noise_at_first_is_read_as_the_library_reads_it_or_refused(block: bytes) -> None:
    try:
        found: list[Header] | None = HeaderReader(LIMIT).read(block)
    except ConnectionBroken:
        found = None
    expected = as_the_library(Decoder(LIMIT), block)
    assert found == (None if expected is None else wanted(expected))


@given(st.binary(max_size=60))
def test_noise_later_is_read_as_the_library_reads_it_or_refused(block: bytes) -> None:
    """What nobody looks at is not decoded then, so noise in there goes unseen."""
    encoder = Encoder()
    encoder.header_table_size = 0
    ours = plain_reader(encoder)
    library = Decoder(LIMIT)
    library.header_table_size = 0
    expected = as_the_library(library, block)
    try:
        found = ours.read(block)
    except ConnectionBroken:
        found = None
    if expected is not None:
        assert found == wanted(expected)


GET = [(b":method", b"GET"), (b":scheme", b"http"), (b":path", b"/")]


@pytest.mark.parametrize("checked", [True, False])
@pytest.mark.parametrize(
    ("fields", "good"),
    [
        (GET, True),
        ([*GET, (b"x-own", b"1"), (b"grpc-timeout", b"1S")], True),
        ([*GET, (b"X-Own", b"1")], False),
        ([*GET, (b":status", b"200")], False),
        ([*GET, (b":unknown", b"1")], False),
        ([*GET[:2], (b"te", b"trailers"), GET[2]], False),
        ([*GET[:2], (b"x-own", b"1"), GET[2]], False),
        ([*GET, (b"connection", b"keep-alive")], False),
        ([*GET, (b"transfer-encoding", b"chunked")], False),
        ([*GET, (b"a b", b"1")], False),
    ],
)
def test_what_no_request_may_say(fields: list[Header], good: bool, checked: bool) -> None:
    ours = HeaderReader(LIMIT)
    for _ in range(0 if checked else CHECKED_BLOCKS):
        ours.read(block_of(tuple(ASKED), 0))
    for _ in range(2):  # also when its beginning is remembered
        ours.read(block_of(tuple(fields), 0))
        assert bool(ours.malformed) is not good
    ours.read(block_of(tuple(ASKED), 0))
    assert not ours.malformed


def later_reader() -> HeaderReader:
    """One that has read the blocks which a usual client begins with; it has no table."""
    ours = HeaderReader(16_384)
    for _ in range(CHECKED_BLOCKS + 1):
        ours.read(block_of(tuple(ASKED), 0))
    return ours


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize(
    ("block", "code"),
    [
        (b"\x82" * 400, Error.ENHANCE_YOUR_CALM),  # fields of one byte, 40 and more each
        (b"\x82" * 16_384, Error.ENHANCE_YOUR_CALM),
        (b"\x00\x01x\x00" * 4_000, Error.ENHANCE_YOUR_CALM),  # names that nobody knows
        (b"\x00\x01x\x7f\xd0\x7f" + b"y" * 16_464, Error.ENHANCE_YOUR_CALM),
        (b"\x7f" + b"\xff" * 10_000, Error.COMPRESSION_ERROR),  # a number without an end
        (b"\x0f" + b"\xff" * 100, Error.COMPRESSION_ERROR),
        (b"\x00\x01x\x7f" + b"\xff" * 100, Error.COMPRESSION_ERROR),  # a length without one
        (b"\xbe", Error.COMPRESSION_ERROR),  # of a table that is empty
        (b"\x3f\xe2\x1f", Error.COMPRESSION_ERROR),  # a table of 4,097 bytes
        (b"\x82\x20", Error.COMPRESSION_ERROR),  # a table's size behind a field
    ],
)
def test_what_cannot_be_read_or_is_too_much(block: bytes, code: Error, later: bool) -> None:
    ours = later_reader() if later else HeaderReader(16_384)
    with pytest.raises(ConnectionBroken) as broken:
        ours.read(block)
    assert broken.value.code == code


@pytest.mark.parametrize("later", [False, True])
def test_a_long_block_is_told(later: bool) -> None:
    ours = later_reader() if later else HeaderReader(16_384)
    long = block_of((*ASKED, (b"x-mq-session-token", b"x" * 4_000)), 0)
    assert ours.read(long) == ASKED
    assert ours.long_bytes == len(long) - LONG_BYTES
    ours.read(block_of(tuple(ASKED), 0))
    assert ours.long_bytes == 0


@given(blocks.filter(bool), st.integers(1, 100))
def test_however_many_fields_they_are_read_alike(fields: list[Header], times: int) -> None:
    ours, many = later_reader(), fields * times
    block = block_of(tuple(many), 0)
    if sum(len(name) + len(value) + 32 for name, value in many) <= 16_384:
        assert ours.read(block) == wanted(many)
    else:
        with pytest.raises(ConnectionBroken):
            ours.read(block)


def test_a_table_that_is_named_again_and_again_is_bounded() -> None:
    """A field of 4,000 bytes, named by one byte each time."""
    ours = HeaderReader(16_384)
    ours.read(b"\x40\x01x\x7f\xa1\x1e" + b"y" * 4_000)
    with pytest.raises(ConnectionBroken) as broken:
        ours.read(b"\xbe" * 5)
    assert broken.value.code == Error.ENHANCE_YOUR_CALM


@given(blocks, st.sampled_from([0, 200, 404, 415]))
def test_our_blocks_are_read_by_the_library(headers: list[Header], status: int) -> None:
    found = Decoder().decode(block_of(tuple(headers), status), raw=True)
    first = [(b":status", b"%d" % status)] if status else []
    assert [(bytes(name), bytes(value)) for name, value in found] == [*first, *headers]


@pytest.mark.parametrize("coded", [False, True], ids=["plain", "huffman"])
def test_who_signs_is_read_of_each_block_though_the_rest_is_prepared(coded: bool) -> None:
    """The same client a second later, another user of the same connection, and nobody."""
    ours = later_reader()
    encoder = Encoder()
    encoder.header_table_size = 0

    def block(signature: bytes | None, date: bytes) -> bytes:
        signed = () if signature is None else ((b"authorization", signature),)
        fields = (*ASKED, *signed, (b"x-mq-date-time", date), (b"x-mq-language", b"GO"))
        return encoder.encode(fields, huffman=True) if coded else block_of(fields, 0)

    for number, user in enumerate([b"alice", b"root", None, b"alice"] * 5):
        signature = None if user is None else b"MQv2-HMAC-SHA1 Credential=%s, Signature=ab" % user
        date = b"20261123T1011%02dZ" % number
        found = ours.read(block(signature, date))
        if found is KNOWN:
            assert ours.signature == (None if signature is None else (signature, date))
            continue
        assert ours.alike is not None or number < 4
        named = dict(found)
        assert (named.get(b"authorization"), named[b"x-mq-date-time"]) == (signature, date)
        if ours.alike is not None:
            ours.alike.prepared = "prepared"
    assert found is KNOWN
