"""One RPC: what the application receives and sends, within what the client lets go."""

import asyncio
from typing import Final

from popmq_proxy.front.client_budgets import Accounts
from popmq_proxy.front.events import END, START, ClientDisconnectedError, Event
from popmq_proxy.front.grpc_wire import framed
from popmq_proxy.front.http2 import wire
from popmq_proxy.front.http2.budgets.idle import CALL
from popmq_proxy.front.http2.header_blocks.headers import block_of
from popmq_proxy.front.http2.open_streams import OpenStreams
from popmq_proxy.front.http2.stream_state import StreamState

WAKE_S: Final = 0.000_05
"""What a turn is charged with for a task that goes on, before it has run."""
_EMPTY: Event = {"type": "http.request", "body": b"", "more_body": False}
_GONE: Event = {"type": "http.disconnect"}
_FORGOTTEN: Final[Event] = {}
_HEAD: Final = block_of(tuple(START["headers"]), START["status"])
_TAIL: Final = block_of(tuple(END["headers"]), 0)


class Stream(StreamState):
    __slots__ = (
        "_body",
        "_came",
        "_drained",
        "_ends",
        "_has_trailers",
        "_headed",
        "_more",
        "_start",
        "_streams",
        "begun",
        "first_bytes",
        "missing_bytes",
        "scope",
    )

    def __init__(self, streams: OpenStreams, stream_id: int, scope: Event) -> None:
        self.id = stream_id
        self.scope = scope
        self.born_tick = streams.shared.tick
        self.worth = CALL
        self.arrives = False
        self.begun = False
        """Somebody works on it."""
        self.streams = False
        self.first_bytes = 0
        """Missing of that one."""
        self.task = None
        self.ended = False
        self.closed = False
        self.send_window = 0
        self.receive_window = streams.limits.stream_window_bytes
        self.missing_bytes = -1
        """Of the length that the request names, if it names one."""
        self.owed_bytes = 0
        self.untaken_bytes = 0
        self.counted_bytes = 0
        self.outgoing = b""
        self.outgoing_at = 0
        self._streams = streams
        self._body = b""
        self._more: bytearray | None = None
        self._came: asyncio.Future[None] | None = None
        self._start: bytes | None = None
        self._has_trailers = False
        self._headed = False
        self._drained: asyncio.Future[None] | None = None
        self._ends = False
        """When that has happened, only the trailers are missing, and all is well."""

    @property
    def accounts(self) -> Accounts:
        """What the client has of the budgets that all share."""
        return self._streams.accounts

    def feed(self, data: bytes) -> None:
        """More of the request has come. Raises `StreamBroken` when there is no room for it."""
        size = len(data)
        self._streams.count(self, self.counted_bytes + size)
        self.untaken_bytes += size
        if self._more is not None:
            self._more += data
        elif self._body:
            self._more = bytearray(self._body)
            self._more += data
        else:
            self._body = data
        self.wake()

    def give(self, data: bytes) -> None:
        """All of the request at once."""
        self._body = data

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
        self._body = b""
        self.release()
        if self.counted_bytes:
            self._streams.count(self, 0)  # who has taken it counts it
        return {"type": "http.request", "body": body, "more_body": not self.ended}

    def body(self) -> bytes:
        """What has come and was not received."""
        if self._more is not None:
            self._body = bytes(self._more)
            self._more = None
        return self._body

    def first(self, size: int) -> bytes:
        """So many bytes of it, if there are."""
        return bytes(self._more[:size]) if self._more is not None else self._body[:size]

    def release(self) -> None:
        """What has come takes no more of the client's windows."""
        size, self.untaken_bytes = self.untaken_bytes, 0
        if size:
            self._streams.incoming.consumed(self, size)

    def begin_task(self) -> None:
        """Have the application serve it."""
        self.begun = True
        scope = self.scope
        scope["whole"] = self.whole
        self._streams.run(self, self._streams.app(scope, self.receive, self.send))
        self.scope = _FORGOTTEN  # a waiting poll needs it no more

    def begin_response(self) -> None:
        """For clients that wait for the head of the response before they send anything."""
        self._put_headers(_HEAD, end=False)
        self._headed = True

    def answer(self, response: bytes) -> None:
        """The one message of an RPC that ends well."""
        if self._streams.outgoing.answer(self, response):
            self._streams.answered(self)
            return
        self._put_headers(_HEAD, end=False)
        if not self._streams.outgoing.data(self, framed([response])):
            self._streams.reset(self, wire.Error.ENHANCE_YOUR_CALM)
            return
        self._ends = True
        if not self.outgoing:
            self.drained()

    def whole(self, start: Event, body: bytes, trailers: Event) -> bool:
        """A response in one go. False: the windows do not allow that; nothing was done."""
        if self.closed or not self._streams.outgoing.takes(self, len(body)):
            return False
        head = block_of(tuple(start["headers"]), start["status"])
        tail = block_of(tuple(trailers["headers"]), 0)
        self._streams.outgoing.whole(self, head, body, tail)
        self._streams.answered(self)
        return True

    async def send(self, event: Event) -> None:
        """Waits while the client takes nothing. Takes the body out of the event, so that what waits
        is held once. Raises `ClientDisconnectedError`."""
        if self.closed:
            raise ClientDisconnectedError()
        kind = event["type"]
        if kind == "http.response.start":
            self._has_trailers = bool(event.get("trailers"))
            if not self._headed:
                self._start = block_of(tuple(event["headers"]), event["status"])
            elif not self._has_trailers:  # a refusal; its status comes as trailers now
                self._start = block_of(tuple(event["headers"]), 0)
        elif kind == "http.response.body":
            end = not event.get("more_body")
            self._put_body(event.pop("body", b""), end=end)
            if not end or not self._has_trailers:
                await self._until_drained()
            if end and not self._has_trailers and not self.closed:
                self._streams.outgoing.end(self)
                self._streams.answered(self)
        else:
            await self._until_drained()
            self._put_start(end=False)
            self._put_headers(block_of(tuple(event["headers"]), 0), end=True)

    def _put_body(self, body: bytes, *, end: bool) -> None:
        self._put_start(end=end and not self._has_trailers and not body)
        if body and not self._streams.outgoing.data(self, body):
            self._streams.reset(self, wire.Error.ENHANCE_YOUR_CALM)
            raise ClientDisconnectedError()

    def _put_start(self, *, end: bool) -> None:
        if self._start is not None:
            start, self._start = self._start, None
            self._put_headers(start, end=end)

    def _put_headers(self, block: bytes, *, end: bool) -> None:
        self._streams.outgoing.headers(self, block, end=end)
        if end:
            self._streams.answered(self)

    async def _until_drained(self) -> None:
        if self.outgoing:
            self._drained = asyncio.get_running_loop().create_future()
            await self._drained

    def give_up(self, code: wire.Error) -> None:
        """Its client has had its time."""
        try:
            self._streams.reset(self, code)
        except Exception as bug:  # those of other connections have had their time too
            self._streams.worker.fail(bug)

    def drained(self) -> None:
        """What waited has left."""
        if self._ends:
            self._put_headers(_TAIL, end=True)
        elif self._drained is not None and not self._drained.done():
            self._streams.worker.owed_s += WAKE_S
            self._drained.set_result(None)
