"""Frames on their way out of one connection, within HTTP/2 flow control: as the client takes them.

Answers gather while the event loop's turn lasts and leave in one write. What the client's windows
do not let go, or what its socket does not take, waits in its stream, and counts among the unread
answers of all clients. The streams send by turns, a piece each, in the time that their connection
has in a turn of the loop (scheduler.py).
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from struct import Struct
from time import monotonic
from typing import Final

from popmq_common.units import KiB
from popmq_proxy.front.events import END, START
from popmq_proxy.front.grpc_wire import PREFIX_BYTES
from popmq_proxy.front.http2 import wire
from popmq_proxy.front.http2.budgets import idle
from popmq_proxy.front.http2.budgets.unsent import Unsent
from popmq_proxy.front.http2.header_blocks.headers import block_of
from popmq_proxy.front.http2.shared import Member, Shared
from popmq_proxy.front.http2.stream_state import StreamState
from popmq_proxy.front.http2.wire import ConnectionBroken, Error, StreamBroken

EAGER_BYTES: Final = 32 * KiB
"""Gathered answers of that size leave at once, while the next ones are made."""
WHOLE_BYTES_MAX: Final = 256 * KiB
"""Of a body that leaves in one write."""
FREE_BYTES: Final = 64 * KiB
"""A body of that size leaves without room for it, to a client that has read all before it."""
PIECE_BYTES: Final = 64 * KiB
"""Of a stream that has waited, before the next one's."""
LOOKS: Final = 16
"""At streams that were blocked, between two looks at the clock."""
WAITING_BYTES: Final = KiB
"""What an answer that waits counts for besides its bytes."""

_HEAD: Final = block_of(tuple(START["headers"]), START["status"])
_TAIL: Final = block_of(tuple(END["headers"]), 0)
_ANSWER: Final = Struct(f">HBBBI{len(_HEAD)}sHBBBIBI")
"""HEADERS, then DATA as far as the prefix of its message."""
_TRAILERS: Final = Struct(f">5sI{len(_TAIL)}s")
_TRAILERS_START: Final = wire.frame(wire.HEADERS, wire.END_HEADERS | wire.END_STREAM, 0, _TAIL)[:5]
assert len(_HEAD) < 256
_NO_TABLE: Final = b"\x20"
"""What begins our next header block when the client has made its table smaller: we use none."""


class Outgoing:
    def __init__(
        self,
        transport: asyncio.Transport,
        shared: Shared,
        member: Member,
        want_turn: Callable[[], None],
    ) -> None:
        """`want_turn` is called when there is something to `go_on` with."""
        self.frame_bytes_max = wire.FRAME_BYTES_DEFAULT
        self.sent_bytes = 0
        """Of all frames that have left."""
        self.goes_on = False
        """There is work for the connection's next turn."""
        self.extra_max = 0
        """No stream's own window is larger."""
        self._window = wire.WINDOW_DEFAULT
        self._stream_window = wire.WINDOW_DEFAULT
        """Of each stream, besides its own."""
        self._transport = transport
        self._budget = shared.budgets.answer_buffer
        self._account = member.accounts.answer_buffer
        self._idle = member.idle
        self._worker = member.worker
        self._unsent = Unsent(transport, self._budget, self._account, shared.backlogs)
        self._want_turn = want_turn
        self._shared = shared
        self._loop = asyncio.get_running_loop()
        self._jammed = False
        """The socket takes nothing."""
        self._slow = False
        """That, or our next header block begins with something unusual."""
        self._table_changed = False
        self._waiting: OrderedDict[StreamState, None] = OrderedDict()
        """Streams that may send when the connection may."""
        self._blocked: dict[StreamState, None] = {}
        """Those that may not."""
        self._unlooked: list[StreamState] = []
        """The blocked ones that are to be looked at."""
        self._looks_again = False
        """At all of them."""
        self._frames: list[bytes] = []
        self._bytes = 0
        self._scheduled = False
        self._closed = False

    # --- frames ---

    def put(self, data: bytes) -> None:
        """Whole frames."""
        self._frames.append(data)
        self._bytes += len(data)
        if self._bytes >= EAGER_BYTES:
            self.flush()
        elif not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._flush_turn)

    def headers(self, stream: StreamState, block: bytes, *, end: bool) -> None:
        flags = wire.END_STREAM if end else 0
        if self._table_changed:
            self._table_changed, self._slow = False, self._jammed
            block = _NO_TABLE + block
        self.put(wire.header_frames(stream.id, block, flags, self.frame_bytes_max))

    def end(self, stream: StreamState) -> None:
        self.put(wire.frame(wire.DATA, wire.END_STREAM, stream.id))

    def close(self) -> None:
        """Nothing leaves behind what has been put."""
        self.flush()
        self._closed = True

    def lose(self) -> None:
        """The connection is gone."""
        self._unsent.end()

    def part(self) -> None:
        """The connection is gone, and nobody is to know it."""
        self._want_turn = _nothing

    def flush(self) -> None:
        if self._frames and not self._closed and not self._transport.is_closing():
            self._unsent.look()
            self._transport.write(b"".join(self._frames))
            self.sent_bytes += self._bytes
        self._frames = []
        self._bytes = 0

    def _flush_turn(self) -> None:
        self._scheduled = False
        self.flush()

    # --- answers that leave at once ---

    def takes(self, stream: StreamState, size: int) -> bool:
        """The client takes so many bytes at once."""
        return (
            size <= self._stream_window + stream.send_window
            and size <= self._window
            and size <= WHOLE_BYTES_MAX
            and not stream.outgoing
            and not self._slow
            and ((size <= FREE_BYTES and not self._unsent.held_bytes) or self._may_hold(size))
        )

    def _may_hold(self, size: int) -> bool:
        """There is room for so much that the client does not read."""
        return self._budget.admits(self._account, size)

    def whole(self, stream: StreamState, head: bytes, body: bytes, tail: bytes) -> None:
        """A response of which the client `takes` all: header block, body, block of trailers. One
        piece, so that the end of a large one does not stay behind until the turn is over."""
        frame_bytes_max = self.frame_bytes_max
        pieces = [wire.header_frames(stream.id, head, 0, frame_bytes_max)]
        pieces += self._data_frames(stream, body)
        pieces.append(wire.header_frames(stream.id, tail, wire.END_STREAM, frame_bytes_max))
        self.put(b"".join(pieces))

    def answer(self, stream: StreamState, response: bytes) -> bool:
        """One message, and that all is well. False: it cannot leave at once; nothing was done."""
        size = PREFIX_BYTES + len(response)
        allowed = min(self._stream_window + stream.send_window, self._window, self.frame_bytes_max)
        if size > allowed or stream.outgoing or self._slow:
            return False
        stream.send_window -= size
        self._window -= size
        number = stream.id
        kinds = wire.HEADERS, wire.END_HEADERS, number, _HEAD
        high, low = size >> 8, size & 0xFF
        start = _ANSWER.pack(0, len(_HEAD), *kinds, high, low, wire.DATA, 0, number, 0, size - 5)
        self.put(b"%b%b%b" % (start, response, _TRAILERS.pack(_TRAILERS_START, number, _TAIL)))
        return True

    # --- what waits ---

    def data(self, stream: StreamState, data: bytes) -> bool:
        """At once if the client takes it, else later. False: there is no room for what waits."""
        if self.takes(stream, len(data)):
            self._put_data(stream, data)
            return True
        size = len(data) + (0 if stream.outgoing else WAITING_BYTES)
        if not self._may_hold(size):
            return False
        self._budget.take(self._account, size)
        stream.outgoing += data
        self._shared.stalls.goes_on(stream, self._shared.tick)
        self._waiting[stream] = None
        self._go_on_later()
        return True

    def forget(self, stream: StreamState) -> None:
        if stream.outgoing:
            self._end_wait(stream)
            self._waiting.pop(stream, None)
            self._blocked.pop(stream, None)

    @property
    def held_up_count(self) -> int:
        """Streams whose answers wait for the client."""
        return len(self._waiting) + len(self._blocked)

    def jam(self) -> None:
        """The socket takes nothing more."""
        self._jammed = self._slow = True
        self._unsent.look()

    def unjam(self) -> None:
        self._jammed = False
        self._slow = self._table_changed
        self._unsent.look()
        if self._waiting:
            self._go_on_later()

    # The client lets more through; how much of it leaves in this turn is decided behind the frames.

    def grow(self, increment: int) -> None:
        """Of all streams together. Raises."""
        self._window += increment
        if self._window > wire.WINDOW_MAX:
            raise ConnectionBroken(Error.FLOW_CONTROL_ERROR, "a window beyond its limit")
        if self._waiting:
            self.goes_on = True

    def grow_stream(self, stream: StreamState, increment: int) -> None:
        """Of one stream. Raises."""
        stream.send_window += increment
        if self._stream_window + stream.send_window > wire.WINDOW_MAX:
            text = "a window beyond its limit"
            raise StreamBroken(stream.id, Error.FLOW_CONTROL_ERROR, text)
        self.extra_max = max(self.extra_max, stream.send_window)
        if stream in self._blocked:
            self._look_at(stream)
            self.goes_on = True

    def change_stream_window(self, value: int) -> None:
        """Of every stream, those under way too."""
        if value > self._stream_window and self._blocked:
            self._looks_again = self.goes_on = True
        self._stream_window = value

    def shrink_table(self) -> None:
        """The client's table for our header blocks is smaller now, which a block must tell."""
        self._table_changed = self._slow = True

    def _look_at(self, stream: StreamState) -> None:
        if self._stream_window + stream.send_window > 0:
            del self._blocked[stream]
            self._waiting[stream] = None

    def _go_on_later(self) -> None:
        if not self.goes_on:
            self.goes_on = True
            self._want_turn()

    def go_on(self, until_s: float) -> bool:
        """With what waits and may leave, at least a piece; True: nothing of it is left."""
        self.goes_on = not (self._look_at_blocked(until_s) and self._send_waiting(until_s))
        return not self.goes_on

    def _look_at_blocked(self, until_s: float) -> bool:
        if self._looks_again:
            self._looks_again = False
            self._unlooked = list(self._blocked)
        unlooked = self._unlooked
        while unlooked:
            for _ in range(min(LOOKS, len(unlooked))):
                stream = unlooked.pop()
                if stream in self._blocked:
                    self._look_at(stream)
            if monotonic() >= until_s:
                self._send_waiting(until_s)
                return not unlooked
        return True

    def _send_waiting(self, until_s: float) -> bool:
        while self._waiting and self._window > 0 and not self._jammed:
            stream, _ = self._waiting.popitem(last=False)
            self._send_piece(stream)
            if monotonic() + self._worker.owed_s >= until_s:
                return not self._waiting
        return True

    def _send_piece(self, stream: StreamState) -> None:
        at, end = stream.outgoing_at, len(stream.outgoing)
        own_window = self._stream_window + stream.send_window
        size = min(own_window, self._window, PIECE_BYTES, end - at)
        if size > 0:
            self._put_data(stream, stream.outgoing[at : at + size])
            stream.outgoing_at = at + size
        if at + size == end:
            self._end_wait(stream)
            stream.drained()
            return
        if size > 0:
            self._shared.stalls.goes_on(stream, self._shared.tick)
            self._trim(stream)
        if size < own_window:
            self._waiting[stream] = None
        else:
            self._blocked[stream] = None

    def _trim(self, stream: StreamState) -> None:
        """What has left is not held for long."""
        at = stream.outgoing_at
        if at * 2 >= len(stream.outgoing):
            stream.outgoing, stream.outgoing_at = stream.outgoing[at:], 0
            self._budget.give(self._account, at)

    def _end_wait(self, stream: StreamState) -> None:
        self._budget.give(self._account, len(stream.outgoing) + WAITING_BYTES)
        stream.outgoing, stream.outgoing_at = b"", 0
        self._shared.stalls.end(stream)

    def _data_frames(self, stream: StreamState, data: bytes) -> list[bytes]:
        """They count as sent."""
        self._idle.earn(len(data) >> idle.ANSWER_SHIFT)
        stream.send_window -= len(data)
        self._window -= len(data)
        return wire.data_frames(stream.id, data, self.frame_bytes_max)

    def _put_data(self, stream: StreamState, data: bytes) -> None:
        for one in self._data_frames(stream, data):
            self.put(one)


def _nothing() -> None:
    return
