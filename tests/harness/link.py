"""Both ends of a link for tests: a server, a client, and peers that do what they like."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol

from popmq_broker.rpc.link import HandleSends, LinkServer
from popmq_common.errors import PopMQError
from popmq_common.link.frames import LENGTH, encode_frame
from popmq_common.link.sends import SendCall, SendDone
from popmq_common.link.wire import failure_of
from popmq_common.process import logs
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.clients.brokers import LinkBrokers

Handle = Callable[[link.Call], Awaitable[link.Reply]]
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
SEND = link.Call(send=link.Send())
LOG = logs.get("test")


class HasPort(Protocol):
    """Something whose link listens on this machine."""

    @property
    def port(self) -> int: ...


async def done(call: link.Call) -> link.Reply:
    return link.Reply(done=link.Done())


def one_by_one(handle: Handle) -> HandleSends:
    """The sends of a frame, each by `handle` in a task of its own."""
    tasks: set[asyncio.Task[None]] = set()

    async def serve(call: link.Call, answer: Callable[[link.Reply | SendDone], None]) -> None:
        try:
            reply = await handle(call)
        except PopMQError as error:
            reply = link.Reply(failure=failure_of(error))
        reply.id = call.id
        answer(reply)

    def handle_sends(
        calls: Sequence[link.Call | SendCall], answer: Callable[[link.Reply | SendDone], None]
    ) -> None:
        for call in calls:
            assert isinstance(call, link.Call)
            task = asyncio.ensure_future(serve(call, answer))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    return handle_sends


def at(port: int, tls: ssl.SSLContext | None = None, *, secret: bytes = b"") -> LinkBrokers:
    async def address(broker: str) -> str:
        return f"127.0.0.1:{port}"

    return LinkBrokers(address, secret, tls)


@asynccontextmanager
async def serving(handle: Handle) -> AsyncIterator[tuple[LinkServer, LinkBrokers]]:
    server = LinkServer(handle, one_by_one(handle), name="b", secret=b"", log=LOG)
    await server.start("127.0.0.1", 0)
    brokers = at(server.port)
    try:
        yield server, brokers
    finally:
        await brokers.close()
        await server.stop()


@asynccontextmanager
async def talking(talk: Talk) -> AsyncIterator[LinkBrokers]:
    """A broker that does what it likes, once it has greeted."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await read_frame(reader)
            writer.write(encode_frame(link.Frame(hello=link.Hello(name="b"))))
            await talk(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    brokers = at(server.sockets[0].getsockname()[1])
    try:
        yield brokers
    finally:
        await brokers.close()
        server.close()


async def read_frame(reader: asyncio.StreamReader) -> link.Frame | None:
    """None at the end of the stream."""
    try:
        (size,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
        return link.Frame.FromString(await reader.readexactly(size))
    except (asyncio.IncompleteReadError, OSError):
        return None


async def next_call(reader: asyncio.StreamReader) -> link.Call:
    frame = await read_frame(reader)
    assert frame is not None
    (call,) = frame.calls
    return call


@asynccontextmanager
async def raw(server: HasPort) -> AsyncIterator[tuple[asyncio.StreamReader, Any]]:
    """A proxy that has been greeted, frame by frame."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        writer.write(encode_frame(link.Frame(hello=link.Hello())))
        assert await read_frame(reader) is not None
        yield reader, writer
    finally:
        writer.close()


def sends(*ids: int) -> bytes:
    return encode_frame(link.Frame(calls=[link.Call(id=i, send=link.Send()) for i in ids]))
