"""What the link takes of its peers: bounded memory, time and numbers; and who may speak to it."""

import asyncio

import pytest
from harness.link import SEND, done, raw, read_frame, sends, serving

from popmq_common.errors import BadRequest, BrokerUnreachable
from popmq_common.link.frames import LENGTH, encode_frame
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.clients.brokers import LinkBrokers


@pytest.mark.parametrize(
    ("opening", "greeting_s"),
    [
        (LENGTH.pack(60_000_000), 600),
        (LENGTH.pack(1) + b"\xff", 600),
        (encode_frame(link.Frame(calls=[SEND])), 600),
        (b"", 0.05),
        (b"\0", 0.05),
    ],
)
async def test_a_peer_that_shows_no_secret_gets_little_memory_and_little_time(
    opening: bytes, greeting_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("popmq_broker.rpc.link.GREETING_S", greeting_s)
    async with serving(done) as (server, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(opening)
        assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()


@pytest.mark.parametrize(
    ("bound", "what"),
    [
        ("popmq_broker.rpc.link.CALLS_MAX", "calls"),
        ("popmq_common.link.frames.PENDING_MAX", "messages"),
    ],
)
async def test_calls_beyond_a_bound_are_refused_one_by_one(
    bound: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(done) as (server, _), raw(server) as (reader, writer):
        monkeypatch.setattr(bound, 0)
        writer.write(sends(1))
        frame = await asyncio.wait_for(read_frame(reader), 5)
        assert frame is not None
        assert frame.replies[0].failure.error == "TooManyRequests"
        assert what in frame.replies[0].failure.fields["what"]
        monkeypatch.undo()
        writer.write(sends(2))
        frame = await asyncio.wait_for(read_frame(reader), 5)
        assert frame is not None
        assert frame.replies[0].HasField("done")


async def test_a_proxy_that_does_not_read_its_replies_is_hung_up_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serving(done) as (server, _), raw(server) as (reader, writer):
        monkeypatch.setattr("popmq_common.link.frames.REFUSED_MAX", 0)
        writer.write(sends(1))
        assert await asyncio.wait_for(read_frame(reader), 5) is None


async def test_connections_beyond_the_bound_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("popmq_broker.rpc.link.CONNECTIONS_MAX", 1)
    async with serving(done) as (server, brokers):
        await brokers.call("b", SEND, 5_000)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        assert await asyncio.wait_for(reader.read(), 2) == b""
        writer.close()
        await brokers.call("b", SEND, 5_000)


async def test_a_reply_too_large_for_the_link_fails_its_own_call_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("popmq_common.link.frames.FRAME_BYTES_MAX", 10_000)
    large_is_out = asyncio.Event()

    async def handle(call: link.Call) -> link.Reply:
        if call.WhichOneof("body") == "send":
            await large_is_out.wait()
            return await done(call)
        large_is_out.set()
        messages = [link.PoppedMessage(record=bytes(6_000)) for _ in range(2)]
        return link.Reply(pop=link.PopReply(messages=messages))

    async with serving(handle) as (_, brokers):
        bystander = asyncio.create_task(brokers.call("b", SEND, 5_000))
        with pytest.raises(BadRequest, match="the link's limit"):
            await brokers.call("b", link.Call(pop=link.Pop()), 5_000)
        assert (await bystander).HasField("done")


async def test_a_call_too_large_for_the_link_is_refused_before_it_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serving(done) as (_, brokers):
        await brokers.call("b", SEND, 5_000)
        monkeypatch.setattr("popmq_common.link.frames.FRAME_BYTES_MAX", 1_000)
        large = link.Send(records=[link.OutgoingRecord(body=bytes(2_000))])
        with pytest.raises(BadRequest, match="the link's limit"):
            await brokers.call("b", link.Call(send=large), 5_000)
        await brokers.call("b", SEND, 5_000)


async def test_names_of_brokers_that_do_not_exist_take_bounded_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They come from clients, in receipt handles."""
    monkeypatch.setattr("popmq_proxy.clients.brokers.FAILURES_MAX", 10)

    async def address(broker: str) -> str:
        raise BrokerUnreachable(broker=broker, reason="no nameserver knows it")

    brokers = LinkBrokers(address, b"")
    for number in range(30):
        with pytest.raises(BrokerUnreachable, match="no nameserver knows it"):
            await brokers.call(f"b{number}", SEND, 5_000)
    assert (len(brokers._failures), brokers._links, brokers._connecting) == (10, {}, {})
    await brokers.close()
