"""Limits of calls and connections over the wire, as clients open and close them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import pytest
from integration.test_access import ALICE, ROOT, Secured, policy, secured

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2_grpc as service_grpc
from popmq_admin.v1 import admin_pb2 as admin

__all__ = ["secured"]
OWN_CONNECTION = [("grpc.use_local_subchannel_pool", 1)]


@asynccontextmanager
async def connected(at: Secured) -> AsyncIterator[Secured]:
    """The same server by a connection of its own."""
    async with grpc.aio.insecure_channel(at.endpoint, options=OWN_CONNECTION) as channel:
        messaging = service_grpc.MessagingServiceStub(channel)
        yield Secured(at.endpoint, at.audit, messaging, at.operators)


async def limit(at: Secured, **limits: int) -> None:
    request = admin.SetLimitsRequest(limits=admin.Limits(subject="User:alice", **limits))
    assert await at.ask(ROOT, "SetLimits", request) is grpc.StatusCode.OK
    assert await at.ask(ROOT, "PutAcl", policy("Pub")) is grpc.StatusCode.OK


async def test_one_connection_too_many_is_of_use_when_another_one_has_ended(
    secured: Secured, request: pytest.FixtureRequest
) -> None:
    counts = "http2" in request.node.name  # grpcio does not tell of connections
    await limit(secured, connections=2)
    async with connected(secured) as first, connected(secured) as third:
        async with connected(secured) as second:
            for one in (first, second, first, second):
                assert await one.send(ALICE) == v2.OK
            refused = v2.TOO_MANY_REQUESTS if counts else v2.OK
            assert await third.send(ALICE) == refused
            assert await third.send(ROOT) == v2.OK
        async with asyncio.timeout(10):
            while await third.send(ALICE) != v2.OK:  # noqa: ASYNC110 - the server sees it soon
                await asyncio.sleep(0.02)
        assert await first.send(ALICE) == v2.OK


async def test_sends_beside_each_other_are_held_to_the_limit_and_given_back(
    secured: Secured,
) -> None:
    """By the path without tasks too: the connection is warm."""
    await limit(secured, calls=3)
    for _ in range(20):
        assert await secured.send(ALICE) == v2.OK
    for _ in range(3):
        codes = await asyncio.gather(*(secured.send(ALICE) for _ in range(40)))
        assert set(codes) <= {v2.OK, v2.TOO_MANY_REQUESTS}
        assert codes.count(v2.OK) >= 3
        assert await secured.send(ALICE) == v2.OK
