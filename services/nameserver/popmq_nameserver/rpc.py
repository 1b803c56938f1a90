"""The gRPC service over the route table.

With a secret, calls that change a registration must prove that their sender knows it.
"""

import asyncio
import secrets
import time
from typing import Any, TypeVar

import grpc
from google.protobuf.message import DecodeError

from popmq_common.errors import NotAuthorized, TooManyRequests
from popmq_common.link.link_secret import SecretClaim
from popmq_common.process.clock import Clock
from popmq_common.process.installed import version
from popmq_common.process.logs import Log
from popmq_internal.v1 import nameserver_pb2 as ns
from popmq_internal.v1 import nameserver_pb2_grpc as ns_grpc
from popmq_nameserver.core.challenges import NOISE_BYTES, Challenges
from popmq_nameserver.core.identities import Identities
from popmq_nameserver.core.route_table import RouteTable
from popmq_nameserver.metrics import NameserverMetrics

Context = grpc.aio.ServicerContext[Any, Any]
Change = TypeVar(
    "Change", ns.RegisterRequest, ns.UpdateRequest, ns.HeartbeatRequest, ns.UnregisterRequest
)
WAIT_MS_MAX = 60_000
_CLAIMS = {
    ns.RegisterRequest: SecretClaim.REGISTER,
    ns.UpdateRequest: SecretClaim.UPDATE,
    ns.HeartbeatRequest: SecretClaim.HEARTBEAT,
    ns.UnregisterRequest: SecretClaim.UNREGISTER,
}


class NameserverRpc(ns_grpc.NameserverServicer):
    def __init__(self, table: RouteTable, clock: Clock, log: Log, secret: bytes = b"") -> None:
        """`secret`: what brokers must know; empty: nothing."""
        self._table = table
        self._identities = Identities()
        self._challenges = Challenges(secret, secrets.token_bytes(32)) if secret else None
        self._clock = clock
        self._log = log
        self._started_ms = clock.now_ms()
        self._instance = secrets.token_hex(8)
        self._changed = asyncio.Event()
        self._metrics = NameserverMetrics(table)
        self.registry = self._metrics.registry

    async def Challenge(
        self, request: ns.ChallengeRequest, context: Context
    ) -> ns.ChallengeResponse:
        self._metrics.calls["challenge"] += 1
        if self._challenges is None:
            return ns.ChallengeResponse()
        nonce = self._challenges.nonce(_now_ms(), secrets.token_bytes(NOISE_BYTES))
        return ns.ChallengeResponse(nonce=nonce)

    async def _proven(self, request: Change, context: Context) -> Change:
        """What the sender asks for, when it may. Aborts the call."""
        if self._challenges is None:
            return request
        proven, kind = request.proven, type(request)
        try:
            shown = proven.request, proven.nonce, proven.proof
            self._challenges.check(_CLAIMS[kind], *shown, _now_ms())
            return kind.FromString(proven.request)
        except NotAuthorized as liar:
            self._metrics.unproven += 1
            self._log.warning("broker.unproven", peer=context.peer(), call=_CLAIMS[kind].name)
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, str(liar))
        except TooManyRequests as full:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(full))
        except DecodeError as wrong:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(wrong))
        raise AssertionError("abort raises")

    async def Register(self, request: ns.RegisterRequest, context: Context) -> ns.RegisterResponse:
        self._metrics.calls["register"] += 1
        request = await self._proven(request, context)
        now_ms = self._clock.now_ms()
        try:
            accepted = self._table.register(request.broker, list(request.topics), now_ms)
        except TooManyRequests as full:
            self._log.error("broker.refused", broker=request.broker.name, reason=str(full))
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(full))
        self._metrics.refused += not accepted
        self._wake()
        self._log.info(
            "broker.registered" if accepted else "broker.refused",
            broker=request.broker.name,
            address=request.broker.address,
            topics=len(request.topics),
        )
        before = ""
        if accepted:
            before = self._identities.before(request.broker.name, request.broker.identity)
        return ns.RegisterResponse(accepted=accepted, identity_before=before)

    async def Update(self, request: ns.UpdateRequest, context: Context) -> ns.UpdateResponse:
        self._metrics.calls["update"] += 1
        request = await self._proven(request, context)
        known = self._table.update(request, self._clock.now_ms())
        self._wake()
        return ns.UpdateResponse(known=known)

    async def Changes(self, request: ns.ChangesRequest, context: Context) -> ns.ChangesResponse:
        self._metrics.calls["changes"] += 1
        self.expire()
        changes = self._table.changes
        if request.instance == self._instance and request.after == changes.last:
            await self._wait(min(request.wait_ms, WAIT_MS_MAX) / 1000)
        known = request.instance == self._instance
        topics = changes.since(request.after) if known else None
        return ns.ChangesResponse(
            instance=self._instance,
            last=changes.last,
            topics=topics or (),
            everything=topics is None,
        )

    async def _wait(self, seconds: float) -> None:
        """Until a route changes."""
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return

    def _wake(self) -> None:
        """Everybody who waits now, and nobody who comes later."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def Heartbeat(
        self, request: ns.HeartbeatRequest, context: Context
    ) -> ns.HeartbeatResponse:
        self._metrics.calls["heartbeat"] += 1
        request = await self._proven(request, context)
        known = self._table.heartbeat(request.broker, self._clock.now_ms())
        return ns.HeartbeatResponse(known=known)

    async def Unregister(
        self, request: ns.UnregisterRequest, context: Context
    ) -> ns.UnregisterResponse:
        self._metrics.calls["unregister"] += 1
        request = await self._proven(request, context)
        self._table.unregister(request.broker)
        self._wake()
        self._log.info("broker.unregistered", broker=request.broker.name)
        return ns.UnregisterResponse()

    async def Lookup(self, request: ns.LookupRequest, context: Context) -> ns.LookupResponse:
        self._metrics.calls["lookup"] += 1
        self.expire()
        return ns.LookupResponse(routes=self._table.lookup(request.topic))

    async def ListBrokers(
        self, request: ns.ListBrokersRequest, context: Context
    ) -> ns.ListBrokersResponse:
        self._metrics.calls["list_brokers"] += 1
        self.expire()
        return ns.ListBrokersResponse(brokers=self._table.brokers())

    async def Describe(
        self, request: ns.DescribeNameserverRequest, context: Context
    ) -> ns.DescribeNameserverResponse:
        self._metrics.calls["describe"] += 1
        self.expire()
        return ns.DescribeNameserverResponse(
            version=version(),
            started_ms=self._started_ms,
            brokers=len(self._table.brokers()),
            topics=self._table.topic_count(),
        )

    def expire(self) -> None:
        """Take out silent brokers: every second, and before routes are given out."""
        for name in self._table.expire(self._clock.now_ms()):
            self._metrics.expired += 1
            self._wake()
            self._log.warning("broker.expired", broker=name)


def _now_ms() -> int:
    """Of a clock that never goes back."""
    return time.monotonic_ns() // 1_000_000
