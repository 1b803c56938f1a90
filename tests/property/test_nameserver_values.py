"""Whatever a nameserver is asked, with a secret or without: it answers or refuses, and goes on."""

import asyncio
from contextlib import suppress
from typing import Any

import grpc
import pytest
from harness.hostile import Messages
from hypothesis import given
from hypothesis import strategies as st

from popmq_common.process import logs
from popmq_common.process.clock import VirtualClock
from popmq_internal.v1 import link_pb2 as link
from popmq_internal.v1 import nameserver_pb2 as ns
from popmq_nameserver.core.route_table import RouteTable
from popmq_nameserver.rpc import NameserverRpc

HOSTILE = Messages({"name": ["b", "t"], "epoch_ms": [2, 2**63 - 1], "nonce": [bytes(56)]})
METHODS = list(ns.DESCRIPTOR.services_by_name["Nameserver"].methods)
CODES = (
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
)


class Aborted(Exception):
    """As grpc ends a call."""


class Context:
    def peer(self) -> str:
        return "ipv4:192.0.2.7:4711"

    async def abort(self, code: grpc.StatusCode, details: str) -> None:
        assert code in CODES, details
        raise Aborted(details)


@pytest.mark.parametrize("secret", [b"", b"the secret of this cluster"], ids=["open", "secret"])
@pytest.mark.parametrize("method", METHODS, ids=lambda method: str(method.name))
def test_any_request_is_answered_or_refused(method: Any, secret: bytes) -> None:
    clock = VirtualClock()
    table = RouteTable(expiry_ms=1_000)
    rpc: Any = NameserverRpc(table, clock, logs.get("nameserver"), secret)

    async def ask(request: Any) -> None:
        table.unregister(ns.BrokerInfo(name="honest", epoch_ms=1))
        honest = ns.BrokerInfo(name="honest", address="h:1", epoch_ms=1)
        assert table.register(honest, [link.TopicConfig(name="t")], clock.now_ms())
        with suppress(Aborted):
            await getattr(rpc, method.name)(request, Context())
        routes = (await rpc.Lookup(ns.LookupRequest(topic="t"), Context())).routes
        assert honest in [route.broker for route in routes] or not secret
        if secret:
            assert [route.broker for route in routes] == [honest]

    @given(HOSTILE.of(method.input_type), st.integers(0, 2_000))
    def check(request: Any, later_ms: int) -> None:
        clock.advance(later_ms)
        asyncio.run(ask(request))

    check()
