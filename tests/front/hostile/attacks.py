"""What clients may do to hurt others.

An attack begins with what it needs (streams that are open, answers that are held up), and goes on
when the server has done all of that. Then it either stays within what a client may do, as one does
that has read our source, and is never sent away; or it goes beyond, and being sent away is the
defence.

python -m front.hostile.attacks NAME ENDPOINT SECONDS [tls]
"""

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, repeat

from front.hostile import frames as f
from front.hostile import pieces as p
from front.hostile.crowd import Crowd, Plan, Seen
from front.hostile.pieces import Pieces

from popmq_common.units import KiB, MiB

GREETING = f.PREFACE + f.settings([])
PING = f.frame(f.PING, 0, 0, b"begun...")
BEGIN_S = 30.0
EVERY_S = p.EVERY_S
REQUEST_BYTES = 15 * MiB
"""Of an unpacked one; many fit into the room for all."""


def nothing() -> Pieces:
    return ()


def answered(seen: Seen) -> bool:
    """The server has read all that came before the ping."""
    return seen[f.PING] > 0


def held_up(seen: Seen) -> bool:
    """The heads of as many answers came as there may be streams."""
    return answered(seen) and seen[f.HEADERS] >= p.STREAMS


@dataclass(frozen=True)
class Attack:
    connections: int
    then: Callable[[], Pieces]
    begins: Callable[[], Pieces] = nothing
    ready: Callable[[Seen], bool] = answered
    every_s: float = 0.0
    calls_max: int = 0
    may_stay: bool = True
    may_be_cut: bool = False
    """The connections; some attacks do what is allowed as well as what is not."""
    reads: bool = True
    greets: bool = True

    def plan(self) -> Plan:
        def begins() -> Iterator[bytes]:
            return p.gathered(chain([GREETING], self.begins(), [PING]) if self.greets else ())

        def then() -> Iterator[bytes]:
            alone = self.every_s or self.calls_max
            return iter(self.then()) if alone else p.gathered(self.then())

        ready = self.ready if self.greets else lambda _: True
        return Plan(begins, then, ready, self.every_s, self.calls_max, self.reads)


def flood(frame: bytes, begins: Callable[[], Pieces] = nothing, connections: int = 8) -> Attack:
    """As many as the socket takes."""
    data = frame * (16 * KiB // len(frame) + 1)
    return Attack(connections, lambda: repeat(data), begins, may_stay=False)


def paced(frames: Callable[[], Pieces], *, each: int = p.A_TIME) -> Callable[[], Pieces]:
    return lambda: p.at_a_time(frames(), each)


def open_window() -> Pieces:
    return (p.WINDOW,)


def calls(then: Callable[[], Pieces], begins: Callable[[], Pieces] = open_window) -> Attack:
    return Attack(4, then, begins, calls_max=200)


def packed(data: bytes, path: str = "SendMessage") -> Attack:
    """Where there is no room for all of it, some are refused and others cut off."""
    attack = p.packed_requests(data, path)
    return Attack(4, attack, open_window, calls_max=200, may_be_cut=True)


def open_stream() -> Pieces:
    return p.heads(1, then=p.LONG)


FLOODS = {
    "windows": flood(f.window_update(0, 1)),
    "unknown frames": flood(f.frame(0x77, 0, 0)),
    "large unknown frames": flood(f.frame(0x77, 0, 0, bytes(200 * KiB)), connections=4),
    "pings": flood(f.frame(f.PING, 0, 0, bytes(8))),
    "priorities": flood(f.frame(f.PRIORITY, 0, 3, bytes(5))),
    "settings": flood(f.settings([])),
    "goaways": flood(f.frame(f.GOAWAY, 0, 0, bytes(8)), open_stream),
    "padding": flood(f.frame(f.DATA, f.PADDED, 1, b"\xff" + bytes(255)), open_stream),
    "one byte data": flood(f.frame(f.DATA, 0, 1, b"x"), open_stream),
    "empty data": flood(f.frame(f.DATA, 0, 1), open_stream),
    "continuation": Attack(
        4,
        lambda: chain([f.frame(f.HEADERS, 0, 3)], repeat(f.frame(f.CONTINUATION, 0, 3) * 500)),
        may_stay=False,
    ),
    "huge blocks": Attack(8, p.blocks(p.huffman(33_000)), p.usual_calls, may_stay=False),
    "too many fields": Attack(
        8, p.blocks(lambda _: p.LINES + b"\x82" * 15_000), p.usual_calls, may_stay=False
    ),
    # Two: of more of them a slow server reads fewer calls than each may take back.
    "rapid reset": Attack(2, p.begun_and_reset, may_stay=False),
    "resets in batches": Attack(4, p.reset_in_batches, may_be_cut=True),
    "malformed requests": Attack(4, p.malformed, may_stay=False),
    "too many streams": Attack(4, lambda: p.heads(1 << 22, "Telemetry"), may_stay=False),
    "no HTTP/2": Attack(8, lambda: repeat(b"GET / HTTP/1.1\r\n\r\n"), greets=False, may_stay=False),
    "no TLS": Attack(8, lambda: repeat(b"\x16\x03\x01" + bytes(99)), greets=False, may_stay=False),
}
"""Beyond what a client may do."""
PACED = {
    "settings of many streams": Attack(
        4, paced(p.windows_one_larger), p.held_up_streams, held_up, EVERY_S
    ),
    "long settings": Attack(4, paced(p.long_settings), p.held_up_streams, held_up, EVERY_S),
    "blocked streams": Attack(
        4, paced(lambda: repeat(f.window_update(0, 1))), p.held_up_connection, held_up, EVERY_S
    ),
    "trickling windows": Attack(
        4, paced(p.windows_byte_by_byte), p.held_up_streams, held_up, EVERY_S
    ),
    "frames of all kinds": Attack(6, p.all_kinds, open_stream, every_s=EVERY_S),
    "slow continuation": Attack(6, paced(p.continued_byte_by_byte), every_s=EVERY_S),
    "resets within the budget": Attack(6, paced(p.begun_and_reset, each=3), every_s=EVERY_S),
    "malformed within the budget": Attack(6, paced(p.malformed, each=12), every_s=EVERY_S),
    "late resets": Attack(4, p.reset_late, every_s=1.8),
    "many half-open calls": Attack(20, paced(p.slow_heads(), each=12), every_s=0.04),
    "half-open streams": Attack(20, paced(p.slow_heads("Telemetry", b"\0"), each=20), every_s=0.04),
}
"""What a client may do of it."""
CALLS = {
    "huffman blocks": calls(p.blocks(p.huffman(9_000)), p.usual_calls),
    "many fields": calls(p.blocks(p.many_fields), p.usual_calls),
    "few fields": calls(p.blocks(p.few_fields), p.usual_calls),
    "named again": calls(p.blocks(p.named_again, first=1)),
    "refused requests": calls(p.blocks(lambda _: p.NOT_GRPC)),
    "calls with windows": calls(p.calls_with_windows),
}
"""Requests that are answered, many at a time."""
SILENT = {
    "half-open calls": Attack(2, nothing, lambda: p.heads(p.STREAMS)),
    "parked polls": Attack(2, nothing, lambda: p.requests("ReceiveMessage", p.POLL, 10_000)),
    "unfinished requests": Attack(20, p.unfinished_requests, may_be_cut=True),
    "unread answers": Attack(
        40,
        nothing,
        lambda: chain([f.settings([(f.INITIAL_WINDOW_SIZE, 0)])], p.polls_for_large(20)),
        reads=False,
    ),
    "unread sockets": Attack(
        8,
        nothing,
        lambda: chain(
            [p.WINDOW, f.settings([(f.INITIAL_WINDOW_SIZE, 1 << 30)])], p.polls_for_large(100)
        ),
        reads=False,
    ),
    "endless messages": Attack(4, p.endless_messages, open_window, calls_max=20, may_be_cut=True),
    "packed requests": packed(bytes(REQUEST_BYTES)),
    "empty messages": packed(b"\x0a\x00" * (REQUEST_BYTES // 2)),
    "empty acks": packed(b"\x1a\x00" * (500 * KiB), "AckMessage"),
}
"""They take room."""
ATTACKS = {**FLOODS, **PACED, **CALLS, **SILENT}


def main() -> None:
    name, endpoint, seconds, *tls = sys.argv[1:]
    attack = ATTACKS[name]
    crowd = Crowd(endpoint, attack.connections, attack.plan(), tls=bool(tls))
    crowd.run(float(seconds), BEGIN_S)
    told = {
        "ready": crowd.ready_count,
        "cut_early": crowd.cut_early_count,
        "sent_away": crowd.sent_away_count,
        "reasons": crowd.reasons.most_common(2),
        "written_mib": round(crowd.written_bytes / MiB, 1),
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main()
