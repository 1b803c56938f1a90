"""Thousands of connections, streams, resets and pings: who is served meanwhile, and what stays?"""

import asyncio
import socket
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from front.conftest import served
from front.h2_client import connect
from front.payloads import receive, send, stored
from front.server import Server
from front.stream import Stream
from front.wire import frame, headers
from h2.settings import SettingCodes
from integration.conftest import Raw

IDLE_CONNECTIONS = 5_000
CONNECTING_AT_A_TIME = 100
FLOOD = 2_000
RESETS = 5_000
LEAK_MIB = 30.0
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
OK, RESOURCE_EXHAUSTED = 0, 8
REFUSED_STREAM, ENHANCE_YOUR_CALM = 7, 11

pytestmark = pytest.mark.usefixtures("neighbour")


async def idle_connection(endpoint: str, turn: asyncio.Semaphore) -> socket.socket:
    """A connection that has said hello and was greeted."""
    host, _, port = endpoint.rpartition(":")
    loop = asyncio.get_running_loop()
    raw = socket.socket()
    raw.setblocking(False)
    async with turn, asyncio.timeout(20):
        await loop.sock_connect(raw, (host, int(port)))
        await loop.sock_sendall(raw, PREFACE)
        assert await loop.sock_recv(raw, 9), "the server's SETTINGS"
    return raw


@asynccontextmanager
async def idle_connections(endpoint: str) -> AsyncIterator[None]:
    turn = asyncio.Semaphore(CONNECTING_AT_A_TIME)
    made = [asyncio.create_task(idle_connection(endpoint, turn)) for _ in range(IDLE_CONNECTIONS)]
    try:
        await asyncio.gather(*made)
        yield
    finally:
        await asyncio.wait(made)
        for task in made:
            if task.exception() is None:
                task.result().close()


async def test_five_thousand_idle_connections_cost_little_and_leave_nothing(
    server: Server, neighbour: Raw
) -> None:
    """Seen: 71 MiB with grpcio for all of them."""
    before_mib = server.rss_mib()
    async with idle_connections(server.endpoint):
        first_mib = server.rss_mib()
        await served(neighbour)
    await asyncio.sleep(0.5)  # for the server to see that they are closed
    async with idle_connections(server.endpoint):
        second_mib = server.rss_mib()
        await served(neighbour)
    print(f"{server.front}: {before_mib:.0f}, {first_mib:.0f}, then {second_mib:.0f} MiB")
    assert first_mib - before_mib < 300
    assert second_mib - first_mib < 50


def outcome(stream: Stream) -> str:
    """One word; hung and strange are not to be."""
    if not stream.ended.is_set():
        return "hung"
    if stream.grpc_status == OK:
        return "served"
    calm = stream.reset_code in (REFUSED_STREAM, ENHANCE_YOUR_CALM)
    if stream.grpc_status == RESOURCE_EXHAUSTED or calm:
        return "refused"
    return f"strange: {stream.grpc_status}, reset {stream.reset_code}"


async def ended(streams: list[Stream], timeout_s: float) -> Counter[str]:
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            for stream in streams:
                await stream.ended.wait()
    return Counter(outcome(stream) for stream in streams)


async def test_two_thousand_polls_on_one_connection_are_served_or_refused(
    server: Server, neighbour: Raw, name: str
) -> None:
    await neighbour.receive(name, name)  # makes the group, which starts here
    poll = frame(receive(name, name, poll_s=1))
    async with connect(server.endpoint) as connection:
        connection.ignore_stream_limit()
        streams = [connection.queue_open("ReceiveMessage") for _ in range(FLOOD)]
        for stream in streams:
            await connection.send(stream, poll, end=True)
        await served(neighbour)
        outcomes = await ended(streams, 15)
        assert outcomes["served"] + outcomes["refused"] == FLOOD, outcomes


async def test_two_thousand_sends_on_one_connection_are_served_or_refused(
    server: Server, name: str
) -> None:
    request = frame(send(name, b"x"))
    async with connect(server.endpoint) as connection:
        connection.ignore_stream_limit()
        streams = [connection.queue_open("SendMessage") for _ in range(FLOOD)]
        for stream in streams:
            await connection.send(stream, request, end=True)
        outcomes = await ended(streams, 15)
        assert outcomes["served"] + outcomes["refused"] == FLOOD, outcomes


async def rapid_reset(server: Server, name: str, *, with_request: bool) -> None:
    """The server may close the connection meanwhile; then a new one goes on."""
    poll = frame(receive(name, name, poll_s=15))
    done = 0
    while done < RESETS:
        async with connect(server.endpoint) as connection:
            connection.ignore_stream_limit()
            while done < RESETS and not connection.closed.is_set():
                streams = []
                for _ in range(100):
                    stream = connection.queue_open("ReceiveMessage")
                    if with_request:
                        connection.h2.send_data(stream.stream_id, poll, end_stream=True)
                    streams.append(stream)
                await connection.reset(*streams)
                done += len(streams)
                if connection.goaway_code is not None:
                    break


@pytest.mark.parametrize("with_request", [True, False])
async def test_rapid_resets_hold_up_nobody_and_leave_nothing(
    server: Server, neighbour: Raw, name: str, with_request: bool
) -> None:
    async with asyncio.timeout(60):
        await rapid_reset(server, name, with_request=with_request)
        await server.until_rpcs("ReceiveMessage", 0, 10)
        grown_mib = [LEAK_MIB]
        while grown_mib[-1] >= LEAK_MIB:  # one flood may reach a new peak; a leak grows with each
            assert len(grown_mib) < 4, grown_mib
            before_mib = server.rss_mib()
            await rapid_reset(server, name, with_request=with_request)
            await served(neighbour)
            await server.until_rpcs("ReceiveMessage", 0, 10)
            grown_mib.append(server.rss_mib() - before_mib)


async def test_thousand_pings_hold_up_nobody(server: Server, neighbour: Raw) -> None:
    async with connect(server.endpoint) as connection:
        await connection.ping(1_000)
        await connection.until(lambda it: it.pongs == 1_000)
        assert connection.pongs == 1_000 or connection.goaway_code is not None
        await served(neighbour)


async def test_client_that_pings_often_without_calls_is_not_sent_away(
    server: Server, name: str
) -> None:
    async with connect(server.endpoint) as connection:
        for _ in range(30):
            await connection.ping()
            await asyncio.sleep(0.1)
        assert connection.goaway_code is None
        assert connection.pongs == 30
        stream = await connection.call(headers("SendMessage"), frame(send(name, b"x")))
        assert stored(stream)


async def test_changes_of_settings_are_acknowledged(server: Server, name: str) -> None:
    async with connect(server.endpoint) as connection:
        for window_bytes in (1, 1 << 20, 0, 65_535):
            await connection.settings({SettingCodes.INITIAL_WINDOW_SIZE: window_bytes})
        await connection.until(lambda it: it.settings_acks == 5)
        stream = await connection.call(headers("SendMessage"), frame(send(name, b"x")))
        assert stored(stream)
