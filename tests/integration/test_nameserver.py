"""Brokers and nameservers over real gRPC: register with each, expire, come back."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import grpc
from harness.processes import free_port

from popmq_broker.app import server
from popmq_broker.config import BrokerConfig
from popmq_broker.engine.catalog.register import GrpcAnnouncer
from popmq_common.process.clock import SystemClock, VirtualClock
from popmq_internal.v1 import link_pb2 as link
from popmq_internal.v1 import nameserver_pb2 as ns
from popmq_internal.v1 import nameserver_pb2_grpc as ns_grpc
from popmq_nameserver.app import Nameserver, nameserver
from popmq_nameserver.config import NameserverConfig
from popmq_proxy.clients.nameservers import GrpcNameservers
from popmq_proxy.clients.route_cache import RouteCache

TOPIC = link.TopicConfig(name="t", read_queues=2, write_queues=2, perm=6, message_type="NORMAL")


async def start(stack: AsyncExitStack, clock: SystemClock | VirtualClock) -> Nameserver:
    config = NameserverConfig(port=0, expiry_ms=1_000)
    return await stack.enter_async_context(nameserver(config, clock))


async def until_registered(found: Nameserver) -> None:
    async with asyncio.timeout(10):
        while not found.table.brokers():  # noqa: ASYNC110 - nothing tells of a registration
            await asyncio.sleep(0.02)


def broker_config(tmp_path: Path, *nameservers: Nameserver) -> BrokerConfig:
    return BrokerConfig(
        create_groups=True,
        data_dir=tmp_path,
        port=0,
        disk_reserve_bytes=0,
        nameservers=tuple(f"127.0.0.1:{found.port}" for found in nameservers),
    )


async def test_a_topic_is_known_at_every_nameserver_when_its_creation_is_answered(
    tmp_path: Path,
) -> None:
    async with AsyncExitStack() as stack:
        names = [await start(stack, SystemClock()) for _ in range(2)]
        running = await stack.enter_async_context(
            server(broker_config(tmp_path, *names), SystemClock())
        )
        await running.broker.handle(link.Call(put_topic=link.PutTopic(topic=TOPIC)))
        for found in names:
            client = GrpcNameservers((f"127.0.0.1:{found.port}",))
            (route,) = await client.lookup("t")
            assert route.broker.address == f"127.0.0.1:{running.port}"
            assert route.topic == TOPIC
            await client.close()


async def test_one_nameserver_is_gone_the_other_answers(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        left = await start(stack, SystemClock())
        async with AsyncExitStack() as short_lived:
            gone = await start(short_lived, SystemClock())
            config = broker_config(tmp_path, gone, left)
            running = await stack.enter_async_context(server(config, SystemClock()))
            await until_registered(left)
        await running.broker.handle(link.Call(put_topic=link.PutTopic(topic=TOPIC)))
        client = GrpcNameservers((f"127.0.0.1:{gone.port}", f"127.0.0.1:{left.port}"))
        assert [route.broker.name for route in await client.lookup("t")] == ["broker-a"]
        await client.close()


async def test_a_broker_that_stops_leaves_and_one_that_is_forgotten_registers_again(
    tmp_path: Path,
) -> None:
    clock = VirtualClock()
    async with AsyncExitStack() as stack:
        found = await start(stack, clock)
        async with server(broker_config(tmp_path, found), SystemClock()):
            await until_registered(found)
            clock.advance(1_001)
            assert found.table.expire(clock.now_ms()) in (["broker-a"], [])
            await until_registered(found)
        assert found.table.brokers() == []


async def replaced(folder: Path, *names: Nameserver) -> set[str]:
    """What a broker that starts there says once it is registered."""
    async with server(broker_config(folder, *names), SystemClock()) as running:
        for found in names:
            await until_registered(found)
        await running.broker.topics.announce()
        return set(running.broker.peers.replaced)


async def test_a_broker_that_is_alone_hears_that_it_was_wiped(tmp_path: Path) -> None:
    """From any nameserver that has seen it before."""
    async with AsyncExitStack() as stack:
        names = [await start(stack, SystemClock()) for _ in range(2)]
        assert await replaced(tmp_path / "one", *names[:1]) == set()
        assert await replaced(tmp_path / "one", *names) == set()
        assert await replaced(tmp_path / "two", *names) == {"broker-a"}
        assert await replaced(tmp_path / "one", *names) == set()


def registration(epoch_ms: int, address: str) -> ns.RegisterRequest:
    broker = ns.BrokerInfo(name="b", address=address, epoch_ms=epoch_ms, version=1)
    return ns.RegisterRequest(broker=broker, topics=[TOPIC])


async def test_a_newer_process_wins_and_a_silent_one_is_not_handed_out() -> None:
    clock = VirtualClock()
    async with AsyncExitStack() as stack:
        found = await start(stack, clock)
        old, new = (GrpcAnnouncer(f"127.0.0.1:{found.port}") for _ in range(2))
        client = GrpcNameservers((f"127.0.0.1:{found.port}",))
        assert await old.register(registration(1, "old:1"))
        assert await new.register(registration(2, "new:1"))
        assert not await old.register(registration(1, "old:1"))
        assert not await old.heartbeat(registration(1, "old:1").broker)
        await old.unregister(registration(1, "old:1").broker)
        assert [route.broker.address for route in await client.lookup("t")] == ["new:1"]
        clock.advance(1_000)
        assert [broker.address for broker in await client.brokers()] == ["new:1"]
        clock.advance(1)
        assert await client.lookup("t") == []
        assert await client.brokers() == []
        assert not await new.heartbeat(registration(2, "new:1").broker)
        await new.unregister(registration(2, "new:1").broker)
        await client.close()


async def test_a_registration_larger_than_grpc_takes_by_default_is_taken() -> None:
    topics = [link.TopicConfig(name=f"{number:0120}") for number in range(40_000)]
    async with AsyncExitStack() as stack:
        found = await start(stack, VirtualClock())
        announcer = GrpcAnnouncer(f"127.0.0.1:{found.port}")
        request = ns.RegisterRequest(broker=ns.BrokerInfo(name="b"), topics=topics)
        assert request.ByteSize() > 4 * 1024 * 1024
        assert await announcer.register(request)
        await announcer.unregister(request.broker)


async def test_a_nameserver_that_was_just_started_hides_nothing_that_another_one_knows() -> None:
    async with AsyncExitStack() as stack:
        empty, full = [await start(stack, SystemClock()) for _ in range(2)]
        full.table.register(registration(1, "h:1").broker, [TOPIC], SystemClock().now_ms())
        client = GrpcNameservers((f"127.0.0.1:{empty.port}", f"127.0.0.1:{full.port}"))
        assert [route.broker.name for route in await client.lookup("t")] == ["b"]
        assert [broker.name for broker in await client.brokers()] == ["b"]
        assert await client.lookup("other") == []
        await client.close()


async def test_a_permission_is_known_at_every_nameserver_when_its_change_is_answered(
    tmp_path: Path,
) -> None:
    async with AsyncExitStack() as stack:
        names = [await start(stack, SystemClock()) for _ in range(2)]
        running = await stack.enter_async_context(
            server(broker_config(tmp_path, *names), SystemClock())
        )
        await running.broker.handle(link.Call(put_topic=link.PutTopic(topic=TOPIC)))
        for perm in (4, 6):
            change = link.SetPermission(perm=perm)
            await running.broker.handle(link.Call(set_permission=change))
            for found in names:
                (route,) = found.table.lookup("t")
                assert route.topic.perm == perm


class Older(ns_grpc.NameserverServicer):
    """It does not know Describe."""

    async def ListBrokers(self, request: Any, context: Any) -> ns.ListBrokersResponse:
        return ns.ListBrokersResponse(brokers=[ns.BrokerInfo(name="a"), ns.BrokerInfo(name="b")])


async def test_each_nameserver_says_how_it_is_or_why_it_does_not() -> None:
    older = grpc.aio.server()
    ns_grpc.add_NameserverServicer_to_server(  # type: ignore[no-untyped-call, unused-ignore]
        Older(),  # type: ignore[abstract]
        older,
    )
    older_port = older.add_insecure_port("127.0.0.1:0")
    await older.start()
    clock = VirtualClock()
    async with AsyncExitStack() as stack:
        one = await start(stack, clock)
        ports = (one.port, older_port, free_port())
        names = GrpcNameservers(tuple(f"127.0.0.1:{port}" for port in ports))
        well, old, gone = await names.each()
        await names.close()
    await older.stop(None)
    assert (well.failure, well.found.brokers, well.found.topics) == ("", 0, 0)
    assert well.found.started_ms == clock.now_ms()
    assert well.found.version
    assert (old.failure, old.found.brokers, old.found.version) == ("", 2, "")
    assert gone.failure
    assert [one.address for one in (well, old, gone)] == [f"127.0.0.1:{port}" for port in ports]


async def test_a_proxy_hears_at_once_that_a_topic_is_on_another_broker() -> None:
    """Long before it would ask again."""
    async with AsyncExitStack() as stack:
        found = await start(stack, SystemClock())
        address = f"127.0.0.1:{found.port}"
        routes = RouteCache(GrpcNameservers((address,)))
        first, second = GrpcAnnouncer(address), GrpcAnnouncer(address)
        await first.register(registration(1, "a:1"))
        assert (await routes.routes("t")).readable_brokers == ["b"]
        following = asyncio.create_task(routes.follow())
        await asyncio.sleep(0.2)
        other = registration(1, "c:1")
        other.broker.name = "c"
        await second.register(other)
        async with asyncio.timeout(10):
            while routes.readable("t") != ["b", "c"]:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.02)
        gone = ns.UpdateRequest(broker=other.broker, from_version=1, gone=["t"])
        gone.broker.version = 2
        assert await second.update(gone)
        async with asyncio.timeout(10):
            while routes.readable("t") != ["b"]:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.02)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await routes.close()
        for announcer in (first, second):
            await announcer.unregister(other.broker)


async def test_changes_are_told_when_they_come_or_when_the_time_is_over() -> None:
    async with AsyncExitStack() as stack:
        found = await start(stack, SystemClock())
        channel = await stack.enter_async_context(
            grpc.aio.insecure_channel(f"127.0.0.1:{found.port}")
        )
        stub = ns_grpc.NameserverStub(channel)
        first = await stub.Changes(ns.ChangesRequest())
        assert first.everything
        asked = ns.ChangesRequest(instance=first.instance, after=first.last, wait_ms=1)
        nothing = await stub.Changes(asked)
        assert (nothing.everything, list(nothing.topics)) == (False, [])
        asked.wait_ms = 30_000
        waiting = asyncio.ensure_future(stub.Changes(asked))
        await asyncio.sleep(0.1)
        await stub.Register(registration(1, "a:1"))
        assert list((await waiting).topics) == ["t"]
        another = await stub.Changes(ns.ChangesRequest(instance="another", after=1))
        assert another.everything
