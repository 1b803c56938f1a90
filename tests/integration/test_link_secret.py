"""Who does not know the link's secret learns nothing, moves no route, and gets no message."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest
from harness.link import LOG, SEND, Talk, at, done, one_by_one, read_frame

from popmq_broker.rpc.link import LinkServer
from popmq_common.errors import BrokerUnreachable, NotAuthorized
from popmq_common.link.frames import LENGTH, encode_frame
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.clients.brokers import LinkBrokers

SECRET = b"the secret of this cluster"
Answer = Callable[[link.Frame], link.Frame | None]


@asynccontextmanager
async def guarded(secret: bytes = SECRET) -> AsyncIterator[LinkServer]:
    server = LinkServer(done, one_by_one(done), name="b", secret=secret, log=LOG)
    await server.start("127.0.0.1", 0)
    try:
        yield server
    finally:
        await server.stop()


@asynccontextmanager
async def calling(port: int, secret: bytes = SECRET) -> AsyncIterator[LinkBrokers]:
    brokers = at(port, secret=secret)
    try:
        yield brokers
    finally:
        await brokers.close()


class Liar:
    """Listens at a broker's address and does not know the secret; keeps what it is told."""

    def __init__(self, answers: list[Answer]) -> None:
        self._answers = answers
        self.heard = b""

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            for answer in self._answers:
                with suppress(asyncio.IncompleteReadError):
                    head = await reader.readexactly(LENGTH.size)
                    data = await reader.readexactly(LENGTH.unpack(head)[0])
                    self.heard += data
                    answered = answer(link.Frame.FromString(data))
                    if answered is None:
                        return
                    writer.write(encode_frame(answered))
            with suppress(TimeoutError):
                async with asyncio.timeout(0.2):
                    self.heard += await reader.read()
        finally:
            writer.close()


@asynccontextmanager
async def listening(talk: Talk) -> AsyncIterator[int]:
    """The port."""
    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


def greets(**hello: object) -> Answer:
    return lambda _: link.Frame(hello=link.Hello(name="b", **hello))  # type: ignore[arg-type]


def echoes(frame: link.Frame) -> link.Frame:
    """What the proxy said, as if it were an answer."""
    frame.hello.name = "b"
    return frame


@pytest.mark.parametrize(
    "answers",
    [
        [greets()],
        [greets(nonce=bytes(32)), greets()],
        [greets(nonce=bytes(32)), greets(proof=bytes(32))],
        [greets(nonce=bytes(32), proof=bytes(32))],
        [echoes, echoes],
        [greets(nonce=b"short"), greets(proof=bytes(32))],
        [lambda _: None],
    ],
    ids=["says nothing", "no proof", "wrong proof", "at once", "echo", "short nonce", "hangs up"],
)
async def test_a_liar_at_a_brokers_address_gets_neither_secret_nor_calls(
    answers: list[Answer],
) -> None:
    liar = Liar(answers)
    async with listening(liar.talk) as port, calling(port) as brokers:
        with pytest.raises(BrokerUnreachable):
            await brokers.call("b", SEND, 5_000)
        with pytest.raises(BrokerUnreachable):
            await brokers.call("b", link.Call(ping=link.Ping()), 5_000)
    assert liar.heard
    assert SECRET not in liar.heard
    frames = link.Frame.FromString(liar.heard)  # joined frames are one with all their calls
    assert not frames.calls


async def test_who_knows_the_secret_is_served_and_does_not_send_it() -> None:
    """What passes by in a good greeting is seen by one who stands between the two."""
    passed = bytearray()
    async with guarded() as server:

        async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            other = await asyncio.open_connection("127.0.0.1", server.port)
            await asyncio.gather(
                pump(reader, other[1], passed),
                pump(other[0], writer, passed),
                return_exceptions=True,
            )

        async with listening(relay) as port, calling(port) as brokers:
            assert (await brokers.call("b", SEND, 5_000)).HasField("done")
    assert passed
    assert SECRET not in passed


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seen: bytearray) -> None:
    while data := await reader.read(65_536):
        seen += data
        writer.write(data)
    writer.close()


@pytest.mark.parametrize("shown", [b"", b"another secret, as long as it"])
async def test_a_proxy_without_the_secret_is_refused(shown: bytes) -> None:
    async with guarded() as server, calling(server.port, shown) as brokers:
        with pytest.raises((NotAuthorized, BrokerUnreachable)):
            await brokers.call("b", SEND, 5_000)


async def test_a_proxy_with_a_secret_takes_no_broker_without_one() -> None:
    async with guarded(b"") as server, calling(server.port) as brokers:
        with pytest.raises(NotAuthorized):
            await brokers.call("b", SEND, 5_000)


async def refused_after(port: int, hellos: list[link.Hello]) -> bool:
    """Whether the broker hangs up on one that greets like this, and serves none of its calls."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for hello in hellos:
            writer.write(encode_frame(link.Frame(hello=hello)))
            await asyncio.wait_for(read_frame(reader), 5)
        writer.write(encode_frame(link.Frame(calls=[link.Call(id=1, send=link.Send())])))
        frame = await asyncio.wait_for(read_frame(reader), 5)
    finally:
        writer.close()
    return frame is None or all(reply.HasField("failure") for reply in frame.replies)


async def test_a_greeting_that_was_recorded_opens_no_other_connection() -> None:
    said: list[link.Hello] = []
    async with guarded() as server:

        async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            theirs, ours = await asyncio.open_connection("127.0.0.1", server.port)
            while frame := await read_frame(reader):
                if frame.HasField("hello"):
                    said.append(frame.hello)
                ours.write(encode_frame(frame))
                answer = await read_frame(theirs)
                if answer is None:
                    break
                writer.write(encode_frame(answer))
            ours.close()
            writer.close()

        async with listening(relay) as port, calling(port) as brokers:
            assert (await brokers.call("b", SEND, 5_000)).HasField("done")
        assert said
        assert await refused_after(server.port, said)


@pytest.mark.parametrize(
    "hellos",
    [
        [link.Hello()],
        [link.Hello(secret="the secret of this")],
        [link.Hello(nonce=bytes(32))],
        [link.Hello(nonce=bytes(32)), link.Hello()],
        [link.Hello(nonce=bytes(32)), link.Hello(proof=bytes(32))],
        [link.Hello(nonce=b""), link.Hello(proof=bytes(32))],
        [link.Hello(nonce=bytes(1_000)), link.Hello(proof=bytes(32))],
        [link.Hello(proof=bytes(32), name="b")],
    ],
)
async def test_a_peer_that_proves_nothing_is_not_served(hellos: list[link.Hello]) -> None:
    async with guarded() as server:
        assert await refused_after(server.port, hellos)


async def test_a_proxy_of_before_the_proof_is_served_while_proxies_are_upgraded() -> None:
    async with guarded() as server:
        older = link.Hello(secret=SECRET.decode())
        assert not await refused_after(server.port, [older])
