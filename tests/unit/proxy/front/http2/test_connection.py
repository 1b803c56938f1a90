"""One HTTP/2 connection, byte by byte: what the application sees, and what the client gets."""

import asyncio
import socket
from typing import Any

import pytest
from harness.http2 import Client, shared, turns
from hpack import Encoder

from popmq_proxy.front.events import Event, Receive, Send
from popmq_proxy.front.http2 import wire
from popmq_proxy.front.http2.budgets.scheduler import TURN_S, ConnectionWorker, Use
from popmq_proxy.front.http2.connection import LINGER_BYTES
from popmq_proxy.front.http2.hung_up import CLOSED_BY_PEER
from popmq_proxy.front.http2.wire import Error, Setting

START: Event = {"type": "http.response.start", "status": 200, "headers": [], "trailers": True}
END: Event = {"type": "http.response.trailers", "headers": [(b"grpc-status", b"0")]}


def fields(path: str = "/s/m") -> list[tuple[str, str]]:
    named = [(":method", "POST"), (":scheme", "http"), (":path", path)]
    return [*named, ("content-type", "application/grpc")]


class Twice:
    """An application that answers with what it got, twice."""

    def __init__(self) -> None:
        self.needs_reader = frozenset({"/s/poll"})
        self.requests: list[bytes] = []
        self.cancelled = 0

    async def __call__(self, scope: Event, receive: Receive, send: Send) -> None:
        try:
            body, more = b"", True
            while more:
                event = await receive()
                body, more = body + event["body"], event["more_body"]
            self.requests.append(body)
            if body == b"wait":
                await asyncio.sleep(3_600)
            await send(START)
            await send({"type": "http.response.body", "body": body * 2, "more_body": False})
            await send(END)
        except asyncio.CancelledError:
            self.cancelled += 1


class Serving(Client):
    """A connection with such an application."""

    def __init__(self, **limits: Any) -> None:
        self.app = Twice()
        self.among = shared(**limits)
        super().__init__(self.app, self.among)
        self.encoder = Encoder()

    def head(self, stream_id: int, flags: int = wire.END_HEADERS, path: str = "/s/m") -> bytes:
        return wire.frame(wire.HEADERS, flags, stream_id, self.encoder.encode(fields(path)))

    def request(self, stream_id: int, body: bytes, path: str = "/s/m") -> bytes:
        end = wire.frame(wire.DATA, wire.END_STREAM, stream_id, body)
        return self.head(stream_id, path=path) + end


def answered(frames: list[tuple[int, int, bytes]]) -> bytes:
    """The body of a whole answer."""
    assert [kind for kind, _, _ in frames if kind != wire.DATA] == [wire.HEADERS] * 2
    assert frames[-1][1] & wire.END_STREAM
    return b"".join(payload for kind, _, payload in frames if kind == wire.DATA)


@pytest.mark.parametrize("step", [1, 7, 1_000, 1 << 20])
async def test_however_the_bytes_are_cut(step: int) -> None:
    serving = Serving()
    body = bytes(range(256)) * 40
    data = wire.PREFACE + wire.settings({}) + serving.request(1, body) + serving.request(3, b"x")
    for at in range(0, len(data), step):
        serving.connection.data_received(data[at : at + step])
    await serving.give(b"")
    frames = serving.transport.written
    assert answered(serving.frames(1)) == body * 2
    serving.transport.written = frames
    assert answered(serving.frames(3)) == b"xx"
    assert not serving.connection.streams.open


async def test_padding_and_priority_are_no_part_of_it() -> None:
    serving = Serving()
    block = serving.encoder.encode(fields())
    flags = wire.END_HEADERS | wire.PADDED | wire.HAS_PRIORITY
    head = wire.frame(wire.HEADERS, flags, 1, b"\x03" + bytes(5) + block + bytes(3))
    data = wire.frame(wire.DATA, wire.END_STREAM | wire.PADDED, 1, b"\x02abc" + bytes(2))
    await serving.give(wire.PREFACE + wire.settings({}) + head + data)
    assert serving.app.requests == [b"abc"]


async def test_an_answer_waits_for_the_clients_window() -> None:
    serving = Serving()
    small = wire.settings({Setting.INITIAL_WINDOW_SIZE: 5})
    await serving.give(wire.PREFACE + small + serving.request(1, b"abcd"))
    frames = serving.frames(1)
    assert [kind for kind, _, _ in frames] == [wire.HEADERS, wire.DATA]
    assert frames[-1][2] == b"abcda"
    await serving.give(wire.window_update(1, 2))
    assert serving.frames(1) == [(wire.DATA, 0, b"bc")]
    await serving.give(wire.window_update(1, 100))
    assert [kind for kind, _, _ in serving.frames(1)] == [wire.DATA, wire.HEADERS]
    assert not serving.connection.streams.open


async def test_a_large_request_is_let_in_as_it_is_taken() -> None:
    serving = Serving(stream_window_bytes=100, connection_window_bytes=70_000)
    await serving.give(wire.PREFACE + wire.settings({}) + serving.head(1))
    for _ in range(5):
        await serving.give(wire.frame(wire.DATA, 0, 1, bytes(60)))
    grown = [wire.NUMBER.unpack(payload)[0] for _, _, payload in serving.frames(1)]
    assert grown == [60] * 5
    await serving.give(wire.frame(wire.DATA, 0, 1, bytes(101)))
    assert serving.transport.closed, "more than the window"


class HungUp:
    """The socket of a client that has closed its end."""

    def getsockopt(self, level: int, name: int, size: int) -> bytes:
        assert (level, name, size) == (socket.IPPROTO_TCP, socket.TCP_INFO, 1)
        return bytes([CLOSED_BY_PEER])


@pytest.mark.parametrize(("hung_up", "begun"), [(False, 40), (True, 0)])
async def test_polls_of_a_client_that_has_hung_up_do_not_begin(hung_up: bool, begun: int) -> None:
    """What it has sent is all that others leave for a later turn."""
    serving = Serving()
    await serving.give(wire.PREFACE + wire.settings({}))
    if hung_up:
        serving.transport.extra["socket"] = HungUp()
    serving.among.scheduler.charge(ConnectionWorker(print, print, Use()), 0.0, TURN_S)
    calls = [serving.request(1 + 4 * i, b"poll", "/s/poll") for i in range(40)]
    calls += [serving.request(203 + 4 * i, b"send") for i in range(40)]
    await serving.give(b"".join(calls))
    await turns(100)
    assert serving.app.requests.count(b"poll") == begun
    assert serving.app.requests.count(b"send") == 40


@pytest.mark.parametrize("how", ["reset", "lost"])
async def test_a_client_that_is_gone_ends_its_calls(how: str) -> None:
    serving = Serving()
    await serving.give(wire.PREFACE + wire.settings({}) + serving.request(1, b"wait"))
    if how == "reset":
        await serving.give(wire.reset(1, Error.CANCEL))
    else:
        serving.connection.connection_lost(None)
        await serving.give(b"")
    assert serving.app.cancelled == 1
    assert serving.ended == (how == "lost")
    assert not serving.connection.streams.open


async def test_draining_lets_calls_finish_and_takes_no_new_ones() -> None:
    serving = Serving()
    await serving.give(wire.PREFACE + wire.settings({}) + serving.head(1))
    serving.connection.drain()
    await serving.give(serving.request(3, b"new") + wire.frame(wire.DATA, wire.END_STREAM, 1, b"a"))
    assert serving.app.requests == [b"a"]
    assert serving.transport.closed
    written = serving.transport.written
    assert serving.frames(3) == [(wire.RST_STREAM, 0, wire.NUMBER.pack(Error.REFUSED_STREAM))]
    serving.transport.written = written
    assert answered(serving.frames(1)) == b"aa"


async def test_the_end_of_a_client_that_has_hung_up_is_quiet() -> None:
    """The system knows that it has, the loop does not yet."""
    serving = Serving()
    await serving.give(wire.PREFACE + wire.settings({}))
    serving.transport.hung_up = True
    serving.connection.drain()
    assert serving.transport.closed


async def test_who_goes_on_sending_when_it_was_sent_away_is_cut_off() -> None:
    """Else it would have a second for that. A little is taken: it is to read why it has to go."""
    serving = Serving()
    await serving.give(wire.PREFACE + wire.settings({}) + wire.window_update(0, 0))
    await serving.give(bytes(LINGER_BYTES))
    assert (serving.transport.closed, serving.transport.aborted) == (True, False)
    await serving.give(b"x")
    assert serving.transport.aborted


@pytest.mark.parametrize(
    "wrong",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        wire.PREFACE + wire.frame(wire.DATA, 0, 1, b"x"),
        wire.PREFACE + wire.frame(wire.HEADERS, wire.END_HEADERS, 2, b""),
        wire.PREFACE + wire.frame(wire.CONTINUATION, wire.END_HEADERS, 1, b""),
        wire.PREFACE + wire.frame(wire.PUSH_PROMISE, 0, 1, bytes(4)),
        wire.PREFACE + wire.frame(wire.PING, 0, 0, b"short"),
        wire.PREFACE + wire.frame(wire.SETTINGS, 0, 0, b"odd"),
        wire.PREFACE + wire.window_update(0, 0),
        wire.PREFACE + wire.window_update(0, wire.WINDOW_MAX),
        wire.PREFACE + wire.frame(wire.DATA, 0, 1, bytes(300_000)),
        wire.PREFACE + wire.reset(7, Error.CANCEL),
        wire.PREFACE + wire.frame(wire.HEADERS, 0, 1, b"\x82") + wire.frame(wire.SETTINGS, 0, 0),
    ],
)
async def test_who_breaks_the_rules_is_told_and_disconnected(wrong: bytes) -> None:
    serving = Serving()
    await serving.give(wrong)
    assert serving.transport.closed
    last = serving.frames(0)[-1]
    assert last[0] == wire.GOAWAY
    assert wire.NUMBER.unpack_from(last[2], 4)[0] != Error.NO_ERROR
