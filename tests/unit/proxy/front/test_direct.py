"""RPCs without a task: begun when the request is whole, answered when somebody tells."""

import asyncio

import pytest
from hpack import Encoder

from popmq_proxy.front.direct import Caller
from popmq_proxy.front.events import Event, Receive, Send
from popmq_proxy.front.grpc_wire import framed
from popmq_proxy.front.http2 import wire
from popmq_proxy.front.http2.connection import Connection, Limits
from popmq_proxy.front.http2.held import HELD_MAX
from popmq_proxy.front.http2.wire import Setting

HEADERS = [(":method", "POST"), (":path", "/s/m"), ("content-type", "application/grpc")]
REQUEST = framed([b"request"])


class Written:
    """The client's end: frames as (type, stream, payload)."""

    def __init__(self) -> None:
        self._data = b""

    def set_write_buffer_limits(self, high: int) -> None: ...

    def write(self, data: bytes) -> None:
        self._data += data

    def is_closing(self) -> bool:
        return False

    def frames(self) -> list[tuple[int, int, bytes]]:
        """Since the last call, without settings and windows."""
        found, at = [], 0
        while at < len(self._data):
            high, low, kind, _, number = wire.HEAD.unpack_from(self._data, at)
            end = at + wire.HEAD_BYTES + (high << 8 | low)
            if kind in (wire.HEADERS, wire.DATA):
                found.append((kind, number, self._data[at + wire.HEAD_BYTES : end]))
            at = end
        self._data = b""
        return found


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
        self.direct = Begun()
        self.called: list[bytes] = []

    async def __call__(self, scope: Event, receive: Receive, send: Send) -> None:
        body, more = b"", True
        while more:
            event = await receive()
            body, more = body + event.get("body", b""), event.get("more_body", False)
        self.called.append(body)


class Served:
    def __init__(self, stream_window: int = wire.WINDOW_DEFAULT) -> None:
        self.app, self.written = App(), Written()
        self.connection = Connection(self.app, Limits(), ("1.2.3.4", 5), lambda _: None)
        self.connection.connection_made(self.written)  # type: ignore[arg-type]
        self.connection.data_received(
            wire.PREFACE + wire.settings({Setting.INITIAL_WINDOW_SIZE: stream_window})
        )

    def head(self, stream_id: int) -> bytes:
        return wire.frame(wire.HEADERS, wire.END_HEADERS, stream_id, Encoder().encode(HEADERS))

    async def give(self, *data: bytes) -> None:
        for piece in data:
            self.connection.data_received(piece)
        for _ in range(8):
            await asyncio.sleep(0)


def data(stream_id: int, body: bytes, *, end: bool) -> bytes:
    return wire.frame(wire.DATA, wire.END_STREAM if end else 0, stream_id, body)


async def test_a_request_in_pieces_is_begun_once_and_answered_later() -> None:
    served = Served()
    await served.give(served.head(1), data(1, REQUEST[:6], end=False))
    assert served.app.direct.calls == []
    await served.give(data(1, REQUEST[6:], end=True))
    ((body, caller),) = served.app.direct.calls
    assert (body, served.app.called) == (REQUEST, [])
    caller.answer(b"response")
    await served.give()
    frames = served.written.frames()
    assert [(kind, number) for kind, number, _ in frames] == [
        (wire.HEADERS, 1),
        (wire.DATA, 1),
        (wire.HEADERS, 1),
    ]
    assert frames[1][2] == framed([b"response"])
    assert not served.connection.streams


async def test_what_cannot_be_begun_goes_the_long_way_whole() -> None:
    served = Served()
    served.app.direct.takes = False
    await served.give(served.head(1), data(1, REQUEST, end=True))
    assert served.app.called == [REQUEST]


async def test_what_was_begun_can_still_go_the_long_way() -> None:
    served = Served()
    await served.give(served.head(1), data(1, REQUEST, end=True))
    served.app.direct.calls[0][1].begin_task()
    await served.give()
    assert served.app.called == [REQUEST]


@pytest.mark.parametrize("first", [b"\0", b"\1" + REQUEST[1:6], b"\0\x7f\xff\xff\xff"])
async def test_what_will_not_be_whole_soon_is_not_held(first: bytes) -> None:
    served = Served()
    await served.give(served.head(1), data(1, first, end=False), data(1, b"rest", end=True))
    assert served.app.direct.calls == []
    assert served.app.called == [first + b"rest"]


async def test_no_more_requests_are_held_than_the_bound() -> None:
    served = Served()
    ids = range(1, 2 * HELD_MAX + 3, 2)
    await served.give(*(served.head(i) for i in ids))
    await served.give(*(data(i, REQUEST, end=True) for i in ids))
    assert (len(served.app.direct.calls), len(served.app.called)) == (HELD_MAX, 1)
    reset = [wire.reset(i, wire.Error.CANCEL) for i in ids]
    await served.give(*reset)
    await served.give(served.head(501), data(501, REQUEST, end=True))
    assert len(served.app.direct.calls) == HELD_MAX + 1, "there is room again"


async def test_an_answer_waits_for_the_clients_window() -> None:
    served = Served(stream_window=7)
    await served.give(served.head(1), data(1, REQUEST, end=True))
    served.app.direct.calls[0][1].answer(b"response")
    await served.give()
    assert [kind for kind, _, _ in served.written.frames()] == [wire.HEADERS, wire.DATA]
    await served.give(wire.window_update(1, 100))
    assert [kind for kind, _, _ in served.written.frames()] == [wire.DATA, wire.HEADERS]
    assert not served.connection.streams


async def test_a_client_that_is_gone_is_marked() -> None:
    served = Served()
    await served.give(served.head(1), data(1, REQUEST, end=True))
    await served.give(wire.reset(1, wire.Error.CANCEL))
    assert served.app.direct.calls[0][1].closed
    assert not served.connection.streams
