"""Brokers of the same process: a call is a function call.

Sends of one turn of the event loop go to the broker together, with those that waited for others,
as those of one frame do over the link: one append for all.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from typing import NamedTuple

from popmq_common.errors import BrokerUnreachable, DeadlinePassed
from popmq_common.link.coalescer import Coalescer
from popmq_common.link.sends import SendCall, SendDone
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.clients.broker_link import OnReply, outcome_of, reply_of
from popmq_proxy.clients.brokers import Replying
from popmq_proxy.clients.deadlines import Deadlines
from popmq_proxy.core.routing.linger import Linger


class LocalBroker(NamedTuple):
    handle: Callable[[link.Call], Awaitable[link.Reply]]
    handle_sends: Callable[
        [Sequence[link.Call | SendCall], Callable[[link.Reply | SendDone], None]], None
    ]


class LocalBrokers:
    def __init__(self, brokers: dict[str, LocalBroker], linger_ms_max: int = 0) -> None:
        """`linger_ms_max`: see `Linger`."""
        self._brokers = brokers
        self._ids = count(1)
        self._linger = Linger(linger_ms_max)
        self._gathered: dict[str, list[link.Call | SendCall]] = {}
        self._coalescer = Coalescer(self._hand_over)
        self._sends: dict[int, tuple[str, OnReply]] = {}
        """As many as RPCs are under way, which the front bounds."""
        self._deadlines = Deadlines(self._pass_deadline)

    def call(self, broker: str, call: link.Call | SendCall, timeout_ms: int) -> Replying:
        found = self._found(broker)
        if isinstance(call, SendCall):
            send = call
            return reply_of(lambda on_reply: self._send(broker, send, timeout_ms, on_reply))
        return self._call(broker, found, call, timeout_ms)

    def _found(self, broker: str) -> LocalBroker:
        found = self._brokers.get(broker)
        if found is None:
            raise BrokerUnreachable(broker=broker, reason="it does not belong to this server")
        return found

    async def _call(
        self, broker: str, found: LocalBroker, call: link.Call, timeout_ms: int
    ) -> link.Reply:
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await found.handle(call)
        except TimeoutError:
            raise DeadlinePassed(broker=broker, timeout_ms=timeout_ms) from None

    def answers(self, broker: str) -> bool:
        return broker in self._brokers

    def send(self, broker: str, call: SendCall, timeout_ms: int, on_reply: OnReply) -> bool:
        self._found(broker)
        self._send(broker, call, timeout_ms, on_reply)
        return True

    def _send(self, broker: str, call: SendCall, timeout_ms: int, on_reply: OnReply) -> None:
        call.id = next(self._ids)
        self._sends[call.id] = broker, on_reply
        self._deadlines.begin(call.id, timeout_ms)
        self._gathered.setdefault(broker, []).append(call)
        now_s = asyncio.get_running_loop().time()
        wait_s = self._linger.wait_s(now_s, len(self._sends))
        if wait_s:
            self._coalescer.within(wait_s)
        else:
            self._coalescer.soon()

    def _hand_over(self) -> None:
        gathered, self._gathered = self._gathered, {}
        for broker, calls in gathered.items():
            self._brokers[broker].handle_sends(calls, self._answer)

    def _answer(self, reply: link.Reply | SendDone) -> None:
        waiting = self._sends.pop(reply.id, None)
        if waiting is not None:
            self._deadlines.end(reply.id)
            waiting[1](outcome_of(reply))

    def _pass_deadline(self, number: int, timeout_ms: int) -> None:
        broker, on_reply = self._sends.pop(number)
        on_reply(DeadlinePassed(broker=broker, timeout_ms=timeout_ms))

    async def close(self) -> None:
        self._deadlines.close()
