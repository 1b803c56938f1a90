"""When answers leave: those of a turn together, a large one whole, the rest as windows allow."""

import pytest
from harness.http2 import Client, shared, turns
from harness.transport import Writes

from popmq_proxy.front.http2 import wire
from popmq_proxy.front.http2.outgoing import EAGER_BYTES, PIECE_BYTES, Outgoing
from popmq_proxy.front.http2.shared import Address, Member
from popmq_proxy.front.http2.stream import Stream
from popmq_proxy.front.room import Account


async def never_called(*_: object) -> None: ...


class Rig:
    def __init__(self) -> None:
        self.shared = shared()
        self._streams = Client(never_called, self.shared).connection.streams
        self.transport = Writes()
        member = Member(self.shared, Address(Account()), lambda: None)
        self.outgoing = Outgoing(self.transport, self.shared, member)

    def stream(self, number: int) -> Stream:
        return Stream(self._streams, number, {})

    def sent_bytes(self, stream: Stream) -> int:
        """Bodies that left since the last call."""
        self.outgoing.flush()
        data, at, found = b"".join(self.transport.writes), 0, 0
        self.transport.writes.clear()
        while at < len(data):
            high, low, kind, _, number = wire.HEAD.unpack_from(data, at)
            size = high << 8 | low
            if (kind, number) == (wire.DATA, stream.id):
                found += size
            at += wire.HEAD_BYTES + size
        return found


@pytest.mark.parametrize("last_bytes", [0, 1, 20_000])
async def test_the_end_of_a_large_answer_does_not_wait_for_other_answers(last_bytes: int) -> None:
    rig = Rig()
    rig.outgoing.whole(rig.stream(1), b"head", bytes(EAGER_BYTES + last_bytes), b"the end")
    (written,) = rig.transport.writes
    assert written.endswith(b"the end")


async def test_small_answers_of_a_turn_leave_together() -> None:
    rig = Rig()
    for number in (1, 3):
        rig.outgoing.whole(rig.stream(number), b"head", b"body", b"tail")
    assert not rig.transport.writes
    rig.outgoing.flush()
    (written,) = rig.transport.writes
    assert written.count(b"body") == 2


async def test_what_waits_counts_until_it_has_left_or_is_forgotten() -> None:
    rig = Rig()
    unread = rig.shared.rooms.unread
    one, other = rig.stream(1), rig.stream(3)
    rig.outgoing.grow(1 << 20)
    rig.outgoing.change_stream_window(100)
    rig.outgoing.data(one, bytes(1_000))
    rig.outgoing.data(other, bytes(500))
    assert (rig.sent_bytes(one), unread.taken) == (100, 1_500)
    rig.outgoing.grow_stream(one, 600)
    assert (rig.sent_bytes(one), unread.taken) == (600, 800), "most of it has left, and is free"
    rig.outgoing.grow_stream(one, 300)
    assert (rig.sent_bytes(one), unread.taken) == (300, 500)
    rig.outgoing.forget(other)
    assert unread.taken == 0


async def test_a_socket_that_takes_nothing_holds_all_answers_up() -> None:
    rig = Rig()
    stream = rig.stream(1)
    rig.outgoing.jam()
    assert not rig.outgoing.takes(stream, 1)
    assert not rig.outgoing.answer(stream, b"x")
    rig.outgoing.data(stream, b"body")
    assert rig.sent_bytes(stream) == 0
    rig.outgoing.unjam()
    assert rig.sent_bytes(stream) == 4


async def test_answers_that_wait_leave_by_turns_a_piece_each() -> None:
    rig = Rig()
    first, second = rig.stream(1), rig.stream(3)
    rig.outgoing.change_stream_window(wire.WINDOW_MAX)
    rig.outgoing.grow(-wire.WINDOW_DEFAULT)
    for stream in (first, second):
        rig.outgoing.data(stream, bytes(3 * PIECE_BYTES))
    rig.outgoing.grow(2 * PIECE_BYTES)
    written = rig.outgoing
    written.flush()
    assert len(first.outgoing) - first.outgoing_at == 2 * PIECE_BYTES
    assert len(second.outgoing) - second.outgoing_at == 2 * PIECE_BYTES


async def test_a_window_for_all_streams_lets_thousands_go_on() -> None:
    rig = Rig()
    rig.outgoing.change_stream_window(0)
    streams = [rig.stream(number) for number in range(1, 6_001, 2)]
    for stream in streams:
        rig.outgoing.data(stream, b"body")
    rig.outgoing.change_stream_window(4)
    assert any(stream.outgoing for stream in streams), "not all of them in one turn"
    await turns(20)
    assert not any(stream.outgoing for stream in streams)
    assert rig.shared.rooms.unread.taken == 0
