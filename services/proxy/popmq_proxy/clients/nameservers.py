"""Nameservers as a proxy asks them: who has a topic, which brokers there are."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol, TypeVar

import grpc

from popmq_common.errors import NameserverDown, NotServed
from popmq_common.process import logs
from popmq_common.tls.files import TlsFiles
from popmq_common.tls.grpc_tls import FollowingStub
from popmq_internal.v1 import nameserver_pb2 as ns
from popmq_internal.v1 import nameserver_pb2_grpc as ns_grpc

T = TypeVar("T")
Stub = FollowingStub["ns_grpc.NameserverAsyncStub"]
LOOKUP_S = 3.0
CHANGES_S = 20.0
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

    async def changes(self, instance: str, after: int) -> ns.ChangesResponse:
        """Routes that changed since the last response, which had these; waits for one, up to
        `CHANGES_S`. Raises `NameserverDown`, `NotServed` by a version before changes were told."""
        ...

    async def each(self) -> list["NameserverState"]:
        """How each nameserver is; one that does not answer is told, not raised."""
        ...

    async def close(self) -> None: ...


class NameserverState(NamedTuple):
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

    async def changes(self, instance: str, after: int) -> ns.ChangesResponse:
        """Whoever changes a route in this process tells the cache itself."""
        raise NotServed(what="Changes of routes")

    async def each(self) -> list[NameserverState]:
        """None: what is in the same process has no standing of its own."""
        return []

    async def close(self) -> None:
        return


class GrpcNameservers:
    """Several nameservers, asked in turn; the one that answered last is asked first.

    One that knows nothing may have just been started: then the others are asked too.
    """

    def __init__(self, addresses: tuple[str, ...], tls: TlsFiles | None = None) -> None:
        """Without `tls` they are asked in plaintext. Raises `ConfigError` for files that cannot be
        used."""
        log = logs.get("proxy")
        self._by_address: dict[str, Stub] = {
            address: FollowingStub(address, ns_grpc.NameserverStub, tls, CHANNEL_OPTIONS, log)
            for address in addresses
        }
        self._stubs = list(self._by_address.values())

    async def lookup(self, topic: str) -> list[ns.QueueRoute]:
        request = ns.LookupRequest(topic=topic)

        async def ask(stub: "ns_grpc.NameserverAsyncStub") -> list[ns.QueueRoute]:
            return list((await stub.Lookup(request, timeout=LOOKUP_S)).routes)

        return await self._first_that_knows(ask)

    async def brokers(self) -> list[ns.BrokerInfo]:
        async def ask(stub: "ns_grpc.NameserverAsyncStub") -> list[ns.BrokerInfo]:
            return list((await stub.ListBrokers(ns.ListBrokersRequest(), timeout=LOOKUP_S)).brokers)

        return await self._first_that_knows(ask)

    async def changes(self, instance: str, after: int) -> ns.ChangesResponse:
        if not self._stubs:
            raise NameserverDown(reason="none is configured")
        stub, wait_ms = self._stubs[0], int(CHANGES_S * 1000)
        request = ns.ChangesRequest(instance=instance, after=after, wait_ms=wait_ms)
        try:
            return await stub.current().Changes(request, timeout=CHANGES_S + LOOKUP_S)
        except grpc.aio.AioRpcError as failed:
            if failed.code() is grpc.StatusCode.UNIMPLEMENTED:
                raise NotServed(what="Changes of routes") from failed
            raise NameserverDown(reason=self._failed(stub, failed)) from failed

    async def _first_that_knows(
        self, ask: "Callable[[ns_grpc.NameserverAsyncStub], Awaitable[list[T]]]"
    ) -> list[T]:
        reasons, answered = [], False
        for stub in list(self._stubs):
            try:
                found = await ask(stub.current())
            except grpc.aio.AioRpcError as failed:
                reasons.append(self._failed(stub, failed))
                continue
            if found:
                return found
            answered = True
        if answered:
            return []
        raise NameserverDown(reason="; ".join(reasons) or "none is configured")

    async def each(self) -> list[NameserverState]:
        asked = [_standing(address, stub) for address, stub in self._by_address.items()]
        return list(await asyncio.gather(*asked))

    def _failed(self, stub: Stub, failed: grpc.aio.AioRpcError) -> str:
        self._stubs.remove(stub)
        self._stubs.append(stub)
        return stub.reason(failed)

    async def close(self) -> None:
        for stub in self._by_address.values():
            await stub.close()


async def _standing(address: str, stub: Stub) -> NameserverState:
    try:
        return NameserverState(address, "", await _describe(stub.current()))
    except grpc.aio.AioRpcError as failed:
        return NameserverState(address, stub.reason(failed), ns.DescribeNameserverResponse())


async def _describe(stub: "ns_grpc.NameserverAsyncStub") -> ns.DescribeNameserverResponse:
    try:
        return await stub.Describe(ns.DescribeNameserverRequest(), timeout=LOOKUP_S)
    except grpc.aio.AioRpcError as failed:
        if failed.code() is not grpc.StatusCode.UNIMPLEMENTED:
            raise
    older = await stub.ListBrokers(ns.ListBrokersRequest(), timeout=LOOKUP_S)
    return ns.DescribeNameserverResponse(brokers=len(older.brokers))
