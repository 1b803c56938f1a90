"""A receive over all brokers of its topic: it looks at each that may have something, the asked one
first, waits at one of them, and goes on to another one that says that it has something.

What it is answered with comes from one broker. Nothing is taken anywhere else, so nothing has to be
given back.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from popmq_common.errors import (
    BrokerDown,
    BrokerSilent,
    BrokerUnreachable,
    GroupNotFound,
    NoPermission,
    PopMQError,
    StartNotFixed,
    TopicNotFound,
)
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.core.messages.popped import by_runs, gave
from popmq_proxy.core.routing.watched_polls import WatchedPoll
from popmq_proxy.rpc.shared.context import CallContext, Upstream

ROUNDS_MAX: Final = 3
"""Looks at the others before a poll waits, while they go on saying that they have something."""
CONNECTIONS_MAX: Final = 3
"""That may end while a poll waits at the last broker."""


class PoppedAt(NamedTuple):
    broker: str
    reply: link.PopReply


GiveBack = Callable[[link.Pop, PoppedAt], Awaitable[None]]


class PopAnywhere:
    def __init__(self, upstream: Upstream, give_back: GiveBack) -> None:
        self._upstream = upstream
        self._give_back = give_back

    async def pop(
        self, ctx: CallContext, brokers: Sequence[str], pop: link.Pop, *, fifo: bool
    ) -> PoppedAt:
        """What came within `pop.poll_ms`. `brokers`: of the topic, the asked one first.

        One that goes away while the poll waits there has given nothing: the poll goes on at the
        next one, for the rest of its time. The last one is waited for.
        """
        watches = self._upstream.watches
        poll = watches.enter(pop)
        pop.poll_id = poll.number
        until_s = time.monotonic() + pop.poll_ms / 1000
        try:
            if fifo and pop.attempt_id and len(brokers) > 1:
                held = await self._held(ctx, brokers[1:], pop)
                if held is not None:
                    return held
            for home in brokers[:-1]:
                others = [broker for broker in brokers if broker != home]
                try:
                    return await self._wait(ctx, home, others, pop, poll, until_s)
                except (BrokerDown, NoPermission, TopicNotFound) as away:
                    if isinstance(away, TopicNotFound):
                        self._upstream.routes.make_stale(pop.topic)
                    self._upstream.log.debug("poll.moved", broker=home, reason=str(away))
            return await self._wait_at_last(ctx, brokers[-1], pop, poll, until_s)
        finally:
            watches.leave(poll)

    async def _wait_at_last(
        self, ctx: CallContext, home: str, pop: link.Pop, poll: WatchedPoll, until_s: float
    ) -> PoppedAt:
        """If its connection ends, because another replica leads say, the poll goes on there."""
        for _ in range(CONNECTIONS_MAX):
            try:
                return await self._wait(ctx, home, (), pop, poll, until_s, last=True)
            except (BrokerSilent, BrokerUnreachable):
                raise
            except BrokerDown as away:
                self._upstream.log.debug("poll.goes_on", broker=home, reason=str(away))
        return await self._wait(ctx, home, (), pop, poll, until_s, last=True)

    async def _wait(
        self,
        ctx: CallContext,
        home: str,
        others: Sequence[str],
        pop: link.Pop,
        poll: WatchedPoll,
        until_s: float,
        *,
        last: bool = False,
    ) -> PoppedAt:
        if self._upstream.watches.to_look_at(poll, others):
            pop.poll_ms = 0
            reply = await self.pop_at(ctx, home, pop, last=last)
            if gave(reply):
                return PoppedAt(home, reply)
            if found := await self._look(ctx, others, pop, poll):
                return found
        while True:
            pop.poll_ms = max(0, int((until_s - time.monotonic()) * 1000))
            poll.at = home
            try:
                reply = await self.pop_at(ctx, home, pop, last=last)
            finally:
                poll.at = ""
            if gave(reply) or not poll.heard:
                return PoppedAt(home, reply)
            if found := await self._look(ctx, others, pop, poll):
                return found

    async def _look(
        self, ctx: CallContext, others: Sequence[str], pop: link.Pop, poll: WatchedPoll
    ) -> PoppedAt | None:
        """At each that may have something, without waiting. One that fails brings nothing: whoever
        polls it will be told why."""
        watches = self._upstream.watches
        pop.poll_ms = 0
        for _ in range(ROUNDS_MAX):
            for broker in watches.to_look_at(poll, others):
                await watches.look(poll, broker)
                try:
                    reply = await self.pop_at(ctx, broker, pop, last=False)
                except PopMQError as failed:
                    self._upstream.log.debug("poll.no_look", broker=broker, reason=str(failed))
                    continue
                if gave(reply):
                    return PoppedAt(broker, reply)
                watches.found_nothing(poll, broker)
            if not poll.heard:
                return None
        return None

    async def _held(
        self, ctx: CallContext, others: Sequence[str], pop: link.Pop
    ) -> PoppedAt | None:
        """What a receive with this attempt id, whose answer was lost, has got at another broker."""
        again = link.Pop()
        again.CopyFrom(pop)
        again.held_only, again.poll_ms, again.poll_id = True, 0, 0
        answering = [broker for broker in others if self._upstream.brokers.answers(broker)]
        asked = await asyncio.gather(
            *(self.pop_at(ctx, broker, again, last=False) for broker in answering),
            return_exceptions=True,
        )
        taken = [
            PoppedAt(broker, found)
            for broker, found in zip(answering, asked, strict=True)
            if not isinstance(found, BaseException) and gave(found)
        ]
        for more in taken[1:]:
            await self._give_back(pop, more)
        return taken[0] if taken else None

    async def pop_at(
        self, ctx: CallContext, broker: str, pop: link.Pop, *, last: bool
    ) -> link.PopReply:
        """A broker that was down when the group was made, or started, is told now."""
        upstream, call = self._upstream, link.Call(pop=pop)
        until_s = time.monotonic() + pop.poll_ms / 1000

        def rest() -> int:
            call.pop.poll_ms = max(0, int((until_s - time.monotonic()) * 1000))
            return call.pop.poll_ms + upstream.config.call_timeout_ms

        timeout_ms = rest()
        try:
            if last:
                reply = await upstream.call_there(ctx, broker, call, timeout_ms, again=rest)
            else:
                reply = await upstream.call(broker, call, timeout_ms)
        except (GroupNotFound, StartNotFixed) as lacking:
            if isinstance(lacking, GroupNotFound):
                await upstream.regain_group(pop.group, ctx.user)
            brokers = (await upstream.topic_routes(pop.topic, ctx.user)).readable_brokers
            await upstream.starts.fix_at(pop.group, pop.topic, broker, brokers)
            reply = await upstream.call(broker, call, timeout_ms)
        return by_runs(reply.pop) if pop.by_runs else reply.pop
