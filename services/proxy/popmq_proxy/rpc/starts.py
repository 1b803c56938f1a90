"""Starts of groups: fixed at every broker of the topic before a first receive is answered.

Else a group that starts at the last message would start at one broker now and at another one
later, and miss what was sent in between. A broker that is away is owed the start: it gets it when
it answers again, with the moment, so that it can find the place by the store times of its messages.

A start is lost only when the brokers that know it, and every proxy that does, are gone at the
moment in which the brokers that were away come back.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from popmq_common.clock import Clock
from popmq_common.errors import GroupNotFound, NotServed, PopMQError
from popmq_common.logs import Log
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.core.group_starts import GroupStarts, Key

CALL_MS: Final = 3_000
OWED_EVERY_S: Final = 0.5
FAILED_EVERY_S: Final = 5.0
AT_A_TIME: Final = 64
"""Starts that are owed to brokers which are back."""


class From(NamedTuple):
    """Where a consumer wants its group to start, instead of where the group's settings say."""

    consume_from: str = ""
    """LAST, FIRST or TIME; empty: as the group's settings say."""
    at_ms: int = 0


class Told(NamedTuple):
    """What a broker said of the group's start in the topic."""

    at_ms: int
    """0: the group has no start there."""
    skipped: int = 0
    is_old: bool = False
    """It knows no starts: each of its queues starts at the group's first pop."""

    @property
    def is_fixed(self) -> bool:
        return self.is_old or self.at_ms > 0


Call = Callable[[str, link.Call, int], Awaitable[link.Reply]]
AS_THE_GROUP: Final = From()


class Starts:
    def __init__(
        self,
        call: Call,
        answers: Callable[[str], bool],
        spread_group: Callable[[str], Awaitable[None]],
        clock: Clock,
        log: Log,
    ) -> None:
        """`answers`: whether a broker can be asked just now. `spread_group`: makes a group that
        some broker has at those that lack it."""
        self._call = call
        self._answers = answers
        self._spread_group = spread_group
        self._clock = clock
        self._log = log
        self._table = GroupStarts()
        self._fixing: dict[Key, asyncio.Task[bool]] = {}

    async def fix(
        self, group: str, topic: str, brokers: Sequence[str], start: From = AS_THE_GROUP
    ) -> None:
        """Returns when the group's start is durable at all of `brokers` that answer."""
        key = Key(group, topic)
        while self._table.lacking(key, brokers):
            others = self._fixing.get(key)
            if others is not None:
                await asyncio.shield(others)
                continue
            task = self._fixing[key] = asyncio.create_task(self._fix(key, brokers, start))
            task.add_done_callback(lambda _: self._fixing.pop(key))
            await asyncio.shield(task)
            return

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
            found = await asyncio.gather(
                *(self._fix(key, back, AS_THE_GROUP) for key, back in some)
            )
            paid = paid and all(found)
        return paid

    def forget(self, group: str, topic: str | None = None) -> None:
        """The group was deleted, or a broker does not know where it starts."""
        if topic is None:
            self._table.forget_group(group)
        else:
            self._table.forget(Key(group, topic))

    async def _fix(self, key: Key, brokers: Sequence[str], start: From) -> bool:
        """True: nothing is owed any more."""
        try:
            return await self._fix_at(key, brokers, start)
        except GroupNotFound:  # it was deleted meanwhile
            self._table.forget(key)
            return True

    async def _fix_at(self, key: Key, brokers: Sequence[str], start: From) -> bool:
        """Ask all where the group started, then tell those that do not know. True: done at all."""
        fix = link.FixStart(group=key.group, topic=key.topic)
        told = await self._ask_all(sorted({*brokers, *self._table.knowing(key)}), fix)
        known = {broker: one.at_ms for broker, one in told.items() if not one.is_old}
        fix.at_ms, fix.is_now = self._table.moment(key, known, self._clock.now_ms())
        fix.consume_from, fix.consume_from_ms = start
        lacking = [broker for broker, at_ms in known.items() if not at_ms]
        answers = await self._ask_all(lacking, fix)
        told |= answers
        skipped = sum(one.skipped for one in answers.values())
        if skipped:
            names = {"group": key.group, "topic": key.topic}
            self._log.info("group.started", **names, skipped=skipped, at_ms=fix.at_ms)
        done = {broker for broker in brokers if broker in told and told[broker].is_fixed}
        for broker in brokers:
            if broker in done:
                self._table.fixed(key, broker, fix.at_ms)
            else:
                self._table.away(key, broker)
        return done == set(brokers)

    async def _ask_all(self, brokers: Sequence[str], fix: link.FixStart) -> dict[str, Told]:
        """What each told; those that did not answer are left out."""
        answers = await asyncio.gather(*(self._ask(broker, fix) for broker in brokers))
        return {
            broker: told for broker, told in zip(brokers, answers, strict=True) if told is not None
        }

    async def _ask(self, broker: str, fix: link.FixStart) -> Told | None:
        if not self._answers(broker):
            return None
        """Raises `GroupNotFound` when no broker that answers has it."""
        try:
            try:
                return await self._tell(broker, fix)
            except GroupNotFound:  # it was away when the group was made
                await self._spread_group(fix.group)
                return await self._tell(broker, fix)
        except GroupNotFound:
            raise
        except PopMQError as failed:
            self._log.warning("start.not_fixed", broker=broker, group=fix.group, reason=str(failed))
            return None

    async def _tell(self, broker: str, fix: link.FixStart) -> Told:
        try:
            reply = (await self._call(broker, link.Call(fix_start=fix), CALL_MS)).fix_start
        except NotServed:
            return Told(0, is_old=True)
        return Told(reply.at_ms, reply.skipped)
