"""One client's connection: bytes in, frames to those who know what to do with them, in slices.

What a client may take is bounded, and so is the time that its frames have in one turn of the loop
(budgets/scheduler.py). A client that does not read is not read from.

Source: RFC 9113.
"""

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Final, cast

from popmq_common.tls.identity import user_of
from popmq_common.units import KiB, MiB
from popmq_proxy.front.http2 import wire
from popmq_proxy.front.http2.budgets.idle import LONG_BYTES, REFUSED_STREAM
from popmq_proxy.front.http2.budgets.scheduler import SLICE_S, ConnectionWorker
from popmq_proxy.front.http2.control import Control
from popmq_proxy.front.http2.flow_control.outgoing import Outgoing
from popmq_proxy.front.http2.hung_up import has_hung_up
from popmq_proxy.front.http2.open_streams import App
from popmq_proxy.front.http2.pings import Pings
from popmq_proxy.front.http2.shared import Address, Member, Shared
from popmq_proxy.front.http2.streams import Streams
from popmq_proxy.front.http2.wire import ConnectionBroken, Error, Setting, StreamBroken

WRITE_BUFFER_BYTES: Final = 256 * KiB
"""What the socket has not taken, before its client is not read from any more."""
LOOK_EVERY: Final = 64
"""Frames, or work that is worth as many, between two looks at the clock."""
LINGER_S: Final = 1.0
"""How long a client may take to close its end when we have closed ours."""
LINGER_BYTES: Final = MiB
"""What is taken of it meanwhile: to decrypt a flood costs as much as to read it."""

NOTHING: Final = -1

Handler = Callable[[int, int, bytes], None]


class Http2Connection(asyncio.Protocol):
    transport: asyncio.Transport
    outgoing: Outgoing
    streams: Streams
    pings: Pings
    _control: Control
    _member: Member
    _worker: ConnectionWorker

    def __init__(
        self,
        app: App,
        shared: Shared,
        address: Address,
        peer: tuple[str, int],
        ended: Callable[["Http2Connection"], None],
    ) -> None:
        """`ended` is called once, when the connection is gone."""
        self._app = app
        self._shared = shared
        self._limits = shared.limits
        self._scheduler = shared.scheduler
        self._address = address
        self.peer = peer
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._data = b""
        """What is being read, from `_at` on."""
        self._at = 0
        self._held = bytearray()
        """A frame that is not whole."""
        self._needed = 0
        """Of what is held, before there is something to do."""
        self._greeted = False
        self._expects = NOTHING
        """Which kind of frame must come next."""
        self._waits = False
        """What has come is left for a later turn."""
        self._counted_bytes = 0
        """Of what was not handled."""
        self._block: tuple[int, int, bytearray] | None = None
        """(stream, flags, header block so far) between HEADERS and the last CONTINUATION."""
        self._closing = False
        self._lost = False
        self._jammed = False
        self._draining = False
        self._linger: asyncio.TimerHandle | None = None
        self._lingered_bytes = 0
        self._handlers: dict[int, Handler] = {}

    # --- life ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        limits = self._limits
        member = self._member = Member(self._shared, self._address, self._work, self.abort)
        self._worker = member.worker
        outgoing = self.outgoing = Outgoing(self.transport, self._shared, member, self._wait)
        user = user_of(self.transport.get_extra_info("peercert"))
        streams = self.streams = Streams(
            self._app, self._shared, member, outgoing, self.peer, self._close_when_done, user
        )
        outgoing.put(
            wire.settings(
                {
                    Setting.MAX_CONCURRENT_STREAMS: limits.streams_first,
                    Setting.INITIAL_WINDOW_SIZE: limits.stream_window_bytes,
                    Setting.MAX_FRAME_SIZE: limits.frame_bytes_max,
                    Setting.MAX_HEADER_LIST_SIZE: limits.header_bytes_max,
                }
            )
        )
        extra = limits.connection_window_bytes - wire.WINDOW_DEFAULT
        outgoing.put(wire.window_update(0, extra))
        self.pings = Pings(
            outgoing, self.abort, every_s=limits.ping_every_s, answer_s=limits.ping_answer_s
        )
        self.pings.expect(limits.first_frame_s)
        control = Control(streams, outgoing, self.pings, member.idle)
        self._control = control
        self._handlers = {
            wire.DATA: streams.on_data,
            wire.HEADERS: self._on_headers,
            wire.PRIORITY: control.on_priority,
            wire.RST_STREAM: control.on_reset,
            wire.SETTINGS: self._on_settings,
            wire.PUSH_PROMISE: control.on_push,
            wire.PING: control.on_ping,
            wire.GOAWAY: self._on_goaway,
            wire.WINDOW_UPDATE: control.on_window_update,
            wire.CONTINUATION: self._on_continuation,
        }

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = self._lost = True
        self._forget_data()
        if self._linger is not None:
            self._linger.cancel()
        self.pings.close()
        self.outgoing.lose()
        self.streams.lose()
        self.streams.connection.close()
        self._member.leave()
        self._ended(self)
        self._scheduler.wait(self._worker)

    def _part(self) -> None:
        """Let go of what knows this object, so that its memory is free at once, and not when the
        collector looks for garbage."""
        self._handlers.clear()
        self._worker.part()
        self.outgoing.part()
        self.streams.part()
        self.pings.part()

    def pause_writing(self) -> None:
        self._jammed = True
        self.outgoing.jam()
        self._read_or_not()

    def resume_writing(self) -> None:
        self._jammed = False
        self.outgoing.unjam()
        self._read_or_not()

    def _read_or_not(self) -> None:
        if self._lost or self.transport.is_closing():
            return
        if self._jammed or self._waits:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()

    def abort(self) -> None:
        """Nothing came, or no answer to a ping, or its work failed, or the server stops."""
        self.transport.abort()
        if self._lost:  # what is left of its streams still ends
            self._scheduler.wait(self._worker)

    def recent_s(self, now_s: float) -> float:
        """How much time it took of each second; 0 of one that begins or ends."""
        serves = self._greeted and not self._draining and not self._closing
        return self._worker.use.recent_s(now_s) if serves else 0.0

    def drain(self) -> None:
        """No new streams from now on; those under way may finish."""
        if not self._draining:
            self._draining = self.streams.refuses = True
            self._put(wire.goaway(self.streams.last_id, Error.NO_ERROR))
        self._close_when_done()

    def _close_when_done(self) -> None:
        if self._draining and not self.streams.open and not self._closing:
            self._close()

    def _close(self) -> None:
        """Nothing more is said. What the client has on its way is taken and forgotten: else its
        system would forget what it has not read of ours."""
        self._closing = True
        self._forget_data()
        self.outgoing.close()
        self._linger = self._loop.call_later(LINGER_S, self._hang_up)
        if self.transport.can_write_eof():
            try:
                self.transport.write_eof()
            except OSError:  # the client has hung up, and the loop has not seen it yet
                self.abort()

    def _hang_up(self) -> None:
        if self._jammed:
            self.transport.abort()
        else:
            self.transport.close()

    def _break(self, broken: ConnectionBroken) -> None:
        """Tell the client why, and let it go."""
        if not self._closing:
            self._put(wire.goaway(self.streams.last_id, broken.code, str(broken)))
            self._close()
        self.streams.lose()

    def _forget_data(self) -> None:
        self._data, self._held, self._block = b"", bytearray(), None
        account = self._member.accounts.request_buffer
        self._shared.budgets.request_buffer.give(account, self._counted_bytes)
        self._counted_bytes = 0

    # --- bytes in ---

    def data_received(self, data: bytes) -> None:
        if self._closing:
            self._lingered_bytes += len(data)
            if self._lingered_bytes > LINGER_BYTES:
                self.abort()
            return
        if self._worker.number:  # TLS may hand over more than was asked for
            self._data = self._data[self._at :] + self._held + data
            self._held = bytearray()
            self._at = 0
            return
        if self._held:
            self._held += data
            if len(self._held) < self._needed:  # or a trickle would copy it at each byte
                return
            data = bytes(self._held)
            self._held = bytearray()
        self._data, self._at = data, 0
        if self._scheduler.is_over:
            self._wait()
        else:
            self._work()

    def _wait(self) -> None:
        self._waits = True
        self._scheduler.wait(self._worker)
        self._read_or_not()

    def _work(self) -> None:
        """What fits into a slice of the turn."""
        began_s = monotonic()
        until_s = began_s + SLICE_S
        worker = self._worker
        worker.owed_s = 0.0
        if self._waits:
            self.streams.is_unread = has_hung_up(self.transport)
        done = self.streams.drop_some(until_s) if self._closing else self._read_slice(until_s)
        if self.outgoing.goes_on and not self._closing:
            done = self.outgoing.go_on(until_s) and done
        now_s = monotonic()
        self._scheduler.charge(worker, now_s, now_s - began_s + worker.owed_s)
        if not done:
            self._wait()
        elif self._lost:
            self._part()
        elif self._waits:
            self._waits = False
            self._read_or_not()

    def _read_slice(self, until_s: float) -> bool:
        """True: all frames that are whole have been read."""
        try:
            while True:
                try:
                    done = self._read(until_s)
                    break
                except StreamBroken as broken:
                    self._member.idle.spend(REFUSED_STREAM)
                    self.streams.fail(broken)
            self.streams.settle()
            if self._held or self._counted_bytes or not done:
                self._count_held(0 if done else len(self._data))
        except ConnectionBroken as wrong:  # mypyc knows one type of each name
            self._break(wrong)
            return False
        return done

    def _read(self, until_s: float) -> bool:
        if not self._greeted:
            self._greet()
        data, at, streams, handlers = self._data, self._at, self.streams, self._handlers
        size, needed, bytes_max = len(data), wire.HEAD_BYTES, self._limits.frame_bytes_max
        try:
            while size - at >= wire.HEAD_BYTES and self._greeted and not self._closing:
                if streams.units >= LOOK_EVERY:
                    streams.units = 0
                    if monotonic() + self._worker.owed_s >= until_s:
                        return False
                high, low, kind, flags, stream_id = wire.HEAD.unpack_from(data, at)
                length = high << 8 | low
                if length > bytes_max:
                    raise ConnectionBroken(Error.FRAME_SIZE_ERROR, f"a frame of {length} bytes")
                begin = at + wire.HEAD_BYTES
                end = begin + length
                if end > size:
                    needed = end - at
                    break
                if self._expects >= 0 and kind != self._expects:
                    raise ConnectionBroken(Error.PROTOCOL_ERROR, "another frame than had to come")
                at = end
                handler = handlers.get(kind)
                if handler is not None:
                    handler(flags, stream_id & wire.WINDOW_MAX, data[begin:end])
                else:
                    self._control.on_unknown(data[begin:end])
                streams.units += 1
        finally:
            self._at = at
        if at < size:
            self._held += data[at:]
        self._needed = needed
        self._data, self._at = b"", 0
        return True

    def _count_held(self, waiting_bytes: int) -> None:
        """What is not handled counts as bytes of unfinished requests. Raises."""
        grown_bytes = len(self._held) + waiting_bytes - self._counted_bytes
        if not grown_bytes:
            return
        budget, account = self._shared.budgets.request_buffer, self._member.accounts.request_buffer
        if grown_bytes > 0 and not budget.admits(account, grown_bytes):
            raise ConnectionBroken(Error.ENHANCE_YOUR_CALM, "no room for unfinished requests")
        budget.take(account, grown_bytes)
        self._counted_bytes += grown_bytes

    def _greet(self) -> None:
        """The client's first bytes. Raises `ConnectionBroken`."""
        if not wire.PREFACE.startswith(self._data[: len(wire.PREFACE)]):
            raise ConnectionBroken(Error.PROTOCOL_ERROR, "this is no HTTP/2")
        if len(self._data) >= len(wire.PREFACE):
            self._greeted = True
            self._expects = wire.SETTINGS
            self._at = len(wire.PREFACE)
            self.pings.heard()

    # --- frames that are not of a stream or the connection alone ---

    def _on_settings(self, flags: int, stream_id: int, payload: bytes) -> None:
        self._expects = NOTHING
        self._control.on_settings(flags, stream_id, payload)

    def _on_headers(self, flags: int, stream_id: int, payload: bytes) -> None:
        if not stream_id & 1:
            raise ConnectionBroken(Error.PROTOCOL_ERROR, f"headers on stream {stream_id}")
        block = wire.unpadded(flags, payload)
        if flags & wire.HAS_PRIORITY:
            wire.check_priority(stream_id, payload[1 if flags & wire.PADDED else 0 :])
        if flags & wire.END_HEADERS:
            self.streams.on_block(flags, stream_id, block)
        else:
            self._expects = wire.CONTINUATION
            self._block = stream_id, flags, bytearray(block)

    def _on_continuation(self, flags: int, stream_id: int, payload: bytes) -> None:
        if self._block is None or self._block[0] != stream_id:
            raise ConnectionBroken(Error.PROTOCOL_ERROR, "a continuation of nothing")
        self._member.idle.spend(1 + (not payload) * 100)
        _, first_flags, block = self._block
        block += payload
        if len(block) > self._limits.header_bytes_max:
            raise ConnectionBroken(Error.ENHANCE_YOUR_CALM, "headers that do not end")
        if flags & wire.END_HEADERS:
            self._expects, self._block = NOTHING, None
            self.streams.on_block(first_flags, stream_id, bytes(block))

    def _on_goaway(self, _: int, stream_id: int, payload: bytes) -> None:
        """The client opens no more streams."""
        if stream_id:
            raise ConnectionBroken(Error.PROTOCOL_ERROR, "a goaway of a stream")
        self._member.idle.spend(1 + len(payload) // LONG_BYTES)
        self._draining = self.streams.refuses = True
        self._close_when_done()

    def _put(self, data: bytes) -> None:
        if not self._closing:
            self.outgoing.put(data)
