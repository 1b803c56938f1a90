"""One open connection to a broker: calls out, replies in, paired by id."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from itertools import count

from popmq_common.errors import (
    BrokerDown,
    BrokerSilent,
    BrokerUnreachable,
    DeadlinePassed,
    NotPrimary,
    PopMQError,
)
from popmq_common.link.frames import FrameConnection
from popmq_common.link.sends import SendCall, SendDone
from popmq_common.link.wire import error_of
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.clients.deadlines import Deadlines
from popmq_proxy.core.messages.popped import handles_of
from popmq_proxy.core.routing.broker_health import TICK_S, BrokerHealth, Look
from popmq_proxy.core.routing.gathering import Gathering

GIVEN_UP_MAX = 4_096  # pops given up whose reply may still be on its way
GIVEN_UP_S = 20.0  # by then it has arrived, or the broker had heard of it before
ANSWERS_S = 0.5  # that a broker has to answer what is under way, before its link is closed


Outcome = link.Reply | SendDone | PopMQError
OnReply = Callable[[Outcome], None]


class BrokerLink:
    def __init__(
        self,
        broker: str,
        frames: FrameConnection,
        gathering: Gathering | None = None,
        address: str = "",
    ) -> None:
        """The greeting is over. `gathering`: with the sends over other links."""
        self.address = address
        self.broken = False
        """Or the broker stops: it takes no more calls."""
        self._loop = asyncio.get_running_loop()
        self.broker = broker
        self._frames = frames
        self._ids = count(1)
        self._waiting: dict[int, asyncio.Future[link.Reply]] = {}
        self._polls: dict[int, link.Pop | None] = {}
        """Those of the waiting calls that another broker may serve as well: pops, and watches,
        which take nothing."""
        self._sends: dict[int, OnReply] = {}
        self._gathering = gathering or Gathering()
        self._deadlines = Deadlines(self._pass_deadline)
        self._given_up: OrderedDict[int, tuple[float, link.Pop]] = OrderedDict()
        """With the loop's time when it is forgotten."""
        now_s = self._loop.time()
        self._health = BrokerHealth(now_s, now_s)
        self._look_again = self._loop.call_later(TICK_S, self._look)
        self._stops = ""
        """Why nothing new is sent, while the rest is answered."""
        self._giving_up: asyncio.TimerHandle | None = None
        frames.begin(self._receive)
        frames.ended.add_done_callback(self._ended)

    @property
    def silent(self) -> bool:
        """Nobody has answered for a while: what others can do is better given to others."""
        return self._health.silent

    @property
    def call_count(self) -> int:
        """Under way."""
        return len(self._waiting) + len(self._sends)

    def send(self, call: SendCall, timeout_ms: int, on_reply: OnReply) -> None:
        """Sets `call.id`. `on_reply` gets the reply later, or the error that `call` would raise.

        Raises `BrokerUnreachable`, `BadRequest`, `TooManyRequests`: then nothing was sent.
        """
        self._check_takes_calls()
        call_id = call.id = next(self._ids)
        wait_s = self._gathering.begin(self, self._loop.time())
        try:
            self._frames.put(call, wait_s)
        except PopMQError:
            self._gathering.end()
            raise
        self._sends[call_id] = on_reply
        self._deadlines.begin(call_id, timeout_ms)

    def hurry(self) -> None:
        """Sends that wait for others wait no longer."""
        self._frames.hurry()

    def _check_takes_calls(self) -> None:
        if self.broken:
            reason = self._stops or "the connection broke"
            raise BrokerUnreachable(broker=self.broker, reason=reason)
        self._frames.check_room()

    def _pass_deadline(self, call_id: int, timeout_ms: int) -> None:
        on_reply = self._sends.pop(call_id)
        self._gathering.end()
        on_reply(DeadlinePassed(broker=self.broker, timeout_ms=timeout_ms))
        self._close_when_done()

    async def call(self, call: link.Call | SendCall, timeout_ms: int) -> link.Reply:
        """Sets `call.id`. Raises the broker's error, `BrokerUnreachable`, `BrokerDown`,
        `DeadlinePassed`, `BadRequest` for a call that no frame can hold, `TooManyRequests`."""
        if isinstance(call, SendCall):
            return await reply_of(lambda on_reply: self.send(call, timeout_ms, on_reply))
        self._check_takes_calls()
        call_id = call.id = next(self._ids)  # the caller may use its object for another call
        self._frames.put(call)
        waiter = self._waiting[call_id] = self._loop.create_future()
        if call.HasField("pop"):
            self._polls[call_id] = call.pop
        elif call.HasField("watch"):
            self._polls[call_id] = None
        # a timer of our own: asyncio.timeout costs 4 µs, a twentieth of a send
        timer = self._loop.call_later(
            timeout_ms / 1000, pass_deadline, waiter, self.broker, timeout_ms
        )
        try:
            reply: link.Reply = await waiter
        except (asyncio.CancelledError, DeadlinePassed, BrokerSilent):
            self._give_up(call_id, waiter)
            raise
        finally:
            timer.cancel()
            del self._waiting[call_id]
            self._polls.pop(call_id, None)
            if not self._waiting:
                self._waiting.clear()  # as large as they were once, otherwise
                self._polls.clear()
            self._close_when_done()
        if reply.HasField("failure"):
            error = error_of(reply.failure)
            if isinstance(error, NotPrimary):
                self._leave(str(error))
            raise error
        return reply

    def _give_up(self, call_id: int, waiter: "asyncio.Future[link.Reply]") -> None:
        """The broker stops waiting. What it has sent already is given back: nobody will see it.

        Only pops wait for long; the others are left to finish, their work may be half done.
        """
        if call_id not in self._polls or self.broken:
            return
        pop = self._polls[call_id]
        if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
            self._give_back(pop, waiter.result())  # it came in the same moment as the cancelling
            return
        if pop is not None:
            self._given_up[call_id] = self._loop.time() + GIVEN_UP_S, pop
        if len(self._given_up) > GIVEN_UP_MAX:
            self._given_up.popitem(last=False)
        self._try_put(link.Call(cancel=link.Cancel(call_id=call_id)))

    def _give_back(self, pop: link.Pop | None, reply: link.Reply) -> None:
        if pop is None:
            return
        handles = handles_of([reply.pop]).each()
        if handles:
            release = link.Release(group=pop.group, topic=pop.topic, handles=handles)
            self._try_put(link.Call(id=next(self._ids), release=release))

    def _try_put(self, call: link.Call) -> None:
        try:
            self._frames.put(call)
        except PopMQError:
            return  # the link is jammed; the time limits of poll and lease end it too

    def _ended(self, ended: asyncio.Future[None]) -> None:
        wrong = ended.exception()
        self._break("it closed the connection" if wrong is None else str(wrong))

    def _look(self) -> None:
        look = self._health.look(self._loop.time())
        if look is Look.LOST:
            self._give_up_all("it has not answered for long")
            return
        self._look_again = self._loop.call_later(TICK_S, self._look)
        self._forget_given_up()
        if look is Look.ASK:
            self._try_put(link.Call(id=next(self._ids), ping=link.Ping()))
        elif look is Look.SILENT:
            for call_id in self._polls:
                if not (waiter := self._waiting[call_id]).done():
                    waiter.set_exception(BrokerSilent(broker=self.broker))

    def _forget_given_up(self) -> None:
        now_s = self._loop.time()
        while self._given_up and next(iter(self._given_up.values()))[0] <= now_s:
            self._given_up.popitem(last=False)
        if not self._given_up:
            self._given_up.clear()

    def _leave(self, reason: str) -> None:
        """The broker takes no more calls here: it stops, or another replica is primary. Those under
        way are answered; the next one looks for its address again."""
        self._stops = reason
        self.broken = True
        self._close_when_done()

    def _close_when_done(self) -> None:
        if self._stops and not self._waiting and not self._sends:
            self._frames.close()

    def _receive(self, frame: link.Frame) -> None:
        self._health.heard(self._loop.time())
        for reply in frame.replies:
            if not reply.id:
                self._leave(str(error_of(reply.failure)))
                continue
            on_reply = self._sends.pop(reply.id, None)
            if on_reply is not None:
                self._gathering.end()
                self._deadlines.end(reply.id)
                outcome = outcome_of(reply)
                on_reply(outcome)
                if outcome is not reply and isinstance(outcome, NotPrimary):
                    self._leave(str(outcome))
                if self._stops:
                    self._close_when_done()
                continue
            waiter = self._waiting.get(reply.id)
            if waiter is not None and not waiter.done():
                waiter.set_result(reply)
                continue
            # nobody waits any more; or its caller has been cancelled, and has not run since
            _, pop = self._given_up.pop(reply.id, (0.0, None))
            if pop is None:
                pop = self._polls.pop(reply.id, None)
            if pop is not None:
                self._give_back(pop, reply)

    def _break(self, reason: str) -> None:
        self.broken = True
        self._look_again.cancel()
        if self._giving_up is not None:
            self._giving_up.cancel()
        for waiter in self._waiting.values():
            if not waiter.done():
                waiter.set_exception(BrokerDown(broker=self.broker, reason=reason))
        sends, self._sends = self._sends, {}
        self._gathering.end(len(sends))
        self._deadlines.close()
        for on_reply in sends.values():
            on_reply(BrokerDown(broker=self.broker, reason=reason))
        self._frames.close()

    def retire(self, reason: str) -> None:
        """The broker is elsewhere now. What was under way there is answered, unless nobody is there
        any more."""
        self._giving_up = self._loop.call_later(ANSWERS_S, self._give_up_all, reason)
        self._leave(reason)

    def _give_up_all(self, reason: str) -> None:
        self._break(reason)
        self._frames.abort()

    @property
    def ended(self) -> "asyncio.Future[None]":
        return self._frames.ended

    async def close(self) -> None:
        """What comes for polls that ended a moment ago is given back before."""
        if self._given_up and not self.broken:
            await self._hear_all()
        self._break("the proxy is stopping")
        await asyncio.wait([self._frames.ended], timeout=ANSWERS_S)
        self._frames.abort()
        await asyncio.wait([self._frames.ended])

    async def _hear_all(self) -> None:
        """The broker answers in order: what it gave before it heard that polls were given up is
        here before the answer to this."""
        with suppress(PopMQError):
            await self.call(link.Call(ping=link.Ping()), int(ANSWERS_S * 1000))
        with suppress(TimeoutError):
            async with asyncio.timeout(ANSWERS_S):
                await self._frames.flush()


def pass_deadline(waiter: "asyncio.Future[link.Reply]", broker: str, timeout_ms: int) -> None:
    if not waiter.done():
        waiter.set_exception(DeadlinePassed(broker=broker, timeout_ms=timeout_ms))


async def reply_of(send: Callable[[OnReply], None]) -> link.Reply:
    """A send for whoever awaits. Raises what `send` raises or tells."""
    waiter: asyncio.Future[link.Reply] = asyncio.get_running_loop().create_future()

    def on_reply(outcome: Outcome) -> None:
        if waiter.done():  # its caller was cancelled
            return
        if isinstance(outcome, PopMQError):
            waiter.set_exception(outcome)
        elif isinstance(outcome, SendDone):
            stored = link.SendReply(
                queue_id=outcome.queue_id,
                queue_offset=outcome.queue_offset,
                log_offsets=outcome.log_offsets,
                queue_offsets=outcome.queue_offsets,
            )
            waiter.set_result(link.Reply(id=outcome.id, send=stored))
        else:
            waiter.set_result(outcome)

    send(on_reply)
    return await waiter


def outcome_of(reply: link.Reply | SendDone) -> Outcome:
    if isinstance(reply, SendDone) or not reply.HasField("failure"):
        return reply
    return error_of(reply.failure)
