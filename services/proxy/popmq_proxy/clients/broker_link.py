"""One open connection to a broker: calls out, replies in, paired by id."""

import asyncio
from collections import OrderedDict
from itertools import count

from popmq_common.errors import BrokerDown, BrokerUnreachable, DeadlinePassed, PopMQError
from popmq_common.frames import FrameWriter, converse
from popmq_common.wire import error_of
from popmq_internal.v1 import link_pb2 as link

GIVEN_UP_MAX = 4_096  # pops given up whose reply may still be on its way


class BrokerLink:
    def __init__(
        self, broker: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.broken = False
        self._broker = broker
        self._reader = reader
        self._writer = writer
        self._out = FrameWriter(writer)
        self._ids = count(1)
        self._waiting: dict[int, asyncio.Future[link.Reply]] = {}
        self._given_up: OrderedDict[int, link.Pop] = OrderedDict()
        self._running = asyncio.create_task(self._run())

    async def call(self, call: link.Call, timeout_ms: int) -> link.Reply:
        """Sets `call.id`. Raises the broker's error, `BrokerUnreachable`, `BrokerDown`,
        `DeadlinePassed`, `BadRequest` for a call that no frame can hold, `TooManyRequests`."""
        if self.broken:
            raise BrokerUnreachable(broker=self._broker, reason="the connection broke")
        self._out.check_room()
        call.id = next(self._ids)
        call_id = call.id  # the caller may use its object for another call
        self._out.put(call)
        loop = asyncio.get_running_loop()
        waiter = self._waiting[call_id] = loop.create_future()
        # a timer of our own: asyncio.timeout costs 4 µs, a twentieth of a send
        timer = loop.call_later(timeout_ms / 1000, _pass_deadline, waiter, self._broker, timeout_ms)
        try:
            reply: link.Reply = await waiter
        except (asyncio.CancelledError, DeadlinePassed):
            self._give_up(call_id, call, waiter)
            raise
        finally:
            timer.cancel()
            del self._waiting[call_id]
        if reply.WhichOneof("body") == "failure":
            raise error_of(reply.failure)
        return reply

    def _give_up(self, call_id: int, call: link.Call, waiter: "asyncio.Future[link.Reply]") -> None:
        """The broker stops waiting. What it has sent already is given back: nobody will see it.

        Only pops wait for long; the others are left to finish, their work may be half done.
        """
        came = waiter.done() and not waiter.cancelled() and waiter.exception() is None
        if call.WhichOneof("body") != "pop" or self.broken:
            return
        if came:  # in the same moment as the cancelling
            self._give_back(call.pop, waiter.result())
            return
        self._given_up[call_id] = call.pop
        if len(self._given_up) > GIVEN_UP_MAX:
            self._given_up.popitem(last=False)
        self._try_put(link.Call(cancel=link.Cancel(call_id=call_id)))

    def _give_back(self, pop: link.Pop, reply: link.Reply) -> None:
        handles = [message.handle for message in reply.pop.messages]
        if handles:
            release = link.Release(group=pop.group, topic=pop.topic, handles=handles)
            self._try_put(link.Call(id=next(self._ids), release=release))

    def _try_put(self, call: link.Call) -> None:
        try:
            self._out.put(call)
        except PopMQError:
            return  # the link is jammed; the time limits of poll and lease end it too

    async def _run(self) -> None:
        reason = "it closed the connection"
        try:
            await converse(self._reader, self._out, self._receive)
        except (OSError, PopMQError) as broken:
            reason = str(broken)
        finally:
            self._break(reason)

    def _receive(self, frame: link.Frame) -> None:
        for reply in frame.replies:
            waiter = self._waiting.get(reply.id)
            if waiter is not None and not waiter.done():
                waiter.set_result(reply)
            elif reply.id in self._given_up:
                self._give_back(self._given_up.pop(reply.id), reply)

    def _break(self, reason: str) -> None:
        self.broken = True
        for waiter in self._waiting.values():
            if not waiter.done():
                waiter.set_exception(BrokerDown(broker=self._broker, reason=reason))
        self._writer.close()

    async def close(self) -> None:
        self._break("the proxy is stopping")
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)


def _pass_deadline(waiter: "asyncio.Future[link.Reply]", broker: str, timeout_ms: int) -> None:
    if not waiter.done():
        waiter.set_exception(DeadlinePassed(broker=broker, timeout_ms=timeout_ms))
