"""A client of the HTTP/2 front that writes frames by hand, and an application that echoes."""

import asyncio

from harness.http2 import Client
from hpack import Encoder

from popmq_proxy.front.events import Event, Receive, Send
from popmq_proxy.front.http2 import wire
from popmq_proxy.front.http2.open_streams import App
from popmq_proxy.front.http2.shared import Shared

START: Event = {"type": "http.response.start", "status": 200, "headers": [], "trailers": True}
END: Event = {"type": "http.response.trailers", "headers": [(b"grpc-status", b"0")]}
GREETING = wire.PREFACE + wire.settings({})
OTHER_HOST = "5.6.7.8"


async def app(scope: Event, receive: Receive, send: Send) -> None:
    """Answers with the request, or never when that is "wait"."""
    event = await receive()
    while event["more_body"]:
        event = await receive()
    if event["body"] == b"wait":
        await asyncio.sleep(3_600)
    await send(START)
    await send({"type": "http.response.body", "body": event["body"], "more_body": False})
    await send(END)


class Streaming:
    """The same for calls whose messages are served as they come."""

    streaming = frozenset(("/s/m",))

    async def __call__(self, scope: Event, receive: Receive, send: Send) -> None:
        await app(scope, receive, send)


class Caller(Client):
    def __init__(self, among: Shared, host: str = "1.2.3.4", served_by: App = app) -> None:
        super().__init__(served_by, among, host)
        self.encoder = Encoder()

    def head(self, stream_id: int, agent: str = "one") -> bytes:
        fields = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", "/s/m"),
            ("te", "trailers"),
            ("user-agent", agent),
        ]
        return wire.frame(
            wire.HEADERS, wire.END_HEADERS, stream_id, self.encoder.encode(fields, huffman=False)
        )

    def request(self, stream_id: int, body: bytes, agent: str = "one") -> bytes:
        data = wire.frame(wire.DATA, wire.END_STREAM, stream_id, body)
        return self.head(stream_id, agent) + data

    async def is_served(self) -> bool:
        self.transport.take()
        stream_id = self.connection.streams.last_id + 2 | 1
        await self.give(self.request(stream_id, b"hello"))
        return (wire.DATA, 0, b"hello") in self.frames(stream_id)


async def greeted(among: Shared, host: str = "1.2.3.4", served_by: App = app) -> Caller:
    made = Caller(among, host, served_by)
    await made.give(GREETING)
    return made
