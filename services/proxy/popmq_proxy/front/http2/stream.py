"""One RPC: what the application receives and sends, within what the client lets go."""

import asyncio
from typing import TYPE_CHECKING

from popmq_proxy.front.events import END, START, Event
from popmq_proxy.front.grpc_wire import framed
from popmq_proxy.front.http2 import wire
from popmq_proxy.front.http2.headers import block_of

if TYPE_CHECKING:
    from popmq_proxy.front.http2.connection import Connection

_EMPTY: Event = {"type": "http.request", "body": b"", "more_body": False}
_GONE: Event = {"type": "http.disconnect"}


class ClientDisconnectedError(Exception):
    """The client went before it had its answer."""


class Stream:
    __slots__ = (
        "_body",
        "_came",
        "_connection",
        "_drained",
        "_has_trailers",
        "_start",
        "begun",
        "closed",
        "ended",
        "held_bytes",
        "id",
        "outgoing",
        "owed_bytes",
        "receive_window",
        "scope",
        "send_window",
        "task",
    )

    def __init__(
        self, connection: "Connection", stream_id: int, send_window: int, scope: Event
    ) -> None:
        self.id = stream_id
        self.scope = scope
        self.begun = False
        """Somebody works on it."""
        self.task: asyncio.Task[None] | None = None
        self.ended = False
        """The client has sent its last byte."""
        self.closed = False
        self.send_window = send_window
        self.receive_window = connection.limits.stream_window_bytes
        self.owed_bytes = 0
        """Taken by the application, and not yet given back to the client's window."""
        self.held_bytes = 0
        self.outgoing = bytearray()
        """What the client's window does not let go yet."""
        self._connection = connection
        self._body: list[bytes] = []
        self._came: asyncio.Future[None] | None = None
        self._start: bytes | None = None
        self._has_trailers = False
        self._drained: asyncio.Future[None] | None = None

    def feed(self, data: bytes) -> None:
        self._body.append(data)
        self.held_bytes += len(data)
        self.wake()

    def wake(self) -> None:
        if self._came is not None and not self._came.done():
            self._came.set_result(None)

    async def receive(self) -> Event:
        """What came of the request; after its end, at once, whether the client is there."""
        while not self._body:
            if self.closed:
                return _GONE
            if self.ended:
                return _EMPTY
            self._came = asyncio.get_running_loop().create_future()
            await self._came
        body = self.body()
        self._body = []
        self.release()
        return {"type": "http.request", "body": body, "more_body": not self.ended}

    def body(self) -> bytes:
        """What has come and was not received."""
        if len(self._body) != 1:
            self._body = [b"".join(self._body)]
        return self._body[0]

    def first(self) -> bytes:
        """The first piece of it; nothing is joined for the sake of looking."""
        return self._body[0] if self._body else b""

    def release(self) -> None:
        """What has come takes no more of the client's windows."""
        size, self.held_bytes = self.held_bytes, 0
        if size:
            self._connection.incoming.consumed(self, size)

    def begin_task(self) -> None:
        """Have the application serve it."""
        self.begun = True
        self._connection.run(self, self._connection.app(self.scope, self.receive, self))

    def answer(self, response: bytes) -> None:
        """The one message of an RPC that ends well."""
        if self._connection.outgoing.answer(self, response):
            self._connection.answered(self)
        else:
            self._connection.run(self, self._answer_slowly(framed([response])))

    async def _answer_slowly(self, body: bytes) -> None:
        """The same as far as the client's windows let it go."""
        await self.send(START)
        await self.send({"type": "http.response.body", "body": body, "more_body": False})
        await self.send(END)

    def whole(self, start: Event, body: bytes, trailers: Event) -> bool:
        """A response in one go. False: the windows do not allow that; nothing was done."""
        if self.closed or not self._connection.outgoing.takes(self, len(body)):
            return False
        head = block_of(tuple(start["headers"]), start["status"])
        tail = block_of(tuple(trailers["headers"]), 0)
        self._connection.outgoing.whole(self, head, body, tail)
        self._connection.answered(self)
        return True

    async def __call__(self, event: Event) -> None:
        """ASGI's send."""
        await self.send(event)

    async def send(self, event: Event) -> None:
        """Waits while the client takes nothing. Raises `ClientDisconnectedError`."""
        if self.closed:
            raise ClientDisconnectedError()
        kind = event["type"]
        if kind == "http.response.start":
            self._start = block_of(tuple(event["headers"]), event["status"])
            self._has_trailers = bool(event.get("trailers"))
        elif kind == "http.response.body":
            await self._send_body(event.get("body", b""), last=not event.get("more_body"))
        else:
            await self._until_drained()
            self._put_headers(block_of(tuple(event["headers"]), 0), end=True)

    async def _send_body(self, body: bytes, *, last: bool) -> None:
        end = last and not self._has_trailers
        if self._start is not None:
            start, self._start = self._start, None
            self._put_headers(start, end=end and not body)
            if self.closed:
                return
        if body:
            self._connection.outgoing.data(self, body)
        if end:
            await self._until_drained()
            self._connection.outgoing.put(wire.frame(wire.DATA, wire.END_STREAM, self.id))
            self._connection.answered(self)
        elif not last:
            await self._until_drained()

    def _put_headers(self, block: bytes, *, end: bool) -> None:
        self._connection.outgoing.headers(self, block, end=end)
        if end:
            self._connection.answered(self)

    async def _until_drained(self) -> None:
        if self.outgoing:
            self._drained = asyncio.get_running_loop().create_future()
            await self._drained

    def drained(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
