"""One client's connection: frames in, RPCs as tasks of the application, frames out.

What a client may take is bounded: streams, bytes of a header block, bytes in flight of a stream
and of the connection, frames that begin nothing. A client that does not read is not read from.

Source: RFC 9113.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, cast

from popmq_common.units import KiB, MiB
from popmq_proxy.front.events import Event, Receive, Send
from popmq_proxy.front.http2 import wire
from popmq_proxy.front.http2.headers import Header, HeaderReader
from popmq_proxy.front.http2.held import Held
from popmq_proxy.front.http2.incoming import Incoming
from popmq_proxy.front.http2.outgoing import Outgoing
from popmq_proxy.front.http2.pings import Pings
from popmq_proxy.front.http2.stream import Stream
from popmq_proxy.front.http2.wire import ConnectionBroken, Error, Setting

App = Callable[[Event, Receive, Send], Coroutine[Any, Any, None]]
WRITE_BUFFER_BYTES: Final = 1 * MiB


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    streams_max: int = 16_384  # a client parks one poll per topic and broker
    stream_window_bytes: int = 1 * MiB
    connection_window_bytes: int = 16 * MiB
    frame_bytes_max: int = 256 * KiB
    headers_bytes_max: int = 60 * KiB
    first_frame_s: float = 15.0
    ping_every_s: float = 60.0
    ping_answer_s: float = 20.0


class Connection(asyncio.Protocol):
    transport: asyncio.Transport
    incoming: Incoming
    outgoing: Outgoing
    pings: Pings

    def __init__(
        self, app: App, limits: Limits, peer: tuple[str, int], ended: Callable[["Connection"], None]
    ) -> None:
        """`ended` is called once, when the connection is gone."""
        self.limits = limits
        self.streams: dict[int, Stream] = {}
        self.app = app
        self._unbegun = Held(app, limits.stream_window_bytes)
        self._peer = peer
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._held = bytearray()
        self._needed = 0
        """Of what is held, before there is something to do."""
        self._greeted = False
        self._reader = HeaderReader(limits.headers_bytes_max)
        self._block: tuple[int, int, bytearray] | None = None
        """(stream, flags, header block so far) between HEADERS and the last CONTINUATION."""
        self._last_stream = 0
        self._closing = False
        self._draining = False
        self._handlers: dict[int, Callable[[int, int, bytes], None]] = {
            wire.DATA: self._on_data,
            wire.HEADERS: self._on_headers,
            wire.PRIORITY: self._on_priority,
            wire.RST_STREAM: self._on_reset,
            wire.SETTINGS: self._on_settings,
            wire.PUSH_PROMISE: self._on_push,
            wire.PING: self._on_ping,
            wire.GOAWAY: self._on_goaway,
            wire.WINDOW_UPDATE: self._on_window_update,
            wire.CONTINUATION: self._on_continuation,
        }

    # --- life ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        limits = self.limits
        self.outgoing = Outgoing(self.transport)
        self.incoming = Incoming(
            self.outgoing, limits.connection_window_bytes, limits.stream_window_bytes
        )
        self._put(
            wire.settings(
                {
                    Setting.HEADER_TABLE_SIZE: 0,
                    Setting.MAX_CONCURRENT_STREAMS: limits.streams_max,
                    Setting.INITIAL_WINDOW_SIZE: limits.stream_window_bytes,
                    Setting.MAX_FRAME_SIZE: limits.frame_bytes_max,
                    Setting.MAX_HEADER_LIST_SIZE: limits.headers_bytes_max,
                }
            )
        )
        extra = limits.connection_window_bytes - wire.WINDOW_DEFAULT
        self._put(wire.window_update(0, extra))
        self.pings = Pings(
            self.outgoing,
            self._give_up,
            every_s=limits.ping_every_s,
            answer_s=limits.ping_answer_s,
        )
        self.pings.expect(limits.first_frame_s)

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        self.pings.close()
        for stream in list(self.streams.values()):
            self._drop(stream)
        self._ended(self)

    def pause_writing(self) -> None:
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        self.transport.resume_reading()

    def _give_up(self) -> None:
        """Nothing came, or no answer to a ping."""
        self.transport.abort()

    def drain(self) -> None:
        """No new streams from now on; those under way may finish."""
        if not self._draining:
            self._draining = True
            self._put(wire.goaway(self._last_stream, Error.NO_ERROR))
        self._close_when_done()

    def _close_when_done(self) -> None:
        if self._draining and not self.streams and not self._closing:
            self._closing = True
            self.outgoing.flush()
            self.transport.close()

    def _break(self, broken: ConnectionBroken) -> None:
        if not self._closing:
            self._put(wire.goaway(self._last_stream, broken.code, str(broken)))
            self.outgoing.flush()
            self._closing = True
            self.transport.close()
        for stream in list(self.streams.values()):
            self._drop(stream)

    def _drop(self, stream: Stream) -> None:
        """The client has no use for its answer any more."""
        self._forget(stream)
        stream.wake()
        if stream.task is not None:
            stream.task.cancel()

    def _forget(self, stream: Stream) -> None:
        stream.closed = True
        self._unbegun.forget(stream)
        self.streams.pop(stream.id, None)
        self.outgoing.forget(stream)
        if stream.held_bytes:
            self.incoming.give_back(stream.held_bytes)
            stream.held_bytes = 0
        if self._draining:
            self._close_when_done()

    # --- frames in ---

    def data_received(self, data: bytes) -> None:
        try:
            if self._held:
                self._held += data
                if len(self._held) < self._needed:  # or a trickle would copy it at each byte
                    return
                read = self._read(bytes(self._held))
                del self._held[:read]
            else:
                read = self._read(data)
                if read < len(data):
                    self._held += data[read:]
        except ConnectionBroken as broken:
            self._break(broken)

    def _read(self, data: bytes) -> int:
        """Handle the frames that are whole; how many bytes that was."""
        at = 0
        if not self._greeted:
            at = self._greet(data)
        size = len(data)
        self._needed = wire.HEAD_BYTES
        while size - at >= wire.HEAD_BYTES and self._greeted and not self._closing:
            high, low, kind, flags, stream_id = wire.HEAD.unpack_from(data, at)
            length = high << 8 | low
            if length > self.limits.frame_bytes_max:
                raise ConnectionBroken(Error.FRAME_SIZE_ERROR, f"a frame of {length} bytes")
            end = at + wire.HEAD_BYTES + length
            if end > size:
                self._needed = end - at
                break
            if self._block is not None and kind != wire.CONTINUATION:
                raise ConnectionBroken(Error.PROTOCOL_ERROR, "a header block was interrupted")
            handler = self._handlers.get(kind)
            if handler is not None:  # others are to be ignored
                handler(flags, stream_id & wire.WINDOW_MAX, data[at + wire.HEAD_BYTES : end])
            at = end
        return at

    def _greet(self, data: bytes) -> int:
        if not wire.PREFACE.startswith(data[: len(wire.PREFACE)]):
            raise ConnectionBroken(Error.PROTOCOL_ERROR, "this is no HTTP/2")
        if len(data) < len(wire.PREFACE):
            return 0
        self._greeted = True
        self.pings.heard()
        return len(wire.PREFACE)

    def _on_headers(self, flags: int, stream_id: int, payload: bytes) -> None:
        if not stream_id & 1:
            raise ConnectionBroken(Error.PROTOCOL_ERROR, f"headers on stream {stream_id}")
        block = wire.unpadded(flags, payload)
        if flags & wire.END_HEADERS:
            self._on_block(flags, stream_id, block)
        else:
            self._block = (stream_id, flags, bytearray(block))

    def _on_continuation(self, flags: int, stream_id: int, payload: bytes) -> None:
        if self._block is None or self._block[0] != stream_id:
            raise ConnectionBroken(Error.PROTOCOL_ERROR, "a continuation of nothing")
        self._count_idle(1 + (not payload) * 100)
        _, first_flags, block = self._block
        block += payload
        if len(block) > self.limits.headers_bytes_max:
            raise ConnectionBroken(Error.ENHANCE_YOUR_CALM, "headers that do not end")
        if flags & wire.END_HEADERS:
            self._block = None
            self._on_block(first_flags, stream_id, bytes(block))

    def _on_block(self, flags: int, stream_id: int, block: bytes) -> None:
        headers = self._reader.read(block)
        ended = bool(flags & wire.END_STREAM)
        stream = self.streams.get(stream_id)
        if stream is not None:
            self._on_trailers(stream, ended=ended)
            return
        if stream_id <= self._last_stream:
            if not ended:  # trailers may cross our answer; nothing else can
                raise ConnectionBroken(Error.STREAM_CLOSED, f"stream {stream_id} was closed")
            return
        self._last_stream = stream_id
        if self._draining or len(self.streams) >= self.limits.streams_max:
            self._count_idle()
            self._put(wire.reset(stream_id, Error.REFUSED_STREAM))
            return
        self._begin(stream_id, headers, ended=ended)

    def _on_trailers(self, stream: Stream, *, ended: bool) -> None:
        if stream.ended or not ended:
            raise ConnectionBroken(Error.PROTOCOL_ERROR, f"headers amid stream {stream.id}")
        stream.ended = True
        stream.wake()
        if not stream.begun:
            self._unbegun.look(stream)

    def _begin(self, stream_id: int, headers: list[Header], *, ended: bool) -> None:
        pseudo = dict(headers)
        scope: Event = {
            "type": "http",
            "method": pseudo.get(b":method", b"").decode("latin-1"),
            "path": pseudo.get(b":path", b"").decode("latin-1"),
            "headers": headers,
            "client": self._peer,
        }
        stream = Stream(self, stream_id, self.outgoing.stream_window, scope)
        self.streams[stream_id] = stream
        stream.ended = ended
        if not self._unbegun.take(stream):
            stream.begin_task()

    def run(self, stream: Stream, work: Coroutine[Any, Any, None]) -> None:
        task = stream.task = self._loop.create_task(work)
        task.add_done_callback(lambda _: self._done(stream))

    def _done(self, stream: Stream) -> None:
        """The application is through with it; without an answer there is nothing to wait for."""
        if not stream.closed:
            self._put(wire.reset(stream.id, Error.INTERNAL_ERROR))
            self._forget(stream)

    def _on_data(self, flags: int, stream_id: int, payload: bytes) -> None:
        size = len(payload)
        self.incoming.came(size)
        if not size and not flags & wire.END_STREAM:
            self._count_idle()
        stream = self.streams.get(stream_id)
        if stream is None:
            if stream_id > self._last_stream or not stream_id & 1:
                raise ConnectionBroken(Error.PROTOCOL_ERROR, f"data on idle stream {stream_id}")
            self.incoming.give_back(size)
            return
        if stream.ended:
            raise ConnectionBroken(Error.STREAM_CLOSED, f"data behind the end of {stream_id}")
        self.incoming.came_on(stream, size)
        if flags & wire.PADDED:
            payload = wire.unpadded(flags & wire.PADDED, payload)
            self.incoming.consumed(stream, size - len(payload))
        if flags & wire.END_STREAM:
            stream.ended = True
        if payload:
            stream.feed(payload)
        elif stream.ended:
            stream.wake()
        if not stream.begun:
            self._unbegun.look(stream)

    def _on_reset(self, _: int, stream_id: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise ConnectionBroken(Error.FRAME_SIZE_ERROR, "a reset of another length than 4")
        if stream_id > self._last_stream or not stream_id:
            raise ConnectionBroken(Error.PROTOCOL_ERROR, f"a reset of idle stream {stream_id}")
        self._count_idle()
        stream = self.streams.get(stream_id)
        if stream is not None:
            self._drop(stream)

    def _on_settings(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id or len(payload) % wire.SETTING.size or (flags & wire.ACK and payload):
            raise ConnectionBroken(Error.FRAME_SIZE_ERROR, "settings that are none")
        if flags & wire.ACK:
            self._reader.forbid_table()
            return
        self._count_idle()
        for key, value in wire.SETTING.iter_unpack(payload):
            self._apply(key, value)
        self._put(wire.frame(wire.SETTINGS, wire.ACK, 0))

    def _apply(self, key: int, value: int) -> None:
        if key == Setting.INITIAL_WINDOW_SIZE:
            if value > wire.WINDOW_MAX:
                raise ConnectionBroken(Error.FLOW_CONTROL_ERROR, f"a window of {value} bytes")
            change = value - self.outgoing.stream_window
            self.outgoing.stream_window = value
            for stream in self.streams.values():
                stream.send_window += change
            self.outgoing.send_blocked()
        elif key == Setting.MAX_FRAME_SIZE:
            if not wire.FRAME_BYTES_DEFAULT <= value < 1 << 24:
                raise ConnectionBroken(Error.PROTOCOL_ERROR, f"frames of {value} bytes")
            self.outgoing.frame_bytes_max = value

    def _on_ping(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id or len(payload) != 8:
            raise ConnectionBroken(Error.FRAME_SIZE_ERROR, "a ping that is none")
        if flags & wire.ACK:
            self.pings.heard()
            return
        self._count_idle()
        self.pings.came(payload)

    def _on_window_update(self, _: int, stream_id: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise ConnectionBroken(Error.FRAME_SIZE_ERROR, "a window update that is none")
        increment = wire.NUMBER.unpack(payload)[0] & wire.WINDOW_MAX
        if not increment:
            raise ConnectionBroken(Error.PROTOCOL_ERROR, "a window update of 0")
        if stream_id > self._last_stream:
            raise ConnectionBroken(Error.PROTOCOL_ERROR, f"a window of idle stream {stream_id}")
        stream = self.streams.get(stream_id)
        if stream is not None or not stream_id:
            self.outgoing.grow(stream, increment)

    def _on_priority(self, _: int, stream_id: int, payload: bytes) -> None:
        if not stream_id or len(payload) != 5:
            raise ConnectionBroken(Error.FRAME_SIZE_ERROR, "a priority that is none")
        self._count_idle()

    def _on_push(self, _: int, stream_id: int, payload: bytes) -> None:
        raise ConnectionBroken(Error.PROTOCOL_ERROR, "a client may not push")

    def _on_goaway(self, _: int, stream_id: int, payload: bytes) -> None:
        self._draining = True
        self._close_when_done()

    def _count_idle(self, count: int = 1) -> None:
        self.incoming.idle_frame(self._loop.time(), count)

    def answered(self, stream: Stream) -> None:
        """Its last frame has been put."""
        if not stream.ended:
            self._put(wire.reset(stream.id, Error.NO_ERROR))
        self._forget(stream)

    def _put(self, data: bytes) -> None:
        if not self._closing:
            self.outgoing.put(data)
