"""Brokers of the same process: a call is a function call.

Sends of one turn of the event loop go to the broker together, as those of one frame do over the
link: one append for all.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from typing import NamedTuple

from popmq_common.errors import BrokerUnreachable, DeadlinePassed
from popmq_common.wire import error_of
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.clients.broker_link import pass_deadline
from popmq_proxy.clients.brokers import Replying


class LocalBroker(NamedTuple):
    handle: Callable[[link.Call], Awaitable[link.Reply]]
    handle_sends: Callable[[Sequence[link.Call], Callable[[link.Reply], None]], None]


class LocalBrokers:
    def __init__(self, brokers: dict[str, LocalBroker]) -> None:
        self._brokers = brokers
        self._ids = count(1)
        self._gathered: dict[str, list[link.Call]] = {}
        self._waiting: dict[int, asyncio.Future[link.Reply]] = {}
        """As many as RPCs are under way, which the front bounds."""

    def call(self, broker: str, call: link.Call, timeout_ms: int) -> Replying:
        found = self._brokers.get(broker)
        if found is None:
            raise BrokerUnreachable(broker=broker, reason="it does not belong to this server")
        if call.WhichOneof("body") == "send":
            return self._send(broker, call, timeout_ms)
        return self._call(broker, found, call, timeout_ms)

    async def _call(
        self, broker: str, found: LocalBroker, call: link.Call, timeout_ms: int
    ) -> link.Reply:
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await found.handle(call)
        except TimeoutError:
            raise DeadlinePassed(broker=broker, timeout_ms=timeout_ms) from None

    async def _send(self, broker: str, call: link.Call, timeout_ms: int) -> link.Reply:
        loop = asyncio.get_running_loop()
        call.id = next(self._ids)
        waiter = self._waiting[call.id] = loop.create_future()
        if broker not in self._gathered:
            self._gathered[broker] = []
            loop.call_soon(self._hand_over, broker)
        self._gathered[broker].append(call)
        timer = loop.call_later(timeout_ms / 1000, pass_deadline, waiter, broker, timeout_ms)
        try:
            reply: link.Reply = await waiter
        finally:
            timer.cancel()
            del self._waiting[call.id]
        if reply.WhichOneof("body") == "failure":
            raise error_of(reply.failure)
        return reply

    def _hand_over(self, broker: str) -> None:
        self._brokers[broker].handle_sends(self._gathered.pop(broker), self._answer)

    def _answer(self, reply: link.Reply) -> None:
        waiter = self._waiting.get(reply.id)
        if waiter is not None and not waiter.done():
            waiter.set_result(reply)

    async def close(self) -> None:
        return
