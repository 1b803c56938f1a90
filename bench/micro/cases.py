"""What is measured: a case takes bytes as they come from a socket, makes those that go to one.

A case is made once; `round` does some hundred messages and gives the CPU time of one of them.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any, Protocol

from micro import client, sdk
from micro.ends import StoringBroker, Wire
from micro.instructions import mark
from popmq_broker.app import open_engine
from popmq_broker.config import BrokerConfig
from popmq_broker.engine.broker import Broker
from popmq_broker.engine.catalog.topics import Announced
from popmq_broker.rpc.link import LinkConnection as BrokerConnection
from popmq_common.link.frames import FrameConnection, encode_frame
from popmq_common.process import logs
from popmq_common.process.clock import SystemClock
from popmq_internal.v1 import link_pb2 as link
from popmq_internal.v1 import nameserver_pb2 as ns
from popmq_proxy.app import application, handlers
from popmq_proxy.clients.broker_link import BrokerLink
from popmq_proxy.clients.brokers import Brokers, LinkBrokers
from popmq_proxy.clients.local_brokers import LocalBroker, LocalBrokers
from popmq_proxy.clients.nameservers import LocalNameservers
from popmq_proxy.config import ProxyConfig
from popmq_proxy.front.http2.budgets.limits import Http2Limits
from popmq_proxy.front.http2.connection import Http2Connection
from popmq_proxy.front.http2.shared import Shared

TOPIC = link.TopicConfig(name="t", read_queues=8, write_queues=8, perm=6, message_type="MIXED")
BROKER = ns.BrokerInfo(name="b", address="127.0.0.1:1")
SEGMENT_BYTES = 64 * 1024 * 1024


class Case(Protocol):
    async def round(self, count: int) -> float:
        """Microseconds of CPU time of one message, over about `count` messages."""
        ...


class Front:
    """One client's connection; `ask` feeds requests and returns when all are answered."""

    def __init__(self, app: Any) -> None:
        self.client = client.Client()
        self.answers: list[bytes] = []
        self.keep = False
        self._loop = asyncio.get_running_loop()
        self._idle: asyncio.Future[None] | None = None
        self._connection = _connection(app)
        self._connection.connection_made(Wire(self._written))
        self._connection.data_received(self.client.greeting())

    def _written(self, data: bytes) -> None:
        if self.keep:
            self.answers.append(data)
        if self._connection.streams.open:  # a large answer leaves before its stream has ended
            self._loop.call_soon(self._look)
        else:
            self._look()

    def _look(self) -> None:
        is_idle = not self._connection.streams.open
        if is_idle and self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    async def ask(self, data: bytes) -> None:
        self._idle = self._loop.create_future()
        self._connection.data_received(data)
        await self._idle


def _connection(app: Any) -> Http2Connection:
    """Alone in its server."""
    peer = ("192.0.2.7", 4711)
    shared = Shared(Http2Limits(), app.budgets, connections_max=1)
    address = shared.join(peer[0])
    assert address is not None
    return Http2Connection(app, shared, address, peer, lambda _: None)


class Sending:
    """SendMessage of `each` messages, `at_once` of them in each piece read from the socket."""

    def __init__(self, front: Front, each: int, at_once: int, *, with_keys: bool = False) -> None:
        self._front, self._each, self._at_once = front, each, at_once
        self._with_keys = with_keys

    async def round(self, count: int) -> float:
        steps = max(1, count // (self._each * self._at_once))
        made = self._front.client
        pieces = [
            b"".join(
                made.request("SendMessage", client.sends(self._each, with_keys=self._with_keys))
                for _ in range(self._at_once)
            )
            for _ in range(steps)
        ]
        return await _timed(self._front.ask, pieces, steps * self._each * self._at_once)


async def _timed(
    ask: Callable[[bytes], Any], pieces: list[bytes], count: int, *, marked: bool = True
) -> float:
    """`marked`: its instructions can be counted too."""
    if marked:
        mark()
    began_s = time.process_time()
    for piece in pieces:
        await ask(piece)
    took_s = time.process_time() - began_s
    if marked:
        mark()
    return took_s / count * 1e6


class Storing:
    """Frames of the link with sends into a broker: `calls` of `each` messages in a frame."""

    def __init__(self, broker: Broker, calls: int, each: int) -> None:
        self._calls, self._each = calls, each
        self._ids = 0
        self._answered: asyncio.Future[None] | None = None
        self._frames = FrameConnection()
        self._frames.connection_made(Wire(self._written))
        made = BrokerConnection(
            broker.handle, broker.handle_sends, self._frames, "b", logs.get("micro")
        )
        self._frames.data_received(encode_frame(link.Frame(hello=link.Hello())))
        self._serving = asyncio.ensure_future(made.serve())

    def _written(self, data: bytes) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_result(None)

    def _frame(self) -> bytes:
        frame = link.Frame()
        for n in range(self._calls):
            self._ids += 1
            send = link.Send(topic="t", queue_id=(self._ids + n) % 8)
            for _ in range(self._each):
                self._ids += 1  # a repeated one would not be stored
                send.records.add(
                    body=bytes(client.BODY_BYTES),
                    properties=b"UNIQ_KEY\x01%034X\x02__BORNHOST\x01host\x02" % self._ids,
                    born_timestamp_ms=1_700_000_000_123,
                    born_host=bytes((127, 0, 0, 1, 0, 0, 0, 0)),
                )
            frame.calls.add(id=self._ids, send=send)
        return encode_frame(frame)

    async def _ask(self, frame: bytes) -> None:
        self._answered = asyncio.get_running_loop().create_future()
        self._frames.data_received(frame)
        await self._answered

    async def round(self, count: int) -> float:
        steps = max(1, count // (self._calls * self._each))
        frames = [self._frame() for _ in range(steps)]
        await asyncio.sleep(0)
        return await _timed(self._ask, frames, steps * self._calls * self._each)


class Receiving:
    """Receives of 32, or the acks of what was received."""

    def __init__(self, front: Front, *, acks: bool, by_runs: bool = False) -> None:
        """`by_runs`: as the SDK does it; else as official clients do."""
        self._front, self._acks, self._by_runs = front, acks, by_runs

    async def round(self, count: int) -> float:
        steps = max(1, count // 32)
        made, front = self._front.client, self._front
        await front.ask(made.request("ReceiveMessage", client.receive(32)))  # makes the group
        for _ in range(steps):
            await front.ask(made.request("SendMessage", client.sends(32)))
        front.keep, front.answers = True, []
        asks = [self._ask_for_32() for _ in range(steps)]
        received_us = await _timed(front.ask, asks, steps * 32, marked=not self._acks)
        front.keep = False
        acks = self._acks_of(b"".join(front.answers))
        assert len(acks) == steps, (len(acks), steps)
        acked_us = await _timed(front.ask, acks, steps * 32, marked=self._acks)
        return acked_us if self._acks else received_us

    def _ask_for_32(self) -> bytes:
        made, request = self._front.client, client.receive(32)
        if self._by_runs:
            return made.request("ReceiveRecords", request, client.CONSUMER)
        return made.request("ReceiveMessage", request)

    def _acks_of(self, answers: bytes) -> list[bytes]:
        made = self._front.client
        if self._by_runs:
            return [
                made.request("AckRuns", client.ack_runs(part), client.CONSUMER)
                for part in client.handles(answers, 32)
            ]
        return [
            made.request("AckMessage", client.ack(part)) for part in client.batches(answers, 32)
        ]


def _lookup(topic: str) -> list[ns.QueueRoute]:
    return [ns.QueueRoute(broker=BROKER, topic=TOPIC)] if topic == TOPIC.name else []


@asynccontextmanager
async def _front(brokers: Brokers) -> AsyncIterator[Front]:
    config = ProxyConfig(create_topics=True)
    nameservers = LocalNameservers(_lookup, lambda: [BROKER])
    async with handlers(config, SystemClock(), nameservers=nameservers, brokers=brokers) as inner:
        made: Any = application(config, inner)
        # A tree that still has a front inside Envoy makes a context of it.
        async with made if hasattr(made, "__aenter__") else nullcontext(made) as app:
            yield Front(app)


@asynccontextmanager
async def _broker(folder: Path) -> AsyncIterator[Broker]:
    config = BrokerConfig(
        create_groups=True, data_dir=folder, name="b", segment_bytes=SEGMENT_BYTES
    )
    broker = await open_engine(config, SystemClock())
    await broker.handle(link.Call(put_topic=link.PutTopic(topic=TOPIC)))
    assert Announced(broker.state.catalog_state).everything()
    yield broker
    broker.state.runtime.store.abandon()


@asynccontextmanager
async def _proxy(
    folder: Path, each: int, at_once: int, *, with_keys: bool = False
) -> AsyncIterator[Case]:
    """A proxy before a broker that costs nothing."""

    async def nowhere(broker: str) -> str:
        raise AssertionError(broker)

    brokers = LinkBrokers(nowhere, b"")
    frames = FrameConnection()
    far = StoringBroker(frames.data_received)
    frames.connection_made(Wire(far.written))
    frames.data_received(encode_frame(link.Frame(hello=link.Hello(name="b"))))
    brokers._links["b"] = BrokerLink("b", frames)
    async with _front(brokers) as front:
        yield Sending(front, each, at_once, with_keys=with_keys)
        brokers._links.clear()


@asynccontextmanager
async def _stored(folder: Path, calls: int, each: int) -> AsyncIterator[Case]:
    async with _broker(folder) as broker:
        case = Storing(broker, calls, each)
        yield case
        case._serving.cancel()


@asynccontextmanager
async def _standalone(folder: Path, make: Callable[[Front], Case]) -> AsyncIterator[Case]:
    async with AsyncExitStack() as stack:
        broker = await stack.enter_async_context(_broker(folder))
        local = LocalBroker(broker.handle, broker.handle_sends)
        yield make(await stack.enter_async_context(_front(LocalBrokers({"b": local}))))


CASES: dict[str, Callable[[Path], AbstractAsyncContextManager[Case]]] = {
    "proxy, send 1": lambda folder: _proxy(folder, 1, 16),
    "proxy, send 32": lambda folder: _proxy(folder, 32, 2),
    "proxy, send 1 with keys": lambda folder: _proxy(folder, 1, 16, with_keys=True),
    "proxy, send 32 with keys": lambda folder: _proxy(folder, 32, 2, with_keys=True),
    "broker, send 1": lambda folder: _stored(folder, 32, 1),
    "broker, send 32": lambda folder: _stored(folder, 2, 32),
    "standalone, send 1": lambda folder: _standalone(folder, lambda f: Sending(f, 1, 32)),
    "standalone, send 32": lambda folder: _standalone(folder, lambda f: Sending(f, 32, 2)),
    "standalone, receive 32": lambda folder: _standalone(
        folder, lambda f: Receiving(f, acks=False)
    ),
    "standalone, ack 32": lambda folder: _standalone(folder, lambda f: Receiving(f, acks=True)),
    "standalone, receive 32 records": lambda folder: _standalone(
        folder, lambda f: Receiving(f, acks=False, by_runs=True)
    ),
    "standalone, ack 32 by runs": lambda folder: _standalone(
        folder, lambda f: Receiving(f, acks=True, by_runs=True)
    ),
    "sdk, send": lambda folder: sdk.connected(folder, sdk.send),
    "sdk, send_many": lambda folder: sdk.connected(folder, sdk.send_many),
    "sdk, handler": lambda folder: sdk.connected(folder, sdk.handle),
    "sdk, receive and ack": lambda folder: sdk.connected(folder, sdk.receive_and_ack),
}
