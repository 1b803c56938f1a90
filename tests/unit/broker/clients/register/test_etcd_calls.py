"""Which endpoint is asked, for how long, and what an answer is worth; with endpoints that obey."""

import asyncio
import time
from collections.abc import AsyncIterator
from enum import Enum, auto
from typing import Any

import grpc
import pytest

from popmq_broker.clients.register.etcd_calls import EtcdCalls
from popmq_broker.clients.register.etcd_register import EtcdRegister
from popmq_broker.clients.register.register import CALL_S, Seen
from popmq_common.errors import RegisterUnreachable
from popmq_etcd.v3 import etcd_pb2 as pb
from popmq_etcd.v3 import etcd_pb2_grpc as rpc

NEW_VERSION = 7


class Mood(Enum):
    SWAPS = auto()
    HAS_ANOTHER = auto()
    """Version than the one that is asked for."""
    FAILS = auto()
    DENIES = auto()
    IS_SILENT = auto()


class Endpoint(rpc.KVServicer):
    def __init__(self) -> None:
        self.mood = Mood.SWAPS
        self.asked = 0
        self.server = grpc.aio.server()
        rpc.add_KVServicer_to_server(self, self.server)
        self.address = f"127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}"

    async def Txn(self, request: pb.TxnRequest, context: Any) -> pb.TxnResponse:
        await self._obey(context)
        header = pb.ResponseHeader(revision=NEW_VERSION)
        return pb.TxnResponse(header=header, succeeded=self.mood is Mood.SWAPS)

    async def Range(self, request: pb.RangeRequest, context: Any) -> pb.RangeResponse:
        await self._obey(context)
        return pb.RangeResponse()

    async def DeleteRange(
        self, request: pb.DeleteRangeRequest, context: Any
    ) -> pb.DeleteRangeResponse:
        await self._obey(context)
        return pb.DeleteRangeResponse()

    async def _obey(self, context: Any) -> None:
        self.asked += 1
        if self.mood is Mood.FAILS:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "etcdserver: no leader")
        if self.mood is Mood.DENIES:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "etcdserver: permission denied")
        if self.mood is Mood.IS_SILENT:
            await asyncio.sleep(60)


@pytest.fixture
async def endpoints() -> AsyncIterator[list[Endpoint]]:
    """Three."""
    made = [Endpoint() for _ in range(3)]
    for one in made:
        await one.server.start()
    yield made
    for one in made:
        await one.server.stop(None)


@pytest.fixture
async def register(endpoints: list[Endpoint]) -> AsyncIterator[EtcdRegister]:
    made = EtcdRegister(EtcdCalls([one.address for one in endpoints], None, None), "c", "b", "etcd")
    yield made
    await made.close()


def asked(endpoints: list[Endpoint]) -> list[int]:
    return [one.asked for one in endpoints]


async def test_who_answered_last_is_asked_first(
    endpoints: list[Endpoint], register: EtcdRegister
) -> None:
    await register.read()
    assert asked(endpoints) == [1, 0, 0]
    endpoints[0].mood = Mood.FAILS
    await register.read()
    assert asked(endpoints) == [2, 1, 0]
    await register.read()
    assert asked(endpoints) == [2, 2, 0]
    endpoints[1].mood = endpoints[2].mood = Mood.FAILS
    endpoints[0].mood = Mood.SWAPS
    await register.read()
    assert asked(endpoints) == [3, 3, 1]


async def test_who_is_silent_leaves_time_for_the_others(
    endpoints: list[Endpoint], register: EtcdRegister
) -> None:
    endpoints[0].mood = endpoints[1].mood = Mood.IS_SILENT
    began_s = time.monotonic()
    await register.read()
    assert time.monotonic() - began_s < CALL_S
    assert asked(endpoints) == [1, 1, 1]


@pytest.mark.parametrize("mood", [Mood.FAILS, Mood.IS_SILENT])
async def test_when_all_fail_each_is_named_in_time(
    endpoints: list[Endpoint], register: EtcdRegister, mood: Mood
) -> None:
    for one in endpoints:
        one.mood = mood
    began_s = time.monotonic()
    answers = await asyncio.gather(
        register.read(),
        register.swap(0, b"1"),
        register.leave("r1"),
        register.wait(Seen(None, 0, frozenset()), 60),
        return_exceptions=True,
    )
    assert time.monotonic() - began_s < CALL_S + 1
    for answer in answers:
        assert isinstance(answer, RegisterUnreachable)
        assert all(f"{one.address}: " in str(answer) for one in endpoints)


async def test_a_refusal_is_everybodys(endpoints: list[Endpoint], register: EtcdRegister) -> None:
    endpoints[0].mood = Mood.DENIES
    with pytest.raises(RegisterUnreachable, match="permission denied"):
        await register.swap(0, b"1")
    assert asked(endpoints) == [1, 0, 0]


async def test_a_swap_that_is_tried_again(
    endpoints: list[Endpoint], register: EtcdRegister
) -> None:
    """When it happens the second time, the first time it did not."""
    endpoints[0].mood = Mood.FAILS
    assert await register.swap(3, b"1") == NEW_VERSION


@pytest.mark.parametrize("mood", [Mood.FAILS, Mood.IS_SILENT])
async def test_another_version_after_a_failure_may_be_ones_own(
    endpoints: list[Endpoint], register: EtcdRegister, mood: Mood
) -> None:
    endpoints[0].mood, endpoints[1].mood = mood, Mood.HAS_ANOTHER
    with pytest.raises(RegisterUnreachable, match="another version was there"):
        await register.swap(3, b"1")
    assert await register.swap(3, b"1") is None
    assert asked(endpoints) == [1, 2, 0]
