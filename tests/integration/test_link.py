"""The link between proxy and broker: batching, time-outs, cancelling, broken connections."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from harness.link import one_by_one

from popmq_broker.clients import replica_link
from popmq_broker.rpc.link import LinkServer
from popmq_common.errors import (
    BrokerDown,
    DeadlinePassed,
    NotAuthorized,
    NotPrimary,
    TopicNotFound,
)
from popmq_common.link.frames import LENGTH, FrameConnection
from popmq_common.link.wire import UnknownFailure
from popmq_common.process import logs
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.clients.brokers import LinkBrokers

Handle = Callable[[link.Call], Awaitable[link.Reply]]


by_unix_socket = False


@pytest.fixture(params=[False, True], ids=["port", "unix-socket"], autouse=True)
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proxies of the broker's machine come by a Unix socket, the others by the port."""
    monkeypatch.setattr(sys.modules[__name__], "by_unix_socket", request.param)


async def echo(call: link.Call) -> link.Reply:
    return link.Reply(id=call.id, done=link.Done())


@asynccontextmanager
async def linked(
    handle: Handle, secret: bytes = b"", shown: bytes = b""
) -> AsyncIterator[tuple[LinkBrokers, LinkServer]]:
    server = LinkServer(handle, one_by_one(handle), name="b", secret=secret, log=logs.get("test"))
    await server.start("127.0.0.1", 0, unix_socket=by_unix_socket)

    async def address(broker: str) -> str:
        return f"127.0.0.1:{server.port}"

    brokers = LinkBrokers(address, shown)
    try:
        yield brokers, server
    finally:
        await brokers.close()
        await server.stop()


async def test_many_calls_at_a_time_each_get_their_own_reply() -> None:
    async def named(call: link.Call) -> link.Reply:
        await asyncio.sleep(0)
        group = link.GroupConfig(name=call.get_group.group)
        return link.Reply(id=call.id, get_group=link.GetGroupReply(group=group))

    async with linked(named) as (brokers, _):
        calls = [link.Call(get_group=link.GetGroup(group=str(i))) for i in range(500)]
        replies = await asyncio.gather(*(brokers.call("b", call, 5_000) for call in calls))
    assert [reply.get_group.group.name for reply in replies] == [str(i) for i in range(500)]


async def test_calls_of_one_moment_share_frames_and_a_lone_call_does_not_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes: list[int] = []

    def counted(self: FrameConnection) -> bytes:
        data = whole(self)
        calls = link.Frame.FromString(data[LENGTH.size :]).calls
        if calls:
            sizes.append(len(calls))
        return data

    whole = FrameConnection._frame
    monkeypatch.setattr(FrameConnection, "_frame", counted)
    async with linked(echo) as (brokers, _):
        await brokers.call("b", link.Call(send=link.Send()), 5_000)
        calls = [link.Call(send=link.Send()) for _ in range(500)]
        await asyncio.gather(*(brokers.call("b", call, 5_000) for call in calls))
    assert sizes[0] == 1
    assert sum(sizes) == 501
    assert len(sizes) <= 5


async def test_an_error_arrives_as_itself_and_a_bug_as_a_failure() -> None:
    async def failing(call: link.Call) -> link.Reply:
        if call.WhichOneof("body") == "describe":
            raise ZeroDivisionError("a bug")
        raise TopicNotFound(topic="orders")

    async with linked(failing) as (brokers, _):
        with pytest.raises(TopicNotFound, match="popmq topic create orders"):
            await brokers.call("b", link.Call(send=link.Send()), 5_000)
        with pytest.raises(UnknownFailure, match="ZeroDivisionError"):
            await brokers.call("b", link.Call(describe=link.Describe()), 5_000)


async def test_a_call_given_up_is_cancelled_at_the_broker() -> None:
    ended: asyncio.Queue[str] = asyncio.Queue()

    async def waiting(call: link.Call) -> link.Reply:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await ended.put("cancelled")
            raise
        raise AssertionError("never")

    async with linked(waiting) as (brokers, _):
        with pytest.raises(DeadlinePassed, match=r"within \d+ ms"):
            await brokers.call("b", link.Call(pop=link.Pop()), 50)
        assert await asyncio.wait_for(ended.get(), 5) == "cancelled"
        task = asyncio.create_task(brokers.call("b", link.Call(pop=link.Pop()), 5_000))
        await asyncio.sleep(0.05)
        task.cancel()
        assert await asyncio.wait_for(ended.get(), 5) == "cancelled"
        await asyncio.gather(task, return_exceptions=True)


async def test_a_broken_connection_fails_its_calls_and_the_next_call_connects_again() -> None:
    release = asyncio.Event()

    async def slow(call: link.Call) -> link.Reply:
        await release.wait()
        return await echo(call)

    async with linked(slow) as (brokers, server):
        task = asyncio.create_task(brokers.call("b", link.Call(send=link.Send()), 5_000))
        await asyncio.sleep(0.05)
        for connection in list(server._connections):
            connection.cancel()
        with pytest.raises(BrokerDown):
            await task
        release.set()
        reply = await brokers.call("b", link.Call(send=link.Send()), 5_000)
        assert reply.WhichOneof("body") == "done"


async def test_proxies_that_are_turned_away_get_their_answers_and_connect_again() -> None:
    """As when another replica becomes primary: a waiting pop ends, a call is finished."""
    release, waits = asyncio.Event(), asyncio.Event()

    async def handle(call: link.Call) -> link.Reply:
        if call.HasField("pop"):
            waits.set()
            await asyncio.Event().wait()
        if call.HasField("describe"):
            await release.wait()
        return await echo(call)

    async with linked(handle) as (brokers, server):
        pop = asyncio.create_task(brokers.call("b", link.Call(pop=link.Pop()), 5_000))
        slow = asyncio.create_task(brokers.call("b", link.Call(describe=link.Describe()), 5_000))
        await asyncio.wait_for(waits.wait(), 5)
        away = asyncio.create_task(server.turn_away(5))
        with pytest.raises(NotPrimary):
            await pop
        reply = await brokers.call("b", link.Call(ping=link.Ping()), 5_000)
        assert reply.WhichOneof("body") == "done"
        release.set()
        assert (await slow).WhichOneof("body") == "done"
        await asyncio.wait_for(away, 5)


async def test_a_replica_that_fetches_is_not_turned_away() -> None:
    """Its primary hands over to it, and it needs the rest."""
    async with linked(echo) as (_, server):
        replica = await replica_link.connect("b", f"127.0.0.1:{server.port}", b"", None)
        await replica.call(link.Call(replica_hello=link.ReplicaHello()), 5)
        await server.turn_away(5)
        reply = await replica.call(link.Call(replica_fetch=link.ReplicaFetch()), 5)
        assert reply.WhichOneof("body") == "done"
        replica.close()


async def test_a_wrong_secret_is_refused() -> None:
    async with linked(echo, secret=b"right", shown=b"wrong") as (brokers, _):
        with pytest.raises(NotAuthorized):
            await brokers.call("b", link.Call(send=link.Send()), 5_000)
    async with linked(echo, secret=b"right", shown=b"right") as (brokers, _):
        await brokers.call("b", link.Call(send=link.Send()), 5_000)


async def test_nobody_at_the_address() -> None:
    async def address(broker: str) -> str:
        return "127.0.0.1:1"

    brokers = LinkBrokers(address, b"")
    with pytest.raises(BrokerDown):
        await brokers.call("b", link.Call(send=link.Send()), 5_000)
    await brokers.close()
