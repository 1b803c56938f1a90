"""Frames on their way out of one connection, as far as the client's windows let them go.

Answers gather while the event loop's turn lasts and leave in one write.
"""

import asyncio
from struct import Struct
from typing import Final

from popmq_common.units import KiB
from popmq_proxy.front.events import END, START
from popmq_proxy.front.grpc_wire import PREFIX_BYTES
from popmq_proxy.front.http2 import wire
from popmq_proxy.front.http2.headers import block_of
from popmq_proxy.front.http2.stream import Stream
from popmq_proxy.front.http2.wire import ConnectionBroken, Error

EAGER_BYTES: Final = 32 * KiB
"""Gathered answers of that size leave at once, while the next ones are made."""


_HEAD: Final = block_of(tuple(START["headers"]), START["status"])
_TAIL: Final = block_of(tuple(END["headers"]), 0)
_ANSWER: Final = Struct(f">HBBBI{len(_HEAD)}sHBBBIBI")
"""HEADERS, then DATA as far as the prefix of its message."""
_TRAILERS: Final = Struct(f">5sI{len(_TAIL)}s")
_TRAILERS_START: Final = wire.frame(wire.HEADERS, wire.END_HEADERS | wire.END_STREAM, 0, _TAIL)[:5]
assert len(_HEAD) < 256


class Outgoing:
    def __init__(self, transport: asyncio.Transport) -> None:
        self.frame_bytes_max = wire.FRAME_BYTES_DEFAULT
        self.stream_window = wire.WINDOW_DEFAULT
        """Of a new stream."""
        self._window = wire.WINDOW_DEFAULT
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._blocked: dict[Stream, None] = {}
        self._frames: list[bytes] = []
        self._bytes = 0
        self._scheduled = False
        self.sent_bytes = 0
        """Of all frames that have left."""

    def put(self, data: bytes) -> None:
        """Whole frames."""
        self._frames.append(data)
        self._bytes += len(data)
        if self._bytes >= EAGER_BYTES:
            self.flush()
        elif not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._flush_turn)

    def headers(self, stream: Stream, block: bytes, *, end: bool) -> None:
        flags = wire.END_STREAM if end else 0
        self.put(wire.header_frames(stream.id, block, flags, self.frame_bytes_max))

    def takes(self, stream: Stream, size: int) -> bool:
        """The client's windows let so many bytes go at once."""
        return not stream.outgoing and size <= stream.send_window and size <= self._window

    def whole(self, stream: Stream, head: bytes, body: bytes, tail: bytes) -> None:
        """A response of which the client `takes` all: header block, body, block of trailers. One
        piece, so that the end of a large one does not stay behind until the turn is over."""
        frame_bytes_max = self.frame_bytes_max
        pieces = [wire.header_frames(stream.id, head, 0, frame_bytes_max)]
        pieces += self._data_frames(stream, body)
        pieces.append(wire.header_frames(stream.id, tail, wire.END_STREAM, frame_bytes_max))
        self.put(b"".join(pieces))

    def answer(self, stream: Stream, response: bytes) -> bool:
        """One message, and that all is well. False: the windows do not allow it; nothing was
        done."""
        size = PREFIX_BYTES + len(response)
        room = min(stream.send_window, self._window, self.frame_bytes_max)
        if stream.outgoing or size > room:
            return False
        stream.send_window -= size
        self._window -= size
        number = stream.id
        kinds = wire.HEADERS, wire.END_HEADERS, number, _HEAD
        high, low = size >> 8, size & 0xFF
        start = _ANSWER.pack(0, len(_HEAD), *kinds, high, low, wire.DATA, 0, number, 0, size - 5)
        self.put(b"%b%b%b" % (start, response, _TRAILERS.pack(_TRAILERS_START, number, _TAIL)))
        return True

    def data(self, stream: Stream, data: bytes) -> None:
        """At once as far as the windows allow, the rest later."""
        if self.takes(stream, len(data)):
            self._put_data(stream, data)
            return
        stream.outgoing += data
        self._blocked[stream] = None
        self._send_what_fits(stream)

    def forget(self, stream: Stream) -> None:
        self._blocked.pop(stream, None)

    def grow(self, stream: Stream | None, increment: int) -> None:
        """The client takes more: of one stream, or (None) of all together. Raises."""
        if stream is None:
            self._window += increment
            _check_window(self._window)
            self.send_blocked()
            return
        stream.send_window += increment
        _check_window(stream.send_window)
        if stream in self._blocked:
            self._send_what_fits(stream)

    def send_blocked(self) -> None:
        for stream in list(self._blocked):
            if self._window <= 0:
                return
            self._send_what_fits(stream)

    def flush(self) -> None:
        if self._frames and not self._transport.is_closing():
            self._transport.write(b"".join(self._frames))
            self.sent_bytes += self._bytes
        self._frames = []
        self._bytes = 0

    def _flush_turn(self) -> None:
        self._scheduled = False
        self.flush()

    def _data_frames(self, stream: Stream, data: bytes) -> list[bytes]:
        """They count as sent."""
        stream.send_window -= len(data)
        self._window -= len(data)
        return wire.data_frames(stream.id, data, self.frame_bytes_max)

    def _put_data(self, stream: Stream, data: bytes) -> None:
        for one in self._data_frames(stream, data):
            self.put(one)

    def _send_what_fits(self, stream: Stream) -> None:
        room = min(stream.send_window, self._window, len(stream.outgoing))
        if room > 0:
            data = bytes(stream.outgoing[:room])
            del stream.outgoing[:room]
            self._put_data(stream, data)
        if not stream.outgoing:
            self._blocked.pop(stream, None)
            stream.drained()


def _check_window(window: int) -> None:
    if window > wire.WINDOW_MAX:
        raise ConnectionBroken(Error.FLOW_CONTROL_ERROR, "a window beyond its limit")
