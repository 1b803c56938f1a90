"""Leases that the server renews: the first handle stays good, through any proxy, after any crash of
one, and what a client held comes back when it is gone."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2
from integration.conftest import Raw

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from apache.rocketmq.v2 import service_pb2_grpc as service_grpc
from popmq_broker.config import BrokerConfig
from popmq_common.process.clock import SystemClock
from popmq_proxy.app import handlers, proxy
from popmq_proxy.config import ProxyConfig
from popmq_proxy.rpc.shared.context import CallContext
from popmq_standalone.app import Beside, broker_beside

LEASE_MS = 600
LEASE_S = LEASE_MS / 1000


class Cluster:
    """A broker, and as many proxies before it as a test wants."""

    def __init__(self, beside: Beside, data_dir: Path, stack: AsyncExitStack) -> None:
        self._beside = beside
        self._data_dir = data_dir
        self._stack = stack

    def config(self, **settings: Any) -> ProxyConfig:
        quick = ProxyConfig(
            create_topics=True, port=0, invisible_ms_default=LEASE_MS, log_level="error"
        )
        return replace(quick, **settings)

    async def proxy(self, **settings: Any) -> tuple[Raw, AsyncExitStack]:
        """A client of a proxy of its own, and what ends that proxy."""
        own = AsyncExitStack()
        beside = self._beside
        serving = await own.enter_async_context(
            proxy(
                self.config(**settings),
                SystemClock(),
                nameservers=beside.nameservers,
                brokers=beside.brokers,
            )
        )
        endpoint = f"127.0.0.1:{serving.port}"
        channel = await own.enter_async_context(grpc.aio.insecure_channel(endpoint))
        self._stack.push_async_callback(own.aclose)
        return Raw(service_grpc.MessagingServiceStub(channel), endpoint, self._data_dir), own


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    broker = BrokerConfig(
        create_groups=True, data_dir=tmp_path / "data", disk_reserve_bytes=0, goodbye_grace_ms=200
    )
    async with (
        broker_beside(broker, ProxyConfig(create_topics=True), SystemClock()) as beside,
        AsyncExitStack() as stack,
    ):
        yield Cluster(beside, tmp_path / "data", stack)


async def heartbeat(client: Raw, group: str = "g") -> None:
    request = service.HeartbeatRequest(group=v2.Resource(name=group), client_type=v2.PUSH_CONSUMER)
    response = await client.call("Heartbeat", request)
    assert response.status.code == v2.OK


async def goodbye(client: Raw, group: str = "g") -> None:
    request = service.NotifyClientTerminationRequest(group=v2.Resource(name=group))
    response = await client.call("NotifyClientTermination", request)
    assert response.status.code == v2.OK


async def take(client: Raw, *, poll_ms: int = 0, group: str = "g") -> list[v2.Message]:
    found = await client.receive("t", group, poll_ms=poll_ms, auto_renew=True, batch_size=1)
    return [one.message for one in found if one.WhichOneof("content") == "message"]


async def held(client: Raw, group: str = "g") -> str:
    """The handle of the only message, as a push consumer gets it."""
    assert await take(client, group=group) == []  # the group begins here
    assert (await client.send("t")).status.code == v2.OK
    (message,) = await take(client, poll_ms=2_000, group=group)
    return message.system_properties.receipt_handle


async def test_t14_a_client_that_lives_keeps_what_it_holds_and_acks_with_its_first_handle(
    cluster: Cluster,
) -> None:
    client, _ = await cluster.proxy()
    handle = await held(client)
    assert await take(client, poll_ms=int(2.5 * LEASE_MS)) == [], "it came to somebody else"
    assert (await client.ack("t", handle)).status.code == v2.OK
    assert await take(client, poll_ms=int(1.5 * LEASE_MS)) == []


async def test_a_silent_client_loses_what_it_holds(cluster: Cluster) -> None:
    client, _ = await cluster.proxy(alive_ms=1)
    handle = await held(client)
    other, _ = await cluster.proxy()
    other.client_id = "other"
    (again,) = await take(other, poll_ms=3 * LEASE_MS)
    assert again.system_properties.delivery_attempt == 2
    assert (await client.ack("t", handle)).status.code == v2.INVALID_RECEIPT_HANDLE


async def test_a_goodbye_gives_back_uncounted_what_the_client_held(cluster: Cluster) -> None:
    client, _ = await cluster.proxy(invisible_ms_default=60_000)
    await held(client)
    other, _ = await cluster.proxy()
    other.client_id = "other"
    await goodbye(other)  # somebody else's means nothing
    assert await take(other, poll_ms=400) == []
    await goodbye(client)
    (again,) = await take(other, poll_ms=1_000)
    assert again.system_properties.delivery_attempt == 1


async def test_t13_after_a_change_the_new_handle_acks_and_the_old_one_does_not(
    cluster: Cluster,
) -> None:
    client, _ = await cluster.proxy()
    old = await held(client)
    request = service.ChangeInvisibleDurationRequest(
        group=v2.Resource(name="g"), topic=v2.Resource(name="t"), receipt_handle=old
    )
    request.invisible_duration.FromSeconds(30)
    changed = await client.call("ChangeInvisibleDuration", request)
    assert changed.status.code == v2.OK
    await asyncio.sleep(LEASE_S)  # heartbeats do nothing to it
    assert (await client.ack("t", old)).status.code == v2.INVALID_RECEIPT_HANDLE
    assert (await client.ack("t", changed.receipt_handle)).status.code == v2.OK


async def test_t15_the_proxy_forgets_the_client_and_its_ack_is_accepted(cluster: Cluster) -> None:
    client, _ = await cluster.proxy(sessions_max=1)
    handle = await held(client)
    client.client_id = "another"
    await heartbeat(client)  # there is room for one
    client.client_id = "test@1@1@1"
    assert (await client.ack("t", handle)).status.code == v2.OK
    assert await take(client, poll_ms=2 * LEASE_MS) == []


async def test_t15_an_ack_on_its_way_when_its_client_says_goodbye_is_accepted(
    cluster: Cluster,
) -> None:
    client, _ = await cluster.proxy()
    handle = await held(client)
    await goodbye(client)
    assert (await client.ack("t", handle)).status.code == v2.OK
    assert await take(client, poll_ms=2 * LEASE_MS) == []


async def test_t37_the_proxy_ends_while_a_message_is_handled_and_another_one_takes_over(
    cluster: Cluster,
) -> None:
    """Its heartbeats renew the lease, and the ack with the handle of before is good."""
    first, ending = await cluster.proxy()
    handle = await held(first)
    await ending.aclose()
    second, _ = await cluster.proxy()
    for _ in range(5):
        await heartbeat(second)
        await asyncio.sleep(LEASE_S / 2)
    assert (await second.ack("t", handle)).status.code == v2.OK
    assert await take(second, poll_ms=2 * LEASE_MS) == []


async def test_t38_a_proxy_that_cannot_tell_of_its_clients_is_not_healthy(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = cluster._beside
    config = cluster.config()
    async with handlers(
        config, SystemClock(), nameservers=beside.nameservers, brokers=beside.brokers
    ) as inner:

        async def healthy() -> bool:
            ctx = CallContext({}, "", None)
            answer = await inner.methods.health.check(ctx, health_pb2.HealthCheckRequest())
            return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)

        told = asyncio.Event()

        async def tell() -> None:
            told.set()
            raise ZeroDivisionError

        assert await healthy()
        monkeypatch.setattr(inner.methods.heartbeats, "tell", tell)
        async with asyncio.timeout(5):
            await told.wait()  # it runs
        await asyncio.sleep(0.05)
        assert not await healthy()


async def test_t44_one_group_s_client_goes_silent_and_another_group_s_heartbeats_do_not_help(
    cluster: Cluster,
) -> None:
    silent, _ = await cluster.proxy(alive_ms=1)
    silent.client_id = "silent"
    await held(silent, "g1")
    lively, _ = await cluster.proxy()
    lively.client_id = "lively"
    await held(lively, "g2")

    @asynccontextmanager
    async def beating() -> AsyncIterator[None]:
        async def beat() -> None:
            while True:
                await heartbeat(lively, "g2")
                await asyncio.sleep(0.1)

        task = asyncio.create_task(beat())
        yield
        task.cancel()

    async with beating():
        other, _ = await cluster.proxy()
        other.client_id = "other"
        came = [await take(other, poll_ms=2 * LEASE_MS, group="g1") for _ in range(2)]
        assert [one.system_properties.delivery_attempt for some in came for one in some] == [1, 2]
        assert await take(other, poll_ms=LEASE_MS, group="g2") == []
