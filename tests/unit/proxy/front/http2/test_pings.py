"""Pings of a client: when they are answered, and what they cost while little is sent."""

import asyncio
from collections.abc import Callable

import pytest
from harness.http2 import shared
from harness.transport import Writes

from popmq_proxy.front.client_budgets import Account
from popmq_proxy.front.http2 import wire
from popmq_proxy.front.http2.flow_control.outgoing import Outgoing
from popmq_proxy.front.http2.pings import ANSWER_GAP_S, LITTLE_BYTES, WAITING_MAX, Pings
from popmq_proxy.front.http2.shared import Address, Member


class Timer:
    def __init__(self, due_s: float, then: Callable[[], None]) -> None:
        self.due_s, self.then = due_s, then

    def cancel(self) -> None:
        self.due_s = float("inf")


class Loop:
    """Its time is the test's."""

    def __init__(self) -> None:
        self.now_s = 1_000.0
        self.timers: list[Timer] = []

    def time(self) -> float:
        return self.now_s

    def call_soon(self, then: Callable[[], None]) -> None:
        then()

    def call_at(self, due_s: float, then: Callable[[], None]) -> Timer:
        self.timers.append(Timer(due_s, then))
        return self.timers[-1]

    def call_later(self, seconds: float, then: Callable[[], None]) -> Timer:
        return self.call_at(self.now_s + seconds, then)

    def pass_time(self, seconds: float) -> None:
        self.now_s += seconds
        due = [timer for timer in self.timers if timer.due_s <= self.now_s]
        self.timers = [timer for timer in self.timers if timer.due_s > self.now_s]
        for timer in due:
            timer.then()


class Transport(Writes):
    @property
    def answered(self) -> list[int]:
        """Which pings, by their number."""
        frame_bytes = wire.HEAD_BYTES + 8
        data = b"".join(self.writes)
        return [data[at + frame_bytes - 1] for at in range(0, len(data), frame_bytes)]


class Rig:
    def __init__(self, loop: Loop) -> None:
        self.loop, self.transport, self.gave_up = loop, Transport(), 0
        among = shared()
        member = Member(among, Address(Account()), print, print)
        self.outgoing = Outgoing(self.transport, among, member, lambda: None)
        self.pings = Pings(self.outgoing, self._give_up, every_s=60, answer_s=20)

    def _give_up(self) -> None:
        self.gave_up += 1

    def ping(self, *numbers: int) -> list[int]:
        for number in numbers:
            self.pings.came(bytes(7) + bytes((number,)))
        return self.transport.answered


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    loop = Loop()
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: loop)
    return Rig(loop)


def test_pings_now_and_then_are_answered_at_once(rig: Rig) -> None:
    for number in range(3):
        assert rig.ping(number) == list(range(number + 1))
        rig.loop.pass_time(ANSWER_GAP_S)


def test_those_close_to_each_other_are_answered_together(rig: Rig) -> None:
    assert rig.ping(1, 2, 3) == [1]
    rig.loop.pass_time(ANSWER_GAP_S * 0.9)
    assert rig.ping(4) == [1]
    rig.loop.pass_time(ANSWER_GAP_S * 0.2)
    assert rig.transport.answered == [1, 2, 3, 4]
    assert len(rig.transport.writes) == 2


def test_where_much_is_sent_each_is_answered_at_once(rig: Rig) -> None:
    """The client finds out how large its window should be."""
    for number in range(3):
        assert rig.ping(number) == list(range(number + 1))
        rig.outgoing.sent_bytes += LITTLE_BYTES + 1


def test_few_wait_for_an_answer(rig: Rig) -> None:
    numbers = list(range(WAITING_MAX + 2))
    assert rig.ping(*numbers) == numbers


def test_a_connection_that_has_ended_answers_no_more(rig: Rig) -> None:
    assert rig.ping(1, 2) == [1]
    rig.pings.expect(5)
    rig.pings.close()
    rig.loop.pass_time(100)
    assert (rig.transport.answered, rig.gave_up) == ([1], 0)


def test_a_client_that_is_silent_is_asked_and_then_given_up(rig: Rig) -> None:
    rig.pings.heard()
    rig.loop.pass_time(59)
    assert rig.transport.writes == []
    rig.loop.pass_time(1)
    assert rig.transport.writes == [wire.frame(wire.PING, 0, 0, bytes(8))]
    rig.pings.heard()
    rig.loop.pass_time(30)
    assert rig.gave_up == 0
    rig.loop.pass_time(30)
    rig.loop.pass_time(20)
    assert rig.gave_up == 1
