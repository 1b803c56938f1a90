"""Pings both ways: ours ask whether the client is still there, its own are answered.

gRPC clients measure a connection by a ping behind nearly every answer, one at a time. Each costs
us a turn of the loop and a write, as much as a third of a small RPC. So where little is sent, pings
that follow each other closely are answered once in `ANSWER_GAP_S`: while one waits, no other comes.
What clients need them for is a window that fits when much is sent; then they are answered at once.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from popmq_common.units import KiB
from popmq_proxy.front.http2 import wire
from popmq_proxy.front.http2.flow_control.outgoing import Outgoing

ANSWER_GAP_S: Final = 0.05
LITTLE_BYTES: Final = 16 * KiB
"""Sent since the last answer."""
WAITING_MAX: Final = 64
"""Pings that wait for an answer; one more, and all have it at once."""


class Pings:
    def __init__(
        self, outgoing: Outgoing, give_up: Callable[[], None], *, every_s: float, answer_s: float
    ) -> None:
        """`give_up` is called when nothing came for too long."""
        self._outgoing = outgoing
        self._give_up = give_up
        self._every_s = every_s
        self._answer_s = answer_s
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: list[bytes] = []
        self._answer_timer: asyncio.TimerHandle | None = None
        self._answered_s = -ANSWER_GAP_S
        self._answered_at_bytes = 0

    def close(self) -> None:
        for timer in (self._timer, self._answer_timer):
            if timer is not None:
                timer.cancel()

    def part(self) -> None:
        """The connection is gone, and nobody is to know it."""
        self._give_up = _nothing

    # --- ours ---

    def expect(self, seconds: float, then: Callable[[], None] | None = None) -> None:
        """Something must come within this time."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, then or self._give_up)

    def heard(self) -> None:
        """The client is there; ask again after a while."""
        self.expect(self._every_s, self._ask)

    def _ask(self) -> None:
        self._outgoing.put(wire.frame(wire.PING, 0, 0, bytes(8)))
        self.expect(self._answer_s)

    # --- the client's ---

    def came(self, payload: bytes) -> None:
        """To be answered with the same."""
        self._waiting.append(wire.frame(wire.PING, wire.ACK, 0, payload))
        sent_bytes = self._outgoing.sent_bytes - self._answered_at_bytes
        now_s, due_s = self._loop.time(), self._answered_s + ANSWER_GAP_S
        if now_s >= due_s or sent_bytes > LITTLE_BYTES or len(self._waiting) > WAITING_MAX:
            self._answer()
        elif self._answer_timer is None:
            self._answer_timer = self._loop.call_at(due_s, self._answer)

    def _answer(self) -> None:
        if self._answer_timer is not None:
            self._answer_timer.cancel()
            self._answer_timer = None
        self._outgoing.put(b"".join(self._waiting))
        self._waiting = []
        self._answered_s = self._loop.time()
        self._answered_at_bytes = self._outgoing.sent_bytes


def _nothing() -> None:
    return
