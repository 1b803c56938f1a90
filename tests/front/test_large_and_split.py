"""Does it matter how a request is cut into DATA frames, and how large may it be?"""

import asyncio

import pytest
from front.conftest import served
from front.h2_client import Connection, connect
from front.payloads import publisher, receive, send, stored
from front.server import Server
from front.wire import PREFIX_BYTES, frame
from integration.conftest import Raw

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq_common.units import KiB, MiB

RESOURCE_EXHAUSTED = 8
KEPT_MIB = 80
"""Six bodies of 20 MiB are 120; an allocator may keep one or two of them for a moment."""
TRICKLED_BYTES = 1_200
TRICKLERS = 50

pytestmark = pytest.mark.usefixtures("neighbour")


async def refuse_large(server: Server, name: str, body: bytes) -> None:
    async with connect(server.endpoint) as connection:
        stream = await connection.call("SendMessage", frame(send(name, body)), timeout_s=20)
        if stream.grpc_status == RESOURCE_EXHAUSTED:
            return
        answer = service.SendMessageResponse.FromString(stream.messages[0])
        assert stream.grpc_status == 0
        assert answer.status.code == v2.MESSAGE_BODY_TOO_LARGE


async def test_body_of_20_mib_is_refused_and_its_memory_is_given_back(
    server: Server, name: str
) -> None:
    body = b"x" * (20 * MiB)
    for _ in range(4):  # an allocator keeps what a few of them took
        await refuse_large(server, name, body)
    before_mib = server.rss_mib()
    for _ in range(6):
        await refuse_large(server, name, body)
    assert server.rss_mib() - before_mib < KEPT_MIB


async def test_abandoned_20_mib_bodies_do_not_stay_in_memory(server: Server, name: str) -> None:
    request = frame(send(name, b"x" * (20 * MiB)))

    async def abandon() -> None:
        async with connect(server.endpoint) as connection:
            stream = await connection.open("SendMessage")
            await asyncio.wait_for(connection.send(stream, request[:-1]), 20)
            await connection.vanish()

    for _ in range(4):
        await abandon()
    before_mib = server.rss_mib()
    for _ in range(6):
        await abandon()
    assert server.rss_mib() - before_mib < KEPT_MIB


@pytest.mark.parametrize("chunk_bytes", [16 * KiB, 1_000])
async def test_body_at_the_limit_in_many_frames_arrives_whole(
    server: Server, neighbour: Raw, name: str, chunk_bytes: int
) -> None:
    await neighbour.receive(name, name)  # makes the group, which starts here
    body = bytes(range(256)) * (4 * MiB // 256)
    async with connect(server.endpoint) as connection:
        stream = await connection.open("SendMessage")
        request = frame(send(name, body))
        async with asyncio.timeout(20):
            await connection.send(stream, request, chunk_bytes=chunk_bytes, end=True)
        assert stored(await stream.end())
        stream = await connection.call("ReceiveMessage", frame(receive(name, name, poll_s=1)))
        answers = [service.ReceiveMessageResponse.FromString(data) for data in stream.messages]
    assert [a.message.body for a in answers if a.WhichOneof("content") == "message"] == [body]


async def send_in_two(connection: Connection, request: bytes, at: int) -> None:
    stream = await connection.open("SendMessage")
    await connection.send(stream, request[:at])
    await asyncio.sleep(0.01)  # so that the server sees the halves one after the other
    await connection.send(stream, request[at:], end=True)
    assert stored(await stream.end()), f"cut at {at}"


async def test_request_cut_in_two_anywhere_near_its_prefix(server: Server, name: str) -> None:
    request = frame(send(name, b"body"))
    near = {*range(1, PREFIX_BYTES + 8), *range(len(request) - 3, len(request))}
    async with connect(server.endpoint) as connection:
        for at in sorted(near):
            await send_in_two(connection, request, at)
        await asyncio.gather(*(send_in_two(connection, request, at) for at in near))


async def test_end_of_the_request_in_a_frame_of_its_own(server: Server, name: str) -> None:
    async with connect(server.endpoint) as connection:
        stream = await connection.open("SendMessage")
        await connection.send(stream, frame(send(name, b"x")))
        await asyncio.sleep(0.05)
        await connection.send(stream, b"", end=True)
        assert stored(await stream.end())


async def test_several_telemetry_messages_in_one_frame_are_each_answered(
    server: Server, name: str
) -> None:
    async with connect(server.endpoint) as connection:
        stream = await connection.open("Telemetry")
        await connection.send(stream, frame(publisher(name)) * 5)
        assert len(await stream.message(5, 0.9)) == 5, "one answer each, before any is repeated"


async def test_telemetry_messages_that_straddle_frames_are_each_answered(
    server: Server, name: str
) -> None:
    one = frame(publisher(name))
    async with connect(server.endpoint) as connection:
        stream = await connection.open("Telemetry")
        await connection.send(stream, one + one[:3])
        assert len(await stream.message(1)) == 1, "the first does not wait for the second"
        await connection.send(stream, one[3:] + one[:-1])
        assert len(await stream.message(2)) >= 2
        await connection.send(stream, one[-1:], end=True)
        await stream.end()
        assert stream.grpc_status == 0
        assert len(stream.messages) >= 3


def trickled(name: str) -> bytes:
    empty_bytes = len(frame(send(name, b"x" * 1_000))) - 1_000
    request = frame(send(name, b"x" * (TRICKLED_BYTES - empty_bytes)))
    assert len(request) == TRICKLED_BYTES
    return request


async def test_request_of_one_byte_a_frame_is_served(server: Server, name: str) -> None:
    async with connect(server.endpoint) as connection:
        stream = await connection.open("SendMessage")
        async with asyncio.timeout(10):
            await connection.send(stream, trickled(name), chunk_bytes=1, end=True)
        assert stored(await stream.end())


async def test_fifty_clients_of_one_byte_a_frame_hold_up_nobody(
    server: Server, neighbour: Raw, name: str
) -> None:
    """The neighbour's every message is answered in time meanwhile."""

    async def trickle() -> bool:
        async with connect(server.endpoint) as connection:
            stream = await connection.open("SendMessage")
            await connection.send(stream, trickled(name), chunk_bytes=1, end=True)
            return stored(await stream.end(20))

    async with asyncio.timeout(40):
        done = await asyncio.gather(*(trickle() for _ in range(TRICKLERS)))
    assert all(done)
    await served(neighbour)
