"""Starts of groups: fixed at every broker of the topic before a first receive is answered.

Else a group that starts at the last message would start at one broker now and at another one
later, and miss what was sent in between. A broker that is away is owed the start: it gets it when
it answers again, with the moment, so that it can find the place by the store times of its messages.

A start is lost only when the brokers that know it, and every proxy that does, are gone at the
moment in which the brokers that were away come back.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final

from popmq_common.errors import GroupNotFound, NotServed, PopMQError
from popmq_common.process.clock import Clock
from popmq_common.process.logs import Log
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.core.routing.group_starts import (
    AS_THE_GROUP,
    BrokerStart,
    From,
    GroupStarts,
    StartOf,
    StartToFix,
)

CALL_MS: Final = 3_000
OWED_EVERY_S: Final = 0.5
FAILED_EVERY_S: Final = 1.0
"""Well within the time by which clocks may differ: another proxy that is asked first, and knows
nothing of the start, skips nothing of that time (`GroupStarts.beginning`)."""
AT_A_TIME: Final = 64
"""Starts that are owed to brokers which are back."""
Call = Callable[[str, link.Call, int], Awaitable[link.Reply]]


class StartFixer:
    def __init__(
        self,
        call: Call,
        answers: Callable[[str], bool],
        may_know: Callable[[str], Awaitable[Collection[str]]],
        spread_group: Callable[[str], Awaitable[None]],
        clock: Clock,
        log: Log,
    ) -> None:
        """`answers`: whether a broker can be asked just now. `may_know`: brokers at which groups
        may have started in a topic, whether it is there now or not. `spread_group`: makes a group
        that some broker has, or had, at those that lack it."""
        self._call = call
        self._answers = answers
        self._may_know = may_know
        self._spread_group = spread_group
        self._clock = clock
        self._log = log
        self._table = GroupStarts()
        self._fixing: dict[StartOf, asyncio.Task[bool]] = {}

    def heard(self, group: str, topic: str) -> None:
        """A consumer says that it will receive: nothing sent from now on is skipped, even if the
        start is fixed only later."""
        self._table.heard(StartOf(group, topic), self._clock.now_ms())

    async def fix(
        self, group: str, topic: str, brokers: Sequence[str], start: From = AS_THE_GROUP
    ) -> None:
        """Returns when the group's start is durable at all of `brokers` that answer."""
        key = StartOf(group, topic)
        while self._table.lacking(key, brokers):
            others = self._fixing.get(key)
            if others is not None:
                await asyncio.shield(others)
                continue
            task = self._fixing[key] = asyncio.create_task(self._fix(key, brokers, start))
            task.add_done_callback(lambda _: self._fixing.pop(key))
            await asyncio.shield(task)
            return

    async def fix_at(self, group: str, topic: str, broker: str, brokers: Sequence[str]) -> None:
        """The broker has no start: it is told the one that is known, or it and the other `brokers`
        are told a new one."""
        self._table.refused(StartOf(group, topic), broker)
        await self.fix(group, topic, _with(broker, brokers))

    async def catch_up(self, group: str, topic: str, broker: str, brokers: Sequence[str]) -> bool:
        """The broker has no start: it is told, if it or one of the other `brokers`, or this proxy,
        knows one. False: nobody does."""
        key = StartOf(group, topic)
        self._table.refused(key, broker)
        await self._fix(key, _with(broker, brokers), None)
        return broker in self._table.knowing(key)

    async def run(self) -> None:
        """Tell brokers that are back what they are owed; for ever."""
        while True:
            paid = await self.pay()
            await asyncio.sleep(OWED_EVERY_S if paid else FAILED_EVERY_S)

    async def pay(self) -> bool:
        """Once, to the brokers that answer. False: one of them refused, or went away again."""
        due = [
            (key, back)
            for key, owed in self._table.owed()
            if (back := [broker for broker in owed if self._answers(broker)])
        ]
        paid = True
        for first in range(0, len(due), AT_A_TIME):
            some = due[first : first + AT_A_TIME]
            found = await asyncio.gather(*(self._fix(key, back, None) for key, back in some))
            paid = paid and all(found)
        return paid

    def owed_groups(self) -> set[str]:
        """Whose start some broker has still to be told."""
        return {key.group for key, _ in self._table.owed()}

    def forget(self, group: str) -> None:
        """It was deleted."""
        self._table.forget_group(group)

    async def _fix(self, key: StartOf, brokers: Sequence[str], start: From | None) -> bool:
        """Ask all where the group started, then tell `brokers` that do not know. `start`: where, if
        nobody knows; None: then it has not started. True: nothing is owed to them any more."""
        table, now_ms = self._table, self._clock.now_ms()
        heard_ms = now_ms if start is None else table.heard(key, now_ms)
        replies, all_replied = await self._ask_all(key, brokers)
        if replies and not any(one.has_group for one in replies.values()) and not table.knows(key):
            return True  # the group was deleted meanwhile
        beginning = table.beginning(
            key,
            replies,
            heard_ms=heard_ms,
            now_ms=self._clock.now_ms(),
            start=start,
            all_replied=all_replied,
        )
        if beginning is None:
            return True
        if any(broker in replies for broker in brokers):
            found = {broker: replies[broker] for broker in brokers if broker in replies}
        else:  # some broker has to know it, or it is lost with this proxy
            found = replies
        replies |= await self._tell_all(key, found, beginning)
        has_it = {
            broker: broker in replies and replies[broker].is_fixed for broker in {*brokers, *found}
        }
        table.begun(key, beginning.at_ms, beginning.start, has_it)
        return all(has_it.values())

    async def _tell_all(
        self, key: StartOf, replies: dict[str, BrokerStart], beginning: StartToFix
    ) -> dict[str, BrokerStart]:
        """What those said that had no start."""
        lacking = {broker: one for broker, one in replies.items() if not one.is_fixed}
        consume_from, consume_from_ms = beginning.start
        fixes = {
            broker: link.FixStart(
                group=key.group,
                topic=key.topic,
                at_ms=beginning.at_ms,
                is_now=beginning.is_now,
                consume_from=consume_from,
                consume_from_ms=consume_from_ms,
                ends=one.ends if beginning.is_now else (),
            )
            for broker, one in lacking.items()
        }
        answers = await asyncio.gather(*(self._ask(broker, fix) for broker, fix in fixes.items()))
        found = {broker: one for broker, one in zip(fixes, answers, strict=True) if one is not None}
        skipped = sum(one.skipped for one in found.values())
        if skipped:
            names = {"group": key.group, "topic": key.topic}
            self._log.info("group.started", **names, skipped=skipped, at_ms=beginning.at_ms)
        return found

    async def _ask_all(
        self, key: StartOf, brokers: Sequence[str]
    ) -> tuple[dict[str, BrokerStart], bool]:
        """(what each told, whether everybody has): the topic's `brokers` and those that have the
        start; when none of them knows one, all that may: the group may have started when the topic
        was not there yet, or not at these brokers."""
        replies = await self._ask_each(key, {*brokers, *self._table.knowing(key)})
        self._table.on_replies(key, replies)
        if self._table.knows(key) or any(one.at_ms for one in replies.values()):
            return replies, all(broker in replies for broker in brokers)
        try:
            everybody = {*brokers, *await self._may_know(key.topic)}
        except PopMQError:
            return replies, False
        replies |= await self._ask_each(key, everybody - replies.keys())
        return replies, replies.keys() >= everybody

    async def _ask_each(self, key: StartOf, brokers: Collection[str]) -> dict[str, BrokerStart]:
        """Those that did not answer are left out."""
        fix = link.FixStart(group=key.group, topic=key.topic)
        asked = sorted(brokers)
        answers = await asyncio.gather(*(self._ask(broker, fix) for broker in asked))
        return {
            broker: reply for broker, reply in zip(asked, answers, strict=True) if reply is not None
        }

    async def _ask(self, broker: str, fix: link.FixStart) -> BrokerStart | None:
        """None: no answer."""
        if not self._answers(broker):
            return None
        try:
            try:
                return await self._tell(broker, fix)
            except GroupNotFound:  # it was away when the group was made
                await self._spread_group(fix.group)
                return await self._tell(broker, fix)
        except GroupNotFound:  # no broker that answers has it
            return BrokerStart(has_group=False)
        except PopMQError as failed:
            self._log.warning("start.not_fixed", broker=broker, group=fix.group, reason=str(failed))
            return None

    async def _tell(self, broker: str, fix: link.FixStart) -> BrokerStart:
        try:
            reply = (await self._call(broker, link.Call(fix_start=fix), CALL_MS)).fix_start
        except NotServed:
            return BrokerStart(is_old=True)
        start = From(reply.consume_from, reply.consume_from_ms)
        return BrokerStart(reply.at_ms, start, reply.ends, reply.skipped)


def _with(broker: str, brokers: Sequence[str]) -> Sequence[str]:
    """A broker that has just got the topic is not in its routes yet."""
    return brokers if broker in brokers else [*brokers, broker]
