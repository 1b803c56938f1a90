"""The link when something is wrong: peers that talk nonsense, break off, stop, or answer late."""

import asyncio
import socket
from dataclasses import replace
from pathlib import Path

import pytest
from harness.link import (
    LOG,
    SEND,
    done,
    next_call,
    one_by_one,
    raw,
    read_frame,
    sends,
    serving,
    talking,
)

from popmq_broker.app import server
from popmq_broker.config import BrokerConfig
from popmq_broker.rpc.link import LinkServer
from popmq_common.errors import BrokerDown, BrokerUnreachable, DeadlinePassed
from popmq_common.link.frames import LENGTH, encode_frame
from popmq_common.process.clock import SystemClock
from popmq_common.records import hosts
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.clients import broker_link
from popmq_proxy.clients.brokers import LinkBrokers


async def test_nonsense_from_the_broker_fails_the_calls_at_once() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await next_call(reader)
        writer.write(LENGTH.pack(3) + b"\xff\xff\xff")
        await reader.read()  # until the proxy has hung up

    async with talking(talk) as brokers:
        with pytest.raises(BrokerDown, match="a frame that is none"):
            await brokers.call("b", SEND, 60_000)


async def test_one_call_object_may_go_to_two_brokers_at_a_time() -> None:
    async with serving(done) as (_, one), serving(done) as (_, other):
        await one.call("b", link.Call(describe=link.Describe()), 5_000)  # other ids from here on
        await other.call("b", link.Call(describe=link.Describe()), 5_000)
        await one.call("b", link.Call(describe=link.Describe()), 5_000)
        call = link.Call(describe=link.Describe())
        replies = await asyncio.gather(
            one.call("b", call, 5_000), other.call("b", call, 5_000), one.call("b", call, 5_000)
        )
    assert [reply.WhichOneof("body") for reply in replies] == ["done"] * 3


async def test_a_stopping_broker_finishes_what_runs_and_takes_nothing_new() -> None:
    entered, finish = asyncio.Event(), asyncio.Event()
    waiting: list[str] = []

    async def handle(call: link.Call) -> link.Reply:
        if call.WhichOneof("body") == "pop":
            waiting.append("pop")
            await asyncio.Event().wait()
        entered.set()
        await finish.wait()
        return await done(call)

    async with serving(handle) as (server, brokers):
        pop = asyncio.create_task(brokers.call("b", link.Call(pop=link.Pop()), 60_000))
        send = asyncio.create_task(brokers.call("b", link.Call(send=link.Send()), 60_000))
        await entered.wait()
        stopping = asyncio.create_task(server.stop(grace_s=30))
        with pytest.raises(BrokerUnreachable, match="it is stopping"):
            await pop  # a poll does not hold up the stop
        with pytest.raises(BrokerUnreachable):
            await brokers.call("b", link.Call(send=link.Send()), 5_000)
        assert waiting == ["pop"]
        assert not stopping.done()
        finish.set()
        assert (await send).HasField("done")
        await asyncio.wait_for(stopping, 10)


async def test_what_does_not_finish_in_the_grace_time_is_cut_off() -> None:
    entered = asyncio.Event()

    async def handle(call: link.Call) -> link.Reply:
        entered.set()
        await asyncio.Event().wait()
        raise AssertionError("never")

    async with serving(handle) as (server, brokers):
        send = asyncio.create_task(brokers.call("b", SEND, 60_000))
        await entered.wait()
        await asyncio.wait_for(server.stop(grace_s=0.05), 10)
        with pytest.raises(BrokerDown):  # and not unreachable: it may have been stored
            await send


async def test_broken_connections_leave_nothing_behind() -> None:
    async with serving(done) as (server, brokers):
        await brokers.call("b", SEND, 5_000)
        before = len(asyncio.all_tasks())
        for _ in range(10):
            broken = brokers._links["b"]
            for task in list(server._connections):
                task.cancel()
            await broken._frames.ended
            await brokers.call("b", SEND, 5_000)
        assert len(asyncio.all_tasks()) == before


async def test_a_stopping_broker_writes_all_its_replies() -> None:
    async def large(call: link.Call) -> link.Reply:
        return link.Reply(pop=link.PopReply(messages=[link.PoppedMessage(record=bytes(1 << 20))]))

    async with serving(large) as (server, _), raw(server) as (reader, writer):
        writer.write(sends(*range(1, 41)))  # more than fits into the sockets' buffers
        first = await read_frame(reader)
        stopping = asyncio.create_task(server.stop(grace_s=30))
        found = [reply.id for reply in first.replies] if first else []
        while (frame := await asyncio.wait_for(read_frame(reader), 10)) is not None:
            found += [reply.id for reply in frame.replies]
        await stopping
    assert [reply_id for reply_id in found if reply_id] == list(range(1, 41))
    assert found.count(0) == 1, "the farewell"


async def test_the_same_call_id_twice_ends_the_connection() -> None:
    async def handle(call: link.Call) -> link.Reply:
        await asyncio.Event().wait()
        raise AssertionError("never")

    async with serving(handle) as (server, _), raw(server) as (reader, writer):
        writer.write(sends(7, 7))
        assert await asyncio.wait_for(read_frame(reader), 5) is None


async def test_what_a_pop_brings_after_it_was_given_up_is_given_back() -> None:
    released: asyncio.Queue[link.Release] = asyncio.Queue()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pop = await next_call(reader)
        assert (await next_call(reader)).cancel.call_id == pop.id
        popped = link.PopReply(messages=[link.PoppedMessage(handle="h5")])
        writer.write(encode_frame(link.Frame(replies=[link.Reply(id=pop.id, pop=popped)])))
        released.put_nowait((await next_call(reader)).release)

    async with talking(talk) as brokers:
        with pytest.raises(DeadlinePassed):
            await brokers.call("b", link.Call(pop=link.Pop(group="g", topic="t")), 50)
        release = await asyncio.wait_for(released.get(), 5)
    assert (release.group, release.topic) == ("g", "t")
    assert list(release.handles) == ["h5"]


async def test_what_a_pop_brings_in_the_moment_it_is_given_up_is_given_back() -> None:
    called = asyncio.Event()
    released: asyncio.Queue[link.Release] = asyncio.Queue()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await next_call(reader)
        called.set()
        released.put_nowait((await next_call(reader)).release)

    async with talking(talk) as brokers:
        pop = link.Call(pop=link.Pop(group="g", topic="t"))
        task = asyncio.create_task(brokers.call("b", pop, 60_000))
        await called.wait()
        popped = link.PopReply(messages=[link.PoppedMessage(handle="h5")])
        brokers._links["b"]._receive(link.Frame(replies=[link.Reply(id=pop.id, pop=popped)]))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        release = await asyncio.wait_for(released.get(), 5)
    assert list(release.handles) == ["h5"]


async def test_a_pop_that_was_given_up_is_forgotten_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broker that has heard of it in time does not answer."""
    monkeypatch.setattr(broker_link, "GIVEN_UP_S", 0.2)
    monkeypatch.setattr(broker_link, "TICK_S", 0.05)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with talking(talk) as brokers:
        with pytest.raises(DeadlinePassed):
            await brokers.call("b", link.Call(pop=link.Pop(group="g", topic="t")), 10)
        given_up = brokers._links["b"]._given_up
        assert given_up
        async with asyncio.timeout(5):
            while given_up:  # noqa: ASYNC110 - it can only be looked at
                await asyncio.sleep(0.02)


async def test_only_pops_are_cancelled_at_the_broker() -> None:
    kinds: asyncio.Queue[str | None] = asyncio.Queue()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (frame := await read_frame(reader)) is not None:
            for call in frame.calls:
                kinds.put_nowait(call.WhichOneof("body"))

    async with talking(talk) as brokers:
        for call in (link.Call(put_topic=link.PutTopic()), link.Call(pop=link.Pop())):
            with pytest.raises(DeadlinePassed):
                await brokers.call("b", call, 50)
        seen = [await asyncio.wait_for(kinds.get(), 5) for _ in range(3)]
    assert seen == ["put_topic", "pop", "cancel"]


async def test_after_a_failure_to_connect_nobody_tries_for_a_moment() -> None:
    asked = 0
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    listener.close()

    async def address(broker: str) -> str:
        nonlocal asked
        asked += 1
        return f"127.0.0.1:{port}"

    brokers = LinkBrokers(address, b"")
    for _ in range(50):
        with pytest.raises(BrokerUnreachable):
            await brokers.call("b", SEND, 5_000)
    assert asked == 1
    server = LinkServer(done, one_by_one(done), name="b", secret=b"", log=LOG)
    await server.start("127.0.0.1", port)
    brokers._failures["b"] = replace(brokers._failures["b"], retry_at_s=0.0)  # it has passed
    assert (await brokers.call("b", SEND, 5_000)).HasField("done")
    assert brokers._failures == {}
    await brokers.close()
    await server.stop()


async def test_a_deadline_that_passes_before_there_is_a_connection_means_nothing_was_sent() -> None:
    async def address(broker: str) -> str:
        await asyncio.Event().wait()
        raise AssertionError("never")

    brokers = LinkBrokers(address, b"")
    with pytest.raises(BrokerUnreachable, match="no connection within 20 ms"):
        await brokers.call("b", SEND, 20)
    await brokers.close()
    with pytest.raises(BrokerUnreachable, match="the proxy is stopping"):
        await brokers.call("b", SEND, 20)


@pytest.mark.parametrize("size_bytes", [0, 7, 9])
async def test_a_record_that_no_log_can_hold_is_one_refusal(
    tmp_path: Path, size_bytes: int
) -> None:
    """An address of a wrong length, between good sends of one frame; the connection goes on."""
    config = BrokerConfig(create_groups=True, data_dir=tmp_path, port=0, disk_reserve_bytes=0)

    def send(number: int, born_host: bytes) -> link.Call:
        record = link.OutgoingRecord(body=b"%d" % number, born_host=born_host)
        return link.Call(id=number, send=link.Send(topic="t", queue_id=0, records=[record]))

    async with server(config, SystemClock()) as running, raw(running) as (reader, writer):
        topic = link.TopicConfig(name="t", read_queues=1, write_queues=1, message_type="NORMAL")
        await running.broker.handle(link.Call(put_topic=link.PutTopic(topic=topic)))
        calls = [send(1, hosts.LOCAL), send(2, bytes(size_bytes)), send(3, hosts.LOCAL)]
        replies: dict[int, link.Reply] = {}
        for frame in (calls, [send(4, hosts.LOCAL)]):
            writer.write(encode_frame(link.Frame(calls=frame)))
            while len(replies) < frame[-1].id:
                answer = await asyncio.wait_for(read_frame(reader), 10)
                assert answer is not None, "the connection has ended"
                replies |= {reply.id: reply for reply in answer.replies}
        refused = [number for number, reply in replies.items() if reply.HasField("failure")]
        assert refused == [2]
        assert f"a born_host of {size_bytes} bytes" in replies[2].failure.fields["reason"]
        stored = [replies[number].send.queue_offset for number in (1, 3, 4)]
        assert stored == [0, 1, 2]
        assert running.broker.state.runtime.store.max_offset("t", 0) == 3
