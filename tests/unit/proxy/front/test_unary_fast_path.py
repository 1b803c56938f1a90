"""RPCs without a task: begun when the request is whole, answered when somebody tells."""

import asyncio
from typing import Any, cast

import pytest
from harness.http2 import Client, shared
from hpack import Encoder

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq_common.process import logs
from popmq_proxy.front.events import Event, Receive, Send
from popmq_proxy.front.grpc_wire import framed
from popmq_proxy.front.http2 import wire
from popmq_proxy.front.http2.wire import Setting
from popmq_proxy.front.request_handler import RequestHandler
from popmq_proxy.front.rpcs import Rpc, RpcKind
from popmq_proxy.front.unary_fast_path import Caller
from popmq_proxy.metrics import RpcStats
from popmq_proxy.rpc.shared.context import CallContext

HEADERS = [
    (":method", "POST"),
    (":scheme", "http"),
    (":path", "/s/m"),
    ("content-type", "application/grpc"),
]
REQUEST = framed([b"request"])


class Begun:
    """Begins what it may."""

    rpcs = frozenset({"/s/m"})

    def __init__(self) -> None:
        self.takes = True
        self.calls: list[tuple[bytes, Caller]] = []

    def begin(self, scope: Event, body: bytes, caller: Caller) -> bool:
        if self.takes:
            self.calls.append((body, caller))
        return self.takes


class App:
    """What it is called for, because it was not begun, it remembers."""

    def __init__(self) -> None:
        self.fast_path = Begun()
        self.called: list[bytes] = []

    async def __call__(self, scope: Event, receive: Receive, send: Send) -> None:
        body, more = b"", True
        while more:
            event = await receive()
            body, more = body + event.get("body", b""), event.get("more_body", False)
        self.called.append(body)


class Served(Client):
    def __init__(self, stream_window: int = wire.WINDOW_DEFAULT) -> None:
        self.app = App()
        super().__init__(self.app, shared())
        settings = wire.settings({Setting.INITIAL_WINDOW_SIZE: stream_window})
        self.connection.data_received(wire.PREFACE + settings)

    def head(self, stream_id: int) -> bytes:
        return wire.frame(wire.HEADERS, wire.END_HEADERS, stream_id, Encoder().encode(HEADERS))

    def answers(self) -> list[tuple[int, int, bytes]]:
        """(type, stream, payload) of what the client gets of calls, since the last look."""
        kinds = wire.HEADERS, wire.DATA
        frames = self.transport.take()
        return [(kind, number, data) for kind, _, number, data in frames if kind in kinds]


def data(stream_id: int, body: bytes, *, end: bool) -> bytes:
    return wire.frame(wire.DATA, wire.END_STREAM if end else 0, stream_id, body)


async def test_a_request_in_pieces_is_begun_once_and_answered_later() -> None:
    served = Served()
    await served.give(served.head(1), data(1, REQUEST[:6], end=False))
    assert served.app.fast_path.calls == []
    await served.give(data(1, REQUEST[6:], end=True))
    ((body, caller),) = served.app.fast_path.calls
    assert (body, served.app.called) == (REQUEST, [])
    caller.answer(b"response")
    await served.give()
    frames = served.answers()
    assert [(kind, number) for kind, number, _ in frames] == [
        (wire.HEADERS, 1),
        (wire.DATA, 1),
        (wire.HEADERS, 1),
    ]
    assert frames[1][2] == framed([b"response"])
    assert not served.connection.streams.open


async def test_what_cannot_be_begun_goes_the_long_way_whole() -> None:
    served = Served()
    served.app.fast_path.takes = False
    await served.give(served.head(1), data(1, REQUEST, end=True))
    assert served.app.called == [REQUEST]


async def test_what_was_begun_can_still_go_the_long_way() -> None:
    served = Served()
    await served.give(served.head(1), data(1, REQUEST, end=True))
    served.app.fast_path.calls[0][1].begin_task()
    await served.give()
    assert served.app.called == [REQUEST]


@pytest.mark.parametrize("first", [b"\0\x7f\xff\xff\xff", b"\1\x7f\xff\xff\xff"])
async def test_what_will_not_be_whole_soon_is_not_held(first: bytes) -> None:
    served = Served()
    await served.give(served.head(1), data(1, first, end=False), data(1, b"rest", end=True))
    assert served.app.fast_path.calls == []
    assert served.app.called == [first + b"rest"]


async def test_a_request_byte_by_byte_is_begun_when_it_is_whole() -> None:
    served = Served()
    pieces = [
        data(1, REQUEST[at : at + 1], end=at == len(REQUEST) - 1) for at in range(len(REQUEST))
    ]
    await served.give(served.head(1), *pieces[:-1])
    assert served.app.fast_path.calls == []
    await served.give(pieces[-1])
    assert [body for body, _ in served.app.fast_path.calls] == [REQUEST]


async def test_an_answer_waits_for_the_clients_window() -> None:
    served = Served(stream_window=7)
    await served.give(served.head(1), data(1, REQUEST, end=True))
    served.app.fast_path.calls[0][1].answer(b"response")
    await served.give()
    assert [kind for kind, _, _ in served.answers()] == [wire.HEADERS, wire.DATA]
    await served.give(wire.window_update(1, 100))
    assert [kind for kind, _, _ in served.answers()] == [wire.DATA, wire.HEADERS]
    assert not served.connection.streams.open


async def test_a_client_that_is_gone_is_marked() -> None:
    served = Served()
    await served.give(served.head(1), data(1, REQUEST, end=True))
    await served.give(wire.reset(1, wire.Error.CANCEL))
    assert served.app.fast_path.calls[0][1].closed
    assert not served.connection.streams.open


class Stats:
    """What is begun less what is undone or ended."""

    under_way = 0

    def begin(self) -> float:
        self.under_way += 1
        return 0.0

    def undo(self) -> None:
        self.under_way -= 1

    def end(self, began_s: float, code: int | None) -> None:
        self.under_way -= 1


@pytest.mark.parametrize("later", [False, True])
async def test_what_is_declined_goes_on_from_where_it_was(later: bool) -> None:
    decoded: list[bytes] = []
    handled: list[Any] = []
    stats = Stats()

    def decode(data: bytes) -> bytes:
        decoded.append(data)
        return data

    def begin(context: Any, request: Any, on_reply: Any) -> Any:
        if not later:
            return "plan"
        asyncio.get_running_loop().call_soon(on_reply, None, "plan")
        return None

    async def handler(context: CallContext, request: Any) -> service.SendMessageResponse:
        handled.append((context.client_id, request))
        return service.SendMessageResponse(status=v2.Status(code=v2.OK))

    rpc = Rpc("s", "m", RpcKind.UNARY, decode, handler, begin, cast(RpcStats, stats))
    among = shared()
    app = RequestHandler([rpc], logs.get("test"), among.budgets, request_bytes_max=1_000)
    client = Client(app, among)
    headers = [*HEADERS, ("te", "trailers"), ("x-mq-client-id", "c")]
    head = wire.frame(wire.HEADERS, wire.END_HEADERS, 1, Encoder().encode(headers))
    await client.give(wire.PREFACE + wire.settings({}), head, data(1, REQUEST, end=True))
    assert (decoded, handled) == ([b"request"], [("c", "plan")])
    assert [kind for kind, _, _ in client.frames(1)] == [wire.HEADERS, wire.DATA, wire.HEADERS]
    assert (stats.under_way, among.budgets.calls.taken, among.budgets.request_buffer.taken) == (
        0,
        0,
        0,
    )
