"""After the dangers: no faults any more, so everything must come, and soon (I1, I12)."""

import asyncio

from sim.clients import Clients
from sim.model import GroupLife
from sim.plan import TAGS, TOPICS
from sim.receivers import Held
from sim.violation import Violation
from sim.world import World

from popmq_broker.engine.journal.counts import counts

DRAIN_S_MAX = 400.0
"""The longest lease, again for each receive whose answer was lost, and the work itself."""
WAKE_S_MAX = 1.0
PROBE_POLL_MS = 20_000
HOLD_MS = 300


class Quiet:
    def __init__(self, world: World, clients: Clients) -> None:
        self._world = world
        self._clients = clients
        self._drained = False

    async def run(self) -> None:
        await self._drain()
        for group in self._world.book.groups.values():
            for topic in TOPICS:
                await self._probe(group, topic)

    async def _drain(self) -> None:
        world = self._world
        deadline = world.loop.time() + DRAIN_S_MAX
        groups = list(world.book.groups.values())
        tasks = [
            asyncio.create_task(self._take_all(group, topic))
            for group in groups
            for topic in TOPICS
        ]
        try:
            while self._left() or any(world.book.missing(group) for group in groups):
                self._look_at(tasks)
                if world.loop.time() > deadline:
                    self._too_late(groups)
                await asyncio.sleep(1.0)
                world.read_dead_letters()
        finally:
            self._drained = True
        await asyncio.gather(*tasks)
        world.check_counts()

    def _left(self) -> int:
        """Messages that some group has not settled, by the broker's own count."""
        assert self._world.broker is not None
        found = counts(
            self._world.broker.state.runtime,
            self._world.broker.state.catalog_state,
            self._world.broker.state.lease_state,
        ).values()
        return sum(one.lag for one in found)

    def _look_at(self, tasks: list["asyncio.Task[None]"]) -> None:
        for task in tasks:
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                raise error

    def _too_late(self, groups: list[GroupLife]) -> None:
        for group in groups:
            for standing in group.standings.values():
                if standing.must_be_dead and standing.dead is None:
                    raise Violation("I9", "never in the dead letters", standing.message.id)
            for standing in self._world.book.missing(group):
                raise Violation("I1", f"{group.name} never got it to the end", standing.message.id)
        raise Violation("I12", f"{self._left()} messages are never settled")

    async def _take_all(self, group: GroupLife, topic: str) -> None:
        while not self._drained:
            held = await self._clients.receive(
                group, topic=topic, poll_ms=2_000, count=32, invisible_ms=60_000
            )
            if held:
                self._clients.drop(held)
                await self._clients.ack_these(held)
            else:
                await asyncio.sleep(0.01)

    async def _probe(self, group: GroupLife, topic: str) -> None:
        """Two polls wait; two messages of one message group come; nobody sleeps through it."""
        hold = self._clients.random.random() < 0.5
        polls = [asyncio.create_task(self._waiting(group, topic, hold=hold)) for _ in range(2)]
        await asyncio.sleep(0.5)
        began_s = self._world.loop.time()
        tag = next(tag for tag in TAGS if group.tags is None or tag in group.tags)
        for _ in range(2):
            await self._clients.send_to(topic, "a", tag)
        taken = [one for came in await asyncio.gather(*polls) for one in came]
        took_s = self._world.loop.time() - began_s
        limit_s = WAKE_S_MAX + hold * (HOLD_MS / 1000 + WAKE_S_MAX)
        if len(taken) < 2 or took_s > limit_s:
            raise Violation(
                "I12", f"{len(taken)} of 2 woke polls of {group.name} in {took_s:.1f} s"
            )
        await self._drain_again(group, topic)

    async def _waiting(self, group: GroupLife, topic: str, *, hold: bool) -> list[Held]:
        held = await self._clients.receive(
            group, topic=topic, poll_ms=PROBE_POLL_MS, count=1, invisible_ms=HOLD_MS
        )
        if held and not hold:
            self._clients.drop(held)
            await self._clients.ack_these(held)
        return held

    async def _drain_again(self, group: GroupLife, topic: str) -> None:
        """Also for the others: what was sent here is in their way."""
        self._drained = False
        await self._drain()
