"""Is a message lost for a minute because the client that polled for it is gone?

The invisible time of every receive here is 60 s: a message that another consumer sees long before
was never given to the client that is gone, or was given back.
"""

import asyncio

import pytest
from front.conftest import served
from front.h2_client import Connection, connect
from front.payloads import INVISIBLE_S, receive, send
from front.server import Server
from front.stream import Stream
from front.wire import frame, headers
from integration.conftest import Raw

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service

BACK_WITHIN_S = 5.0
"""A second on a machine of its own; this has to hold on a busy one too."""
NOTICED_WITHIN_S = 7.0
ROUNDS = 4
BATCH = 32


async def poll(
    connection: Connection,
    name: str,
    *,
    poll_s: float = 15,
    timeout: str = "20S",
) -> Stream:
    """Open a long poll."""
    body = receive(name, name, poll_s=poll_s, invisible_s=INVISIBLE_S)
    stream = await connection.open(headers("ReceiveMessage", grpc_timeout=timeout))
    await connection.send(stream, frame(body), end=True)
    return stream


async def bodies(raw: Raw, name: str, count: int, within_s: float = BACK_WITHIN_S) -> list[bytes]:
    """What another consumer gets and acks soon; it stops at `count`."""
    found: list[bytes] = []
    try:
        async with asyncio.timeout(within_s):
            while len(found) < count:
                for response in await raw.receive(name, name, poll_ms=200):
                    if response.WhichOneof("content") == "message":
                        system = response.message.system_properties
                        found.append(response.message.body)
                        await raw.ack(name, system.receipt_handle, name)
    except TimeoutError:
        pass
    return found


async def leave(how: str, connection: Connection, stream: Stream) -> None:
    if how == "tcp reset":
        await connection.vanish()
    elif how == "closed socket":
        await connection.close()
    else:
        await connection.reset(stream)


LEAVING = pytest.mark.parametrize("how", ["tcp reset", "closed socket", "stream reset"])


@LEAVING
async def test_message_sent_after_a_polling_client_is_gone_reaches_another(
    server: Server, neighbour: Raw, name: str, how: str
) -> None:
    await neighbour.receive(name, name)  # makes the group, which starts here
    for i in range(ROUNDS):
        async with connect(server.endpoint) as connection:
            stream = await poll(connection, name)
            await server.until_rpcs("ReceiveMessage", 1)
            await leave(how, connection, stream)
            body = f"message {i}".encode()
            await asyncio.sleep(i % 2 / 5)  # at 0 the message races with the news
            await neighbour.send(name, body)
            assert await bodies(neighbour, name, 1) == [body]
        await server.until_rpcs("ReceiveMessage", 0)


@LEAVING
async def test_message_sent_at_the_moment_a_polling_client_leaves_reaches_another(
    server: Server, neighbour: Raw, name: str, how: str
) -> None:
    """The client leaves while its answer is made; what it has not read by then may be in its
    socket, so its window is shut: nothing can have reached it."""
    await neighbour.receive(name, name)  # makes the group, which starts here
    for i in range(ROUNDS):
        async with connect(server.endpoint, window_bytes=0) as connection:
            stream = await poll(connection, name)
            await server.until_rpcs("ReceiveMessage", 1)
            body = f"message {i}".encode()
            await asyncio.gather(neighbour.send(name, body), leave(how, connection, stream))
            assert await bodies(neighbour, name, 1) == [body]
        await server.until_rpcs("ReceiveMessage", 0)


@LEAVING
async def test_polls_of_a_client_that_is_gone_end(
    server: Server, neighbour: Raw, name: str, how: str
) -> None:
    """Though nothing is sent that could show that nobody listens."""
    async with connect(server.endpoint) as connection:
        streams = [await poll(connection, name, timeout="60S") for _ in range(20)]
        await server.until_rpcs("ReceiveMessage", len(streams))
        if how == "stream reset":
            await connection.reset(*streams)
        else:
            await leave(how, connection, streams[0])
        await server.until_rpcs("ReceiveMessage", 0, NOTICED_WITHIN_S)


async def test_message_sent_after_the_deadline_of_a_poll_reaches_another(
    server: Server, neighbour: Raw, name: str
) -> None:
    await neighbour.receive(name, name)  # makes the group, which starts here
    async with connect(server.endpoint) as connection:
        stream = await poll(connection, name, timeout="700m")
        await server.until_rpcs("ReceiveMessage", 1)
        await asyncio.sleep(0.75)  # the deadline, which the client watches too
        await neighbour.send(name, b"after the deadline")
        assert await bodies(neighbour, name, 1) == [b"after the deadline"]
        await stream.end(BACK_WITHIN_S)
        assert stream.grpc_status in (0, 4)
        for message in stream.messages:
            answer = service.ReceiveMessageResponse.FromString(message)
            assert answer.WhichOneof("content") != "message"


async def test_poll_is_answered_before_its_deadline(
    server: Server, neighbour: Raw, name: str
) -> None:
    async with connect(server.endpoint) as connection:
        stream = await poll(connection, name, timeout="1S")
        await stream.end(1.0)
        first = service.ReceiveMessageResponse.FromString(stream.messages[0])
        assert stream.grpc_status == 0
        assert first.status.code == v2.MESSAGE_NOT_FOUND


@pytest.mark.parametrize("body_bytes", [10, 12 << 10])
@LEAVING
async def test_batch_on_its_way_to_a_client_that_vanishes_is_visible_again(
    server: Server, neighbour: Raw, name: str, how: str, body_bytes: int
) -> None:
    """The client's flow control window is 0, so the server has the answer and cannot send it."""
    await neighbour.receive(name, name)  # makes the group, which starts here
    sent = [f"{i:03}".encode() + b"x" * body_bytes for i in range(BATCH)]
    async with connect(server.endpoint) as connection:
        stored = await connection.call("SendMessage", frame(send(name, *sent)))
        assert stored.grpc_status == 0
    async with connect(server.endpoint, window_bytes=0) as connection:
        stream = await poll(connection, name)
        await asyncio.wait_for(stream.begun.wait(), 5)
        others = await neighbour.receive(name, name)
        assert others[0].status.code == v2.MESSAGE_NOT_FOUND, "the batch is leased"
        assert stream.data == b""
        await leave(how, connection, stream)
        assert sorted(await bodies(neighbour, name, BATCH)) == sent


async def test_client_that_reads_nothing_holds_up_nobody(
    server: Server, neighbour: Raw, name: str
) -> None:
    """Twenty answers of 2 MiB wait for a client that does not read; nor do they pile up."""
    await neighbour.receive(name, name)
    before_mib = server.rss_mib()
    async with connect(server.endpoint, window_bytes=0) as connection:
        for _ in range(20):
            await neighbour.send(name, b"x" * (2 << 20))
            await poll(connection, name)
        await served(neighbour)
        assert server.rss_mib() - before_mib < 300
