"""What do clients see of a server that is told to stop?"""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from front.h2_client import connect
from front.payloads import publisher, receive, send, stored
from front.server import FRONTS, Server, serving
from front.stream import Stream
from front.wire import frame, headers

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service

OK, CANCELLED, UNAVAILABLE = 0, 1, 14
EXIT_S = 10.0
SENDS = 50


@pytest.fixture(params=FRONTS)
def own(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """A server that the test may stop."""
    with serving(request.param, tmp_path) as running:
        yield running


async def exit_code(server: Server) -> int:
    return await asyncio.to_thread(server.exit_code, EXIT_S)


async def test_long_poll_is_answered_and_the_process_ends(own: Server, name: str) -> None:
    """Beside an open Telemetry stream, as each official client has one."""
    async with connect(own.endpoint) as connection:
        telemetry = await connection.open("Telemetry")
        await connection.send(telemetry, frame(publisher(name)))
        assert await telemetry.message(1)
        first = await connection.call("ReceiveMessage", frame(receive(name, name, poll_s=0)))
        assert first.grpc_status == OK, "topic and group are made"
        poll = await connection.open(headers("ReceiveMessage", grpc_timeout="20S"))
        await connection.send(poll, frame(receive(name, name, poll_s=15)), end=True)
        await own.until_rpcs("ReceiveMessage", 1)
        await asyncio.sleep(0.1)  # from its handler to the broker
        own.terminate()
        await poll.end(2)
        assert poll.grpc_status in (OK, UNAVAILABLE)
        for data in poll.messages[:1]:
            answer = service.ReceiveMessageResponse.FromString(data)
            assert answer.status.code == v2.MESSAGE_NOT_FOUND
        assert await exit_code(own) == 0


async def test_telemetry_stream_ends_soon(own: Server, name: str) -> None:
    """Though its client leaves it open: else each stop takes as long as the drain may."""
    async with connect(own.endpoint) as connection:
        telemetry = await connection.open("Telemetry")
        await connection.send(telemetry, frame(publisher(name)))
        assert await telemetry.message(1)
        own.terminate()
        await telemetry.end(2)
        assert telemetry.grpc_status in (OK, UNAVAILABLE)
        assert await exit_code(own) == 0


def answered(server: Server, stream: Stream) -> bool:
    """With OK, or with UNAVAILABLE when it came too late; but not left without an answer.

    grpcio ends calls that no handler has seen yet with CANCELLED.
    """
    late = (UNAVAILABLE, CANCELLED) if server.front == "grpcio" else (UNAVAILABLE,)
    return stored(stream) or stream.grpc_status in late


async def test_sends_under_way_are_answered(own: Server, name: str) -> None:
    async with connect(own.endpoint) as connection:
        assert stored(await connection.call("SendMessage", frame(send(name, b"first"))))
        request = frame(send(name, b"x" * 1024))
        streams = [connection.queue_open("SendMessage") for _ in range(SENDS)]
        for stream in streams:
            await connection.send(stream, request, end=True)
        await streams[0].end()
        own.terminate()
        for stream in streams:
            await stream.end()
        assert [stream for stream in streams if not answered(own, stream)] == []
        assert await exit_code(own) == 0


async def test_clients_that_do_nothing_do_not_keep_it_from_stopping(own: Server, name: str) -> None:
    """Half a request, an answer that nobody takes, and a connection without a call."""
    async with (
        connect(own.endpoint) as half,
        connect(own.endpoint, window_bytes=0) as shut,
        connect(own.endpoint),
    ):
        stream = await half.open("SendMessage")
        await half.send(stream, frame(send(name, b"x" * 1024))[:500])
        stream = await shut.open("SendMessage")
        await shut.send(stream, frame(send(name, b"x")), end=True)
        await asyncio.wait_for(stream.begun.wait(), 5)
        own.terminate()
        assert await exit_code(own) == 0


async def test_new_connections_are_refused_after_it_stopped(own: Server) -> None:
    own.terminate()
    assert await exit_code(own) == 0
    host, _, port = own.endpoint.rpartition(":")
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(host, int(port))
