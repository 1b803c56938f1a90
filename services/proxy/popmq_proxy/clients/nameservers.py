"""Routes: asked of nameservers, remembered for a while, kept when no nameserver answers."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import grpc

from popmq_common.errors import BrokerUnreachable, NameserverDown, TopicNotFound
from popmq_internal.v1 import nameserver_pb2 as ns
from popmq_internal.v1 import nameserver_pb2_grpc as ns_grpc
from popmq_proxy.core.routes import TopicRoutes

REFRESH_S = 20.0
RETRY_S = 1.0  # between attempts while no nameserver answers and the old answers are used
MISSING_S = 1.0  # a topic that was missing may have been made a moment ago
ROUTES_MAX = 20_000
UNUSED_S = 300.0  # after its last refresh a route is forgotten; use refreshes it
LOOKUP_S = 3.0
CHANNEL_OPTIONS = (
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 1_000),
)
"""gRPC's own backoff goes up to two minutes, in which a nameserver that is back is not seen."""


class Nameservers(Protocol):
    async def lookup(self, topic: str) -> list[ns.QueueRoute]:
        """By broker name; empty when no broker has the topic. Raises `NameserverDown`."""
        ...

    async def brokers(self) -> list[ns.BrokerInfo]: ...

    async def each(self) -> list["Standing"]:
        """How each nameserver is; one that does not answer is told, not raised."""
        ...

    async def close(self) -> None: ...


class Standing(NamedTuple):
    """A nameserver as this proxy finds it."""

    address: str
    failure: str
    """Why it did not answer; empty: it did."""
    found: ns.DescribeNameserverResponse
    """Without a version when it is too old to tell more than its brokers."""


class LocalNameservers:
    """The route table of the same process."""

    def __init__(
        self,
        lookup: Callable[[str], list[ns.QueueRoute]],
        brokers: Callable[[], list[ns.BrokerInfo]],
    ) -> None:
        self._lookup = lookup
        self._brokers = brokers

    async def lookup(self, topic: str) -> list[ns.QueueRoute]:
        return self._lookup(topic)

    async def brokers(self) -> list[ns.BrokerInfo]:
        return self._brokers()

    async def each(self) -> list[Standing]:
        """None: what is in the same process has no standing of its own."""
        return []

    async def close(self) -> None:
        return


class GrpcNameservers:
    """Several nameservers, asked in turn; the one that answered last is asked first."""

    def __init__(self, addresses: tuple[str, ...]) -> None:
        self._channels = [
            grpc.aio.insecure_channel(address, options=CHANNEL_OPTIONS) for address in addresses
        ]
        self._stubs = [ns_grpc.NameserverStub(channel) for channel in self._channels]
        self._by_address = dict(zip(addresses, self._stubs, strict=True))

    async def lookup(self, topic: str) -> list[ns.QueueRoute]:
        reasons = []
        for stub in list(self._stubs):
            try:
                answer = await stub.Lookup(ns.LookupRequest(topic=topic), timeout=LOOKUP_S)
            except grpc.aio.AioRpcError as failed:
                reasons.append(self._failed(stub, failed))
                continue
            return list(answer.routes)
        raise NameserverDown(reason="; ".join(reasons) or "none is configured")

    async def brokers(self) -> list[ns.BrokerInfo]:
        reasons = []
        for stub in list(self._stubs):
            try:
                answer = await stub.ListBrokers(ns.ListBrokersRequest(), timeout=LOOKUP_S)
            except grpc.aio.AioRpcError as failed:
                reasons.append(self._failed(stub, failed))
                continue
            return list(answer.brokers)
        raise NameserverDown(reason="; ".join(reasons) or "none is configured")

    async def each(self) -> list[Standing]:
        asked = [_standing(address, stub) for address, stub in self._by_address.items()]
        return list(await asyncio.gather(*asked))

    def _failed(self, stub: "ns_grpc.NameserverAsyncStub", failed: grpc.aio.AioRpcError) -> str:
        self._stubs.remove(stub)
        self._stubs.append(stub)
        return failed.details() or failed.code().name

    async def close(self) -> None:
        for channel in self._channels:
            await channel.close(None)


async def _standing(address: str, stub: "ns_grpc.NameserverAsyncStub") -> Standing:
    try:
        return Standing(address, "", await _describe(stub))
    except grpc.aio.AioRpcError as failed:
        reason = failed.details() or failed.code().name
        return Standing(address, reason, ns.DescribeNameserverResponse())


async def _describe(stub: "ns_grpc.NameserverAsyncStub") -> ns.DescribeNameserverResponse:
    try:
        return await stub.Describe(ns.DescribeNameserverRequest(), timeout=LOOKUP_S)
    except grpc.aio.AioRpcError as failed:
        if failed.code() is not grpc.StatusCode.UNIMPLEMENTED:
            raise
    older = await stub.ListBrokers(ns.ListBrokersRequest(), timeout=LOOKUP_S)
    return ns.DescribeNameserverResponse(brokers=len(older.brokers))


@dataclass(slots=True)
class Entry:
    routes: TopicRoutes
    fetched_s: float
    refresh_s: float  # when it is asked again


class RouteCache:
    """Answers from memory; asks again after `REFRESH_S`, and keeps the old answer on failure."""

    def __init__(
        self, nameservers: Nameservers, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._nameservers = nameservers
        self._now_s = now_s
        self._entries: OrderedDict[str, Entry] = OrderedDict()
        self._asking: dict[str, asyncio.Task[list[ns.QueueRoute]]] = {}
        self._brokers: list[ns.BrokerInfo] = []
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
                self._start(topic)
        if not routes:
            raise TopicNotFound(topic=topic)
        return routes

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

    def forget_unused(self) -> None:
        """Routes nobody has asked for lately; none while no nameserver answers."""
        if self._down:
            return
        old_s = self._now_s() - UNUSED_S
        for topic in [name for name, entry in self._entries.items() if entry.refresh_s < old_s]:
            del self._entries[topic]

    async def brokers(self) -> list[ns.BrokerInfo]:
        """By name; the last answer while no nameserver gives one. Raises `NameserverDown`."""
        if self._down and self._now_s() < self._brokers_retry_s:
            return self._brokers
        try:
            self._brokers = await self._nameservers.brokers()
            self._down = ""
        except NameserverDown as down:
            if not self._brokers:
                raise
            self._down = str(down)
            self._brokers_retry_s = self._now_s() + RETRY_S
        return self._brokers

    async def nameservers(self) -> list[Standing]:
        return await self._nameservers.each()

    async def address(self, broker: str) -> str:
        """host:port of a broker's link, the last known while no nameserver answers.

        Raises `BrokerUnreachable`.
        """
        try:
            known = await self.brokers()
        except NameserverDown as down:
            raise BrokerUnreachable(broker=broker, reason=str(down)) from down
        for info in known:
            if info.name == broker:
                return info.address
        raise BrokerUnreachable(broker=broker, reason=self._down or "no nameserver knows it")

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
        task = self._asking[topic] = asyncio.create_task(self._nameservers.lookup(topic))
        task.add_done_callback(lambda done: self._asked(topic, done))
        return task

    def _asked(self, topic: str, task: "asyncio.Task[list[ns.QueueRoute]]") -> None:
        """A refresh that failed leaves the old routes in place; a later use tries again."""
        wanted = self._asking.get(topic) is task
        if wanted:
            del self._asking[topic]
        if task.cancelled() or task.exception() is not None or not wanted:
            return
        now_s = self._now_s()
        self._entries[topic] = Entry(TopicRoutes(task.result()), now_s, now_s + REFRESH_S)
        self._entries.move_to_end(topic)
        if len(self._entries) > ROUTES_MAX:
            self._entries.popitem(last=False)
