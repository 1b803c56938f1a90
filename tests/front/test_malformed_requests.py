"""What does a client get that speaks HTTP/2 or gRPC wrongly? A status; and nobody else is hurt.

The grpcio library takes some things easier or harder than this asks for, see `BY_GRPCIO`.
"""

import asyncio

import pytest
from front.conftest import served
from front.h2_client import connect
from front.payloads import publisher, send, stored
from front.server import Server
from front.stream import Stream
from front.wire import frame, headers
from integration.conftest import Raw

OK, UNKNOWN, INVALID_ARGUMENT, DEADLINE_EXCEEDED = 0, 2, 3, 4
RESOURCE_EXHAUSTED, UNIMPLEMENTED, INTERNAL = 8, 12, 13
UNREADABLE = (INVALID_ARGUMENT, INTERNAL)
GIB = 1 << 30
BY_GRPCIO = {
    "half a message": (DEADLINE_EXCEEDED,),  # it waits for the rest, though none can come
    "half a telemetry message": (OK,),
    "unknown flag": (DEADLINE_EXCEEDED, OK),  # OK: it was taken for an empty message
    "no protobuf": (UNKNOWN,),
}
"""What it answers where we would say INTERNAL; what it leaves waiting has a deadline here."""

DEADLINE = headers("SendMessage", grpc_timeout="500m")

pytestmark = pytest.mark.usefixtures("neighbour")


def unreadable(server: Server, stream: Stream, case: str) -> bool:
    others = BY_GRPCIO[case] if server.front == "grpcio" else ()
    return stream.grpc_status in (*UNREADABLE, *others)


def refused(stream: Stream) -> bool:
    """By HTTP, by gRPC, by a reset or by the end of the connection."""
    by_grpc = stream.grpc_status not in (None, OK)
    by_reset = stream.reset_code is not None or stream.lost
    return stream.http_status >= 400 or by_grpc or by_reset


async def test_half_a_frame_and_the_end(server: Server, name: str) -> None:
    half = frame(send(name, b"x" * 100))[:60]
    async with connect(server.endpoint) as connection:
        stream = await connection.call(DEADLINE, half)
        assert unreadable(server, stream, "half a message")
        after = await connection.call("SendMessage", frame(send(name, b"x")))
        assert stored(after), "the connection goes on"


async def test_half_a_prefix_and_the_end(server: Server) -> None:
    async with connect(server.endpoint) as connection:
        stream = await connection.call(DEADLINE, b"\0\0\0")
        assert unreadable(server, stream, "half a message")


async def test_half_a_frame_and_silence(server: Server, neighbour: Raw, name: str) -> None:
    async with connect(server.endpoint) as connection:
        streams = [await connection.open("SendMessage") for _ in range(100)]
        for stream in streams:
            await connection.send(stream, frame(send(name, b"x" * 100))[:60])
        await served(neighbour)
        other = await connection.call("SendMessage", frame(send(name, b"x")))
        assert stored(other), "nor does the same connection wait"
        assert not any(stream.ended.is_set() for stream in streams)


@pytest.mark.parametrize("length_bytes", [GIB, (1 << 32) - 1])
async def test_declared_length_beyond_the_limit(
    server: Server, name: str, length_bytes: int
) -> None:
    await refuse_long(server, length_bytes)
    before_mib = server.rss_mib()
    for _ in range(20):
        await refuse_long(server, length_bytes)
    assert server.rss_mib() - before_mib < 20


async def refuse_long(server: Server, length_bytes: int) -> None:
    async with connect(server.endpoint) as connection:
        stream = await connection.open("SendMessage")
        await connection.send(stream, frame(b"x" * 1024, length_bytes=length_bytes))
        await stream.end(2)
        assert stream.grpc_status == RESOURCE_EXHAUSTED


@pytest.mark.parametrize("encoding", [None, "identity", "snappy-of-ours"])
async def test_compressed_flag_that_the_encoding_does_not_explain(
    server: Server, name: str, encoding: str | None
) -> None:
    lines = headers("SendMessage", **({} if encoding is None else {"grpc_encoding": encoding}))
    async with connect(server.endpoint) as connection:
        stream = await connection.call(lines, frame(send(name, b"x"), compressed=1))
        assert stream.grpc_status in (INTERNAL, UNIMPLEMENTED)


async def test_gzip_that_is_none(server: Server, name: str) -> None:
    async with connect(server.endpoint) as connection:
        lines = headers("SendMessage", grpc_encoding="gzip")
        stream = await connection.call(lines, frame(send(name, b"x"), compressed=1))
        assert stream.grpc_status in (*UNREADABLE, UNIMPLEMENTED)


async def test_unknown_value_of_the_compressed_flag(server: Server, name: str) -> None:
    async with connect(server.endpoint) as connection:
        stream = await connection.call(DEADLINE, frame(send(name, b"x"), compressed=2))
        assert unreadable(server, stream, "unknown flag")
        assert not stored(stream)


@pytest.mark.parametrize("method", ["SendMessage", "ReceiveMessage", "Telemetry"])
async def test_message_that_is_no_protobuf(server: Server, method: str) -> None:
    async with connect(server.endpoint) as connection:
        stream = await connection.call(method, frame(b"\xff" * 50))
        assert unreadable(server, stream, "no protobuf")


async def test_telemetry_message_that_is_no_protobuf_ends_the_stream(
    server: Server, name: str
) -> None:
    async with connect(server.endpoint) as connection:
        stream = await connection.open("Telemetry")
        await connection.send(stream, frame(publisher(name)))
        assert len(await stream.message(1)) == 1, "the first is answered"
        await connection.send(stream, frame(b"\xff" * 50))  # and the request stays open
        await stream.end()
        assert unreadable(server, stream, "no protobuf")


@pytest.mark.parametrize("method", ["SendMessage", "ReceiveMessage"])
async def test_call_without_a_message(server: Server, method: str) -> None:
    async with connect(server.endpoint) as connection:
        for how in ("end in the headers", "end in empty data"):
            lines = headers(method, grpc_timeout="500m")
            stream = await connection.open(lines, end=how == "end in the headers")
            if how == "end in empty data":
                await connection.send(stream, b"", end=True)
            await stream.end()
            assert stream.grpc_status not in (None, OK), how


@pytest.mark.parametrize("wait_s", [0, 0.2])
async def test_two_messages_where_there_is_to_be_one(
    server: Server, name: str, wait_s: float
) -> None:
    async with connect(server.endpoint) as connection:
        stream = await connection.open("SendMessage")
        await connection.send(stream, frame(send(name, b"1")))
        await asyncio.sleep(wait_s)
        await connection.send(stream, frame(send(name, b"2")), end=True)
        await stream.end()
        assert stored(stream) or stream.grpc_status in UNREADABLE


@pytest.mark.parametrize(
    "path",
    [
        "SendMessages",
        "/apache.rocketmq.v2.Nothing/SendMessage",
        "/apache.rocketmq.v2.MessagingService/",
        "/apache.rocketmq.v2.MessagingService",
        "/",
        "/../../etc/passwd",
        "/" + "x" * 4_000,
    ],
)
async def test_unknown_method_or_service(server: Server, name: str, path: str) -> None:
    async with connect(server.endpoint) as connection:
        stream = await connection.call(path, frame(send(name, b"x")))
        assert stream.grpc_status == UNIMPLEMENTED


@pytest.mark.parametrize("content_type", ["application/json", "text/plain", "", None])
async def test_wrong_content_type(server: Server, name: str, content_type: str | None) -> None:
    drop = ["content-type"] if content_type is None else []
    lines = headers("SendMessage", drop=drop, content_type=content_type or "")
    async with connect(server.endpoint) as connection:
        stream = await connection.call(lines, frame(send(name, b"x")))
        assert refused(stream) or (server.front == "grpcio" and stored(stream))


@pytest.mark.parametrize("content_type", ["application/grpc+proto", "application/grpc;charset=x"])
async def test_content_types_of_grpc(server: Server, name: str, content_type: str) -> None:
    lines = headers("SendMessage", content_type=content_type)
    async with connect(server.endpoint) as connection:
        assert stored(await connection.call(lines, frame(send(name, b"x"))))


@pytest.mark.parametrize("method", ["GET", "PUT", "CONNECT", "BREW"])
async def test_http_method_that_is_not_post(server: Server, name: str, method: str) -> None:
    async with connect(server.endpoint) as connection:
        lines = headers("SendMessage", method=method)
        if method == "GET":
            stream = await (await connection.open(lines, end=True)).end()
        else:
            stream = await connection.call(lines, frame(send(name, b"x")))
        assert refused(stream)


async def test_missing_te_trailers_is_served_or_refused(server: Server, name: str) -> None:
    async with connect(server.endpoint) as connection:
        lines = headers("SendMessage", drop=["te"])
        stream = await connection.call(lines, frame(send(name, b"x")))
        assert stored(stream) or refused(stream)


@pytest.mark.parametrize("timeout", ["", "S", "1", "-1S", "1.5S", "99999999999999S", "1x", "é1S"])
async def test_malformed_timeout(server: Server, name: str, timeout: str) -> None:
    async with connect(server.endpoint) as connection:
        lines = headers("SendMessage", grpc_timeout=timeout)
        stream = await connection.call(lines, frame(send(name, b"x")))
        assert stored(stream) or refused(stream)


@pytest.mark.parametrize("timeout", ["1n", "0n", "0S"])
async def test_timeout_that_has_passed(server: Server, name: str, timeout: str) -> None:
    async with connect(server.endpoint) as connection:
        lines = headers("SendMessage", grpc_timeout=timeout)
        stream = await connection.call(lines, frame(send(name, b"x")))
        cancelled = stream.reset_code is not None and stream.grpc_status is None
        late = server.front == "grpcio" and stored(stream)  # served before grpc looked at the clock
        assert stream.grpc_status == DEADLINE_EXCEEDED or cancelled or late


async def test_telemetry_that_ends_in_half_a_frame(server: Server, name: str) -> None:
    async with connect(server.endpoint) as connection:
        stream = await connection.open("Telemetry")
        await connection.send(stream, frame(publisher(name)))
        assert len(await stream.message(1)) == 1, "the first is answered"
        await connection.send(stream, frame(publisher(name))[:7], end=True)
        await stream.end()
        assert unreadable(server, stream, "half a telemetry message")


@pytest.mark.parametrize(
    "garbage",
    [b"GET / HTTP/1.1\r\nHost: popmq\r\n\r\n", b"\x16\x03\x01" + b"\0" * 200, b"\0" * 4096, b""],
)
async def test_connection_that_is_no_http2(server: Server, garbage: bytes) -> None:
    """Whatever the answer is, it does not matter to others."""
    host, _, port = server.endpoint.rpartition(":")
    for _ in range(20):
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(garbage)
        await writer.drain()
        writer.close()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)
