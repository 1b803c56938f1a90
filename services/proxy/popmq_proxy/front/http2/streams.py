"""The requests of one connection: from their first header block to the last frame of the answer.

A request waits here until it is whole; then it may need no task (front/unary_fast_path.py). One
that is too large for that, or is a stream of messages, is served by a task from its beginning on.
"""

from collections.abc import Callable
from typing import Final

from popmq_common.units import KiB
from popmq_proxy.front.events import Event
from popmq_proxy.front.grpc_wire import PREFIX, PREFIX_BYTES
from popmq_proxy.front.http2 import wire
from popmq_proxy.front.http2.budgets import idle
from popmq_proxy.front.http2.flow_control.outgoing import Outgoing
from popmq_proxy.front.http2.header_blocks.fields import Header
from popmq_proxy.front.http2.header_blocks.headers import HeaderReader
from popmq_proxy.front.http2.header_blocks.request import wrong_request, wrong_trailers
from popmq_proxy.front.http2.open_streams import App, OpenStreams
from popmq_proxy.front.http2.shared import Member, Shared
from popmq_proxy.front.http2.stream import Stream
from popmq_proxy.front.http2.wire import ConnectionBroken, Error, Setting, StreamBroken
from popmq_proxy.front.unary_fast_path import FastPath
from popmq_proxy.rpc.shared.client_connection import ClientConnection

SMALL_REQUEST_BYTES: Final = 4 * KiB
"""One that is whole and no larger does not count; there are only so many calls."""
UNKNOWN_LENGTH: Final = -1


class Streams(OpenStreams):
    def __init__(
        self,
        app: App,
        shared: Shared,
        member: Member,
        outgoing: Outgoing,
        peer: tuple[str, int],
        emptied: Callable[[], None],
        certificate_user: str | None,
    ) -> None:
        """`emptied` is called when the last of them has ended. `certificate_user`: whom the
        client's certificate names; None: it has shown none."""
        super().__init__(app, shared, member, outgoing, emptied)
        self.reader = HeaderReader(shared.limits.header_bytes_max)
        self.connection = ClientConnection()
        self._of_connection: Event = {
            "peer": f"{peer[0]}:{peer[1]}",
            "accounts": self.accounts,
            "connection": self.connection,
        }
        if certificate_user is not None:
            self._of_connection["certificate_user"] = certificate_user
        self._fast_path: FastPath | None = getattr(app, "fast_path", None)
        self._streaming: frozenset[str] = getattr(app, "streaming", frozenset())
        self._needs_reader: frozenset[str] = getattr(app, "needs_reader", frozenset())

    # --- header blocks ---

    def on_block(self, flags: int, stream_id: int, block: bytes) -> None:
        """Raises `ConnectionBroken`, `StreamBroken`."""
        size = len(block)
        self.units += 4 + (size >> 6)
        fields = self.reader.read(block)
        if self.reader.long_bytes:
            self._idle.spend(self.reader.long_bytes // idle.DECODED_BYTES)
        if self.reader.wants_no_table:
            self.outgoing.put(wire.settings({Setting.HEADER_TABLE_SIZE: 0}))
        ended = bool(flags & wire.END_STREAM)
        if stream_id > self.last_id:
            self.last_id = stream_id
            if self.refuses or len(self.open) >= self.stream_max:
                self._idle.spend(idle.REFUSED_STREAM)
                self.put_reset(stream_id, Error.REFUSED_STREAM)
                return
            self._begin(stream_id, fields, ended=ended)
            return
        stream: Stream | None = self.open.get(stream_id)
        if stream is not None:
            self._on_trailers(stream, fields, ended=ended)
        elif stream_id in self._ended_by_us:
            self._idle.spend()
        else:
            raise ConnectionBroken(Error.STREAM_CLOSED, f"headers on closed stream {stream_id}")

    def _on_trailers(self, stream: Stream, fields: list[Header], *, ended: bool) -> None:
        if stream.ended:
            raise StreamBroken(stream.id, Error.STREAM_CLOSED, "headers behind the end")
        alike = self.reader.alike
        known = alike is not None and alike.prepared is not None
        wrong = (
            "a request as trailers" if known else self.reader.malformed or wrong_trailers(fields)
        )
        if wrong or not ended:
            text = wrong or "headers amid a request"
            raise StreamBroken(stream.id, Error.PROTOCOL_ERROR, text)
        self._end_request(stream)
        if stream.begun:
            stream.wake()
        else:
            self._serve(stream)

    def _begin(self, stream_id: int, fields: list[Header], *, ended: bool) -> None:
        reader = self.reader
        alike = reader.alike
        if alike is not None and alike.prepared is not None:
            scope: Event = {
                **alike.prepared,
                "timeout": reader.timeout,
                "signature": reader.signature,
            }
        else:
            scope = self._scope(stream_id, fields)
            if alike is not None:
                scope["remembered"] = []
                alike.prepared = dict(scope)
        stream = Stream(self, stream_id, scope)
        if reader.long_bytes:
            stream.worth += reader.long_bytes // idle.DECODED_BYTES
        stream.missing_bytes = scope["length"]
        self.open[stream_id] = stream
        if ended:
            self._end_request(stream)
            self._serve(stream)
            return
        self._fresh.append(stream)
        if scope["path"] in self._streaming:
            stream.begin_response()

    def _scope(self, stream_id: int, fields: list[Header]) -> Event:
        """What the application is told of a request. Raises `StreamBroken`."""
        named = dict(fields)
        wrong = self.reader.malformed or wrong_request(fields, named)
        if wrong:
            raise StreamBroken(stream_id, Error.PROTOCOL_ERROR, wrong)
        return {
            "type": "http",
            "method": named[b":method"].decode("latin-1"),
            "path": named[b":path"].decode("latin-1"),
            "timeout": named.pop(b"grpc-timeout", None),
            "signature": _signature(named),
            "length": int(named.get(b"content-length", UNKNOWN_LENGTH)),
            "named": named,
            **self._of_connection,
        }

    # --- data ---

    def on_data(self, flags: int, stream_id: int, payload: bytes) -> None:
        """Raises `ConnectionBroken`, `StreamBroken`."""
        size = len(payload)
        incoming = self.incoming
        incoming.came(size)
        stream: Stream | None = self.open.get(stream_id)
        if stream is None or stream.ended:
            self._on_stray_data(stream_id, size)
            return
        incoming.came_on(stream, size)
        if flags & wire.PADDED:
            payload = wire.unpadded(flags & wire.PADDED, payload)
            incoming.consumed(stream, size - len(payload))
            size = len(payload)
        if stream.missing_bytes >= 0:
            self._count_down(stream, size)
        if flags & wire.END_STREAM:
            self._end_request(stream)
        elif size < idle.SMALL_BYTES:
            self._idle.spend()
        if stream.begun:
            if stream.first_bytes:
                self._count_first(stream, size)
            if size:
                stream.feed(payload)
            elif stream.ended:
                stream.wake()
        elif stream.ended:
            if stream.untaken_bytes:
                stream.feed(payload)
            else:
                stream.give(payload)
                incoming.give_back(size)
            self._serve(stream)
        elif size:
            stream.feed(payload)
            self._look(stream)

    def _look(self, stream: Stream) -> None:
        """More of a request has come: some need not wait for the rest. A message that the client's
        window does not let go in one piece is served while it comes."""
        came = stream.untaken_bytes
        left_bytes, large = 1, False
        if came >= PREFIX_BYTES:
            _, size = PREFIX.unpack(stream.first(PREFIX_BYTES))
            left_bytes = PREFIX_BYTES + size - came
            large = max(came, size) * 2 > self.limits.stream_window_bytes
        if stream.scope["path"] in self._streaming:
            if large or left_bytes <= 0:
                stream.first_bytes = came + left_bytes
                self._count_first(stream, came)
                stream.begin_task()
        elif large:
            stream.begin_task()

    def _count_first(self, stream: Stream, size: int) -> None:
        """A stream of messages has come when the first of them is whole."""
        stream.first_bytes = max(0, stream.first_bytes - size)
        if not stream.first_bytes:
            stream.streams = True
            if stream.arrives:
                self.shared.arrivals.end(stream)

    def _on_stray_data(self, stream_id: int, size: int) -> None:
        self.incoming.give_back(size)
        self._idle.spend()
        if stream_id > self.last_id or not stream_id & 1:
            raise ConnectionBroken(Error.PROTOCOL_ERROR, f"data on idle stream {stream_id}")
        if stream_id not in self._ended_by_us:
            raise StreamBroken(stream_id, Error.STREAM_CLOSED, "data behind the end")

    def _count_down(self, stream: Stream, size: int) -> None:
        if size > stream.missing_bytes:
            raise StreamBroken(stream.id, Error.PROTOCOL_ERROR, "more than its content-length")
        stream.missing_bytes -= size

    def _end_request(self, stream: Stream) -> None:
        if stream.missing_bytes > 0:
            raise StreamBroken(stream.id, Error.PROTOCOL_ERROR, "less than its content-length")
        stream.ended = True
        if stream.arrives:
            self.shared.arrivals.end(stream)

    def _serve(self, stream: Stream) -> None:
        """A request that is whole."""
        if self.is_unread and stream.scope["path"] in self._needs_reader:
            self._idle.spend(idle.REFUSED_STREAM)
            self.reset(stream, Error.REFUSED_STREAM)
            return
        stream.release()
        body = stream.body()
        size = len(body)
        if stream.counted_bytes or size > SMALL_REQUEST_BYTES:
            self.count(stream, size if size > SMALL_REQUEST_BYTES else 0)
        fast_path = self._fast_path
        self.units += 4
        if fast_path is not None and stream.scope["path"] in fast_path.rpcs:
            stream.begun = True
            if fast_path.begin(stream.scope, body, stream):
                return
        stream.begin_task()


def _signature(named: dict[bytes, bytes]) -> tuple[bytes, bytes] | None:
    """(authorization, x-mq-date-time), which other requests of the client have otherwise."""
    authorization, date = named.pop(b"authorization", b""), named.pop(b"x-mq-date-time", b"")
    return (authorization, date) if authorization else None
