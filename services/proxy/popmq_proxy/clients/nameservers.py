"""Routes: asked of nameservers, remembered for a while, kept when no nameserver answers."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import grpc

from popmq_common.errors import BrokerUnreachable, NameserverDown, TopicNotFound
from popmq_internal.v1 import nameserver_pb2 as ns
from popmq_internal.v1 import nameserver_pb2_grpc as ns_grpc

REFRESH_S = 20.0
MISSING_S = 1.0  # a topic that was missing may have been made a moment ago
ROUTES_MAX = 20_000
LOOKUP_S = 3.0


class Nameservers(Protocol):
    async def lookup(self, topic: str) -> list[ns.QueueRoute]:
        """By broker name; empty when no broker has the topic. Raises `NameserverDown`."""
        ...

    async def brokers(self) -> list[ns.BrokerInfo]: ...

    async def close(self) -> None: ...


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

    async def close(self) -> None:
        return


class GrpcNameservers:
    """Several nameservers, asked in turn; the one that answered last is asked first."""

    def __init__(self, addresses: tuple[str, ...]) -> None:
        self._channels = [grpc.aio.insecure_channel(address) for address in addresses]
        self._stubs = [ns_grpc.NameserverStub(channel) for channel in self._channels]

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

    def _failed(self, stub: "ns_grpc.NameserverAsyncStub", failed: grpc.aio.AioRpcError) -> str:
        self._stubs.remove(stub)
        self._stubs.append(stub)
        return failed.details() or failed.code().name

    async def close(self) -> None:
        for channel in self._channels:
            await channel.close(None)


@dataclass(slots=True)
class Entry:
    routes: list[ns.QueueRoute]
    fetched_s: float


class RouteCache:
    """Answers from memory; asks again after `REFRESH_S`, and keeps the old answer on failure."""

    def __init__(self, nameservers: Nameservers) -> None:
        self._nameservers = nameservers
        self._entries: OrderedDict[str, Entry] = OrderedDict()
        self._asking: dict[str, asyncio.Task[list[ns.QueueRoute]]] = {}
        self._addresses: dict[str, str] = {}

    async def routes(self, topic: str) -> list[ns.QueueRoute]:
        """Raises `TopicNotFound`, `NameserverDown` when nothing is known and nobody answers."""
        entry = self._entries.get(topic)
        age_s = time.monotonic() - entry.fetched_s if entry else 0.0
        if entry is None or (not entry.routes and age_s > MISSING_S):
            routes = await self._ask(topic)
        else:
            routes = entry.routes
            self._entries.move_to_end(topic)
            if age_s > REFRESH_S and topic not in self._asking:
                self._start(topic).add_done_callback(_ignore_failure)
        if not routes:
            raise TopicNotFound(topic=topic)
        return routes

    def forget(self, topic: str) -> None:
        """The topic has just been changed."""
        self._entries.pop(topic, None)

    async def brokers(self) -> list[ns.BrokerInfo]:
        return await self._nameservers.brokers()

    async def address(self, broker: str) -> str:
        """host:port of a broker's link, the last known while no nameserver answers.

        Raises `BrokerUnreachable`.
        """
        try:
            found = await self._nameservers.brokers()
            self._addresses = {info.name: info.address for info in found}
        except NameserverDown as down:
            if broker not in self._addresses:
                raise BrokerUnreachable(broker=broker, reason=str(down)) from down
        if broker not in self._addresses:
            raise BrokerUnreachable(broker=broker, reason="no nameserver knows it")
        return self._addresses[broker]

    async def close(self) -> None:
        for task in self._asking.values():
            task.cancel()
        await self._nameservers.close()

    async def _ask(self, topic: str) -> list[ns.QueueRoute]:
        return await asyncio.shield(self._asking.get(topic) or self._start(topic))

    def _start(self, topic: str) -> "asyncio.Task[list[ns.QueueRoute]]":
        task = self._asking[topic] = asyncio.create_task(self._fetch(topic))
        return task

    async def _fetch(self, topic: str) -> list[ns.QueueRoute]:
        try:
            routes = await self._nameservers.lookup(topic)
        finally:
            del self._asking[topic]
        self._entries[topic] = Entry(routes, time.monotonic())
        self._entries.move_to_end(topic)
        if len(self._entries) > ROUTES_MAX:
            self._entries.popitem(last=False)
        return routes


def _ignore_failure(task: "asyncio.Task[list[ns.QueueRoute]]") -> None:
    """A refresh that failed leaves the old routes in place; the next use tries again."""
    if not task.cancelled():
        task.exception()
