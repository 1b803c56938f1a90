"""Routes: asked of nameservers, remembered for a while, kept when nameservers know less.

    asked ──answer──► fresh ──REFRESH_S, or other brokers──► used, and asked again beside it
                        │                                        │ no answer: used as it is
                        └── nobody asked for UNUSED_S ──► forgotten

A broker that the answer leaves out is one that stops, is away for long, or was not heard yet by a
nameserver that has just been started. What it had is kept for `AWAY_KEPT_S`: who sends passes it
over as long as it does not answer, and nobody has to notice that it was gone.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from popmq_common.errors import BrokerUnreachable, NameserverDown, NotServed, TopicNotFound
from popmq_internal.v1 import nameserver_pb2 as ns
from popmq_proxy.clients.nameservers import Nameservers, NameserverState
from popmq_proxy.core.routing.routes import TopicRoutes, with_those_away

REFRESH_S = 20.0
RETRY_S = 1.0  # between attempts while no nameserver answers and the old answers are used
EMPTY_S = 0.1  # between attempts while those that answer know no broker: one may be taking over
MISSING_S = 1.0  # a topic that was missing may have been made a moment ago
AWAY_KEPT_S = 60.0  # what a broker had that is not registered any more
ROUTES_MAX = 20_000
KNOWN_MAX = 1_000  # brokers that were registered at some time
UNUSED_S = 300.0  # after its last refresh a route is forgotten; use refreshes it


@dataclass(slots=True)
class CachedRoutes:
    routes: TopicRoutes
    fetched_s: float
    refresh_s: float  # when it is asked again
    away_s: dict[str, float] = field(default_factory=dict)
    """Brokers that are not registered any more: since when."""


class RouteCache:
    """Answers from memory; refreshed in the background, kept as the last good answer on failure."""

    def __init__(
        self, nameservers: Nameservers, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self.moved: Callable[[str, str], None] = lambda _broker, _address: None
        """Called with a broker's new address when it has another one than before."""
        self._nameservers = nameservers
        self._now_s = now_s
        self._entries: OrderedDict[str, CachedRoutes] = OrderedDict()
        self._asking: dict[str, asyncio.Task[list[ns.QueueRoute]]] = {}
        self._brokers: list[ns.BrokerInfo] = []
        self._known: OrderedDict[str, ns.BrokerInfo] = OrderedDict()
        """Brokers as they registered last."""
        self._brokers_retry_s = 0.0
        self._down = ""
        """Why the last answer about brokers is an old one; empty: it is not."""

    def known(self, topic: str) -> TopicRoutes | None:
        """The routes, if nobody need be asked for them."""
        entry = self._entries.get(topic)
        if entry is None or not entry.routes or self._now_s() > entry.refresh_s:
            return None
        self._entries.move_to_end(topic)
        return entry.routes

    def readable(self, topic: str) -> list[str]:
        """Brokers that the topic can be received from, as they are known; asked for again beside
        it when that is due."""
        entry = self._entries.get(topic)
        if entry is None:
            return []
        now_s = self._now_s()
        if now_s > entry.refresh_s and topic not in self._asking:
            entry.refresh_s = now_s + RETRY_S
            self._start(topic)
        return entry.routes.readable_brokers

    async def routes(self, topic: str) -> TopicRoutes:
        """Raises `TopicNotFound`, `NameserverDown` when nothing is known and nobody answers."""
        entry = self._entries.get(topic)
        now_s = self._now_s()
        if entry is None or (not entry.routes and now_s - entry.fetched_s > MISSING_S):
            routes = await self._ask(topic)
        else:
            routes = entry.routes
            self._entries.move_to_end(topic)
            if routes and now_s > entry.refresh_s:
                entry.refresh_s = now_s + RETRY_S
                asking = self._start(topic)
                if not routes.writable:  # a send would be refused; perhaps it need not be any more
                    with suppress(NameserverDown):
                        routes = TopicRoutes(await asyncio.shield(asking))
        if not routes:
            raise TopicNotFound(topic=topic)
        return routes

    async def newest(self, topic: str) -> Sequence[ns.QueueRoute]:
        """As nameservers know it now, or as it was known last; empty when it does not exist."""
        try:
            return await self._nameservers.lookup(topic)
        except NameserverDown:
            entry = self._entries.get(topic)
            return () if entry is None else entry.routes

    def learn(self, topic: str, routes: Sequence[ns.QueueRoute]) -> TopicRoutes:
        """From the brokers themselves, while no nameserver answers; soon asked for again."""
        now_s = self._now_s()
        entry = CachedRoutes(TopicRoutes(routes), now_s, now_s + RETRY_S)
        self._keep(topic, entry)
        return entry.routes

    @property
    def count(self) -> int:
        """Topics that are remembered."""
        return len(self._entries)

    @property
    def is_lost(self) -> bool:
        """No nameserver answers, the last answers are used."""
        return bool(self._down)

    @property
    def broker_names(self) -> list[str]:
        """By the last answer of a nameserver."""
        return [info.name for info in self._brokers]

    def forget(self, topic: str) -> None:
        """The topic has just been changed; an answer that is still on its way may be older."""
        self._entries.pop(topic, None)
        self._asking.pop(topic, None)

    def make_stale(self, topic: str | None = None) -> None:
        """Brokers came, went or changed: the topic, or each, is asked for again at its next use."""
        now_s = self._now_s()
        found = self._entries.values()
        for entry in found if topic is None else filter(None, [self._entries.get(topic)]):
            entry.refresh_s = min(entry.refresh_s, now_s)

    async def follow(self) -> None:
        """Ask again for what has changed, as soon as a nameserver tells of it; for ever."""
        instance, after = "", 0
        while True:
            try:
                told = await self._nameservers.changes(instance, after)
            except NameserverDown:
                instance = ""
                await asyncio.sleep(RETRY_S)
            except NotServed:  # routes are asked for again when it is time
                await asyncio.sleep(REFRESH_S)
            else:
                if told.everything:
                    self.make_stale()
                for topic in told.topics:
                    self._refresh(topic)
                with suppress(NameserverDown):  # one may have moved
                    await self.brokers()
                instance, after = told.instance, told.last

    def _refresh(self, topic: str) -> None:
        """An answer that is on its way may be older than the change."""
        if topic in self._entries or topic in self._asking:
            self._asking.pop(topic, None)
            self._start(topic)

    def forget_unused(self) -> None:
        """Routes nobody has asked for lately; none while no nameserver answers."""
        if self._down:
            return
        old_s = self._now_s() - UNUSED_S
        for topic in [name for name, entry in self._entries.items() if entry.refresh_s < old_s]:
            del self._entries[topic]

    async def brokers(self) -> list[ns.BrokerInfo]:
        """By name; the last answer while no nameserver knows any. Raises `NameserverDown`."""
        if self._down and self._now_s() < self._brokers_retry_s:
            return self._brokers
        wait_s = EMPTY_S
        try:
            found = await self._nameservers.brokers()
            self._down = "" if found or not self._brokers else "nameservers know no broker"
        except NameserverDown as down:
            if not self._brokers:
                raise
            self._down, wait_s = str(down), RETRY_S
        if self._down:
            self._brokers_retry_s = self._now_s() + wait_s
        else:
            self._take_brokers(found)
        return self._brokers

    def _take_brokers(self, found: list[ns.BrokerInfo]) -> None:
        before = {(info.name, info.epoch_ms) for info in self._brokers}
        if before and before != {(info.name, info.epoch_ms) for info in found}:
            self.make_stale()
        self._brokers = found
        for info in found:
            known = self._known.get(info.name)
            if known is not None and known.address != info.address:
                self.moved(info.name, info.address)
            self._known[info.name] = info
            self._known.move_to_end(info.name)
        while len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)

    async def expected(self) -> list[ns.BrokerInfo]:
        """Those that are registered, and those with replicas that were: without a primary nobody
        registers them. By name. Raises `NameserverDown`."""
        here = {info.name: info for info in await self.brokers()}
        missed = [info for info in self._known.values() if info.replica and info.name not in here]
        return sorted([*here.values(), *missed], key=lambda info: info.name)

    async def nameservers(self) -> list[NameserverState]:
        return await self._nameservers.each()

    def knows(self, broker: str) -> bool:
        """Whether it was registered at some time that this proxy remembers."""
        return broker in self._known

    async def address(self, broker: str) -> str:
        """host:port of a broker's link, the last known of one that is not registered just now.

        Raises `BrokerUnreachable`.
        """
        try:
            await self.brokers()
        except NameserverDown as down:
            raise BrokerUnreachable(broker=broker, reason=str(down)) from down
        info = self._known.get(broker)
        if info is None:
            raise BrokerUnreachable(broker=broker, reason=self._down or "no nameserver knows it")
        return info.address

    async def close(self) -> None:
        asking = list(self._asking.values())
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        await self._nameservers.close()

    async def _ask(self, topic: str) -> TopicRoutes:
        found = await asyncio.shield(self._asking.get(topic) or self._start(topic))
        return TopicRoutes(found)

    def _start(self, topic: str) -> "asyncio.Task[list[ns.QueueRoute]]":
        task = self._asking[topic] = asyncio.create_task(self._look_up(topic))
        task.add_done_callback(lambda done: self._asked(topic, done))
        return task

    async def _look_up(self, topic: str) -> list[ns.QueueRoute]:
        """With what brokers had that are not registered just now."""
        found = await self._nameservers.lookup(topic)
        entry = self._entries.get(topic)
        if entry is None:
            return found
        here = {route.broker.name for route in found}
        gone = [route for route in entry.routes if route.broker.name not in here]
        if not gone:
            entry.away_s.clear()
            return found
        registered = {info.name for info in await self._nameservers.brokers()}
        now_s = self._now_s()
        away_s = {
            route.broker.name: entry.away_s.get(route.broker.name, now_s)
            for route in gone
            if route.broker.name not in registered
        }
        entry.away_s = away_s
        kept = {name for name, since_s in away_s.items() if now_s - since_s < AWAY_KEPT_S}
        return with_those_away(found, entry.routes, kept if registered else set(away_s))

    def _asked(self, topic: str, task: "asyncio.Task[list[ns.QueueRoute]]") -> None:
        """A refresh that failed leaves the old routes in place; a later use tries again."""
        wanted = self._asking.get(topic) is task
        if wanted:
            del self._asking[topic]
        if task.cancelled() or task.exception() is not None or not wanted:
            return
        now_s = self._now_s()
        before = self._entries.get(topic)
        away_s = {} if before is None else before.away_s
        self._keep(
            topic, CachedRoutes(TopicRoutes(task.result()), now_s, now_s + REFRESH_S, away_s)
        )

    def _keep(self, topic: str, entry: CachedRoutes) -> None:
        self._entries[topic] = entry
        self._entries.move_to_end(topic)
        if len(self._entries) > ROUTES_MAX:
            self._entries.popitem(last=False)
