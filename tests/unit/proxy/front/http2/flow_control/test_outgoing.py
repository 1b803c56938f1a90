"""When answers leave: those of a turn together, a large one whole, the rest as windows allow."""

import math
from itertools import count

import pytest
from harness.http2 import Client, shared
from harness.transport import Writes

from popmq_proxy.front.client_budgets import Account
from popmq_proxy.front.http2 import wire
from popmq_proxy.front.http2.flow_control import outgoing
from popmq_proxy.front.http2.flow_control.outgoing import (
    EAGER_BYTES,
    FREE_BYTES,
    PIECE_BYTES,
    WAITING_BYTES,
    Outgoing,
)
from popmq_proxy.front.http2.shared import Address, Member
from popmq_proxy.front.http2.stream import Stream


async def never_called(*_: object) -> None: ...


class Rig:
    def __init__(self, **bounds: int) -> None:
        self.shared = shared(**bounds)
        self._streams = Client(never_called, self.shared).connection.streams
        self.transport = Writes()
        member = Member(self.shared, Address(Account()), print, print)
        self.turns = 0
        self.outgoing = Outgoing(self.transport, self.shared, member, self._want_turn)

    def _want_turn(self) -> None:
        self.turns += 1

    def stream(self, number: int) -> Stream:
        return Stream(self._streams, number, {})

    def sent_bytes(self, stream: Stream) -> int:
        """Bodies that left since the last call, with a turn that has time for all of it."""
        assert self.outgoing.go_on(math.inf)
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
    unread, own = rig.shared.budgets.answer_buffer, WAITING_BYTES
    one, other = rig.stream(1), rig.stream(3)
    rig.outgoing.grow(1 << 20)
    rig.outgoing.change_stream_window(100)
    rig.outgoing.data(one, bytes(1_000))
    rig.outgoing.data(other, bytes(500))
    assert (rig.sent_bytes(one), unread.taken) == (100, 1_500 + 2 * own)
    rig.outgoing.grow_stream(one, 600)
    assert (rig.sent_bytes(one), unread.taken) == (600, 800 + 2 * own), "most of it has left"
    rig.outgoing.grow_stream(one, 300)
    assert (rig.sent_bytes(one), unread.taken) == (300, 500 + own)
    rig.outgoing.forget(other)
    assert unread.taken == 0


async def test_what_waits_has_a_bound() -> None:
    rig = Rig(unread_bytes_max=100_000)
    rig.outgoing.change_stream_window(0)
    streams = [rig.stream(number) for number in range(1, 401, 2)]
    kept = [rig.outgoing.data(stream, b"body") for stream in streams]
    unread = rig.shared.budgets.answer_buffer
    assert 70 < kept.count(True) < 100
    assert unread.taken == kept.count(True) * (4 + WAITING_BYTES)
    for stream in streams:
        rig.outgoing.forget(stream)
    assert unread.taken == 0


async def test_what_the_socket_does_not_take_counts_until_it_does() -> None:
    rig = Rig()
    unread, transport = rig.shared.budgets.answer_buffer, rig.transport
    transport.held_bytes = 70_000
    rig.outgoing.put(b"x" * EAGER_BYTES)
    assert unread.taken == 70_000, "seen before the next write"
    transport.held_bytes = 100_000
    rig.outgoing.jam()
    assert unread.taken == 100_000
    transport.held_bytes = 20_000
    rig.shared.pass_tick()
    assert unread.taken == 20_000, "or by and by"
    transport.held_bytes = 0
    rig.outgoing.unjam()
    assert unread.taken == 0
    transport.held_bytes = 5_000
    rig.outgoing.jam()
    rig.outgoing.lose()
    assert unread.taken == 0
    assert not rig.shared.backlogs.ones


async def test_without_room_only_who_reads_gets_a_small_answer() -> None:
    rig = Rig(unread_bytes_max=300_000)
    rig.outgoing.change_stream_window(1 << 20)
    rig.outgoing.grow(1 << 20)
    assert rig.outgoing.takes(rig.stream(1), 200_000)
    rig.shared.budgets.answer_buffer.take(Account(), 300_000)
    assert not rig.outgoing.takes(rig.stream(1), 200_000)
    assert rig.outgoing.takes(rig.stream(1), FREE_BYTES)
    rig.transport.held_bytes = 1
    rig.outgoing.put(b"x" * EAGER_BYTES)
    assert not rig.outgoing.takes(rig.stream(1), FREE_BYTES)


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
    rig.outgoing.go_on(math.inf)
    assert len(first.outgoing) - first.outgoing_at == 2 * PIECE_BYTES
    assert len(second.outgoing) - second.outgoing_at == 2 * PIECE_BYTES


async def test_a_window_for_all_streams_lets_thousands_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = count()
    monkeypatch.setattr(outgoing, "monotonic", lambda: next(clock))
    rig = Rig()
    rig.outgoing.change_stream_window(0)
    streams = [rig.stream(number) for number in range(1, 6_001, 2)]
    for stream in streams:
        rig.outgoing.data(stream, b"body")
    assert rig.outgoing.go_on(math.inf)
    assert rig.turns == 1
    rig.outgoing.change_stream_window(4)
    assert rig.outgoing.goes_on
    assert all(stream.outgoing for stream in streams), "nothing amid the client's frames"
    slices = 0
    while not rig.outgoing.go_on(next(clock) + 20):
        slices += 1
        assert slices < 1_000
    assert slices > 50
    assert not any(stream.outgoing for stream in streams)
    assert rig.shared.budgets.answer_buffer.taken == 0


async def test_each_slice_sends_something_though_the_client_changes_all_windows_between() -> None:
    rig = Rig()
    rig.outgoing.change_stream_window(0)
    streams = [rig.stream(number) for number in range(1, 2_001, 2)]
    for stream in streams:
        rig.outgoing.data(stream, b"body")
    assert rig.outgoing.go_on(math.inf)
    for _ in streams:
        rig.outgoing.change_stream_window(1)
        rig.outgoing.change_stream_window(4)
        rig.outgoing.go_on(0)
    assert not any(stream.outgoing for stream in streams)
