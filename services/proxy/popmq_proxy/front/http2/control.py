"""Frames that are about the connection: settings, pings, windows, and those that only cost time."""

from typing import Final

from popmq_proxy.front.http2 import wire
from popmq_proxy.front.http2.budgets import idle
from popmq_proxy.front.http2.budgets.idle import IdleFrames
from popmq_proxy.front.http2.flow_control.outgoing import Outgoing
from popmq_proxy.front.http2.pings import Pings
from popmq_proxy.front.http2.streams import Streams
from popmq_proxy.front.http2.wire import ConnectionBroken, Error, Setting, StreamBroken

SETTINGS_MAX: Final = 64
"""In one frame."""
TABLE_BYTES_DEFAULT: Final = 4_096
LOOKED_AT_A_UNIT: Final = 16
"""Streams whose windows are compared in the time of a frame."""


class Control:
    def __init__(
        self, streams: Streams, outgoing: Outgoing, pings: Pings, idle_frames: IdleFrames
    ) -> None:
        self._streams = streams
        self._outgoing = outgoing
        self._pings = pings
        self._idle = idle_frames

    def on_settings(self, flags: int, stream_id: int, payload: bytes) -> None:
        """Raises `ConnectionBroken`."""
        if stream_id:
            raise ConnectionBroken(Error.PROTOCOL_ERROR, "settings of a stream")
        if len(payload) % wire.SETTING.size or (flags & wire.ACK and payload):
            raise ConnectionBroken(Error.FRAME_SIZE_ERROR, "settings that are none")
        if len(payload) > SETTINGS_MAX * wire.SETTING.size:
            raise ConnectionBroken(Error.ENHANCE_YOUR_CALM, "too many settings in one frame")
        self._idle.spend()
        if flags & wire.ACK:
            return
        self._streams.units += len(payload) // wire.SETTING.size
        window, most = -1, -1
        for key, value in wire.SETTING.iter_unpack(payload):
            if key == Setting.INITIAL_WINDOW_SIZE:
                if value > wire.WINDOW_MAX:
                    raise ConnectionBroken(Error.FLOW_CONTROL_ERROR, f"a window of {value} bytes")
                window, most = value, max(most, value)
            else:
                self._apply(key, value)
        if window >= 0:
            self._change_windows(window, most)
        self._outgoing.put(wire.frame(wire.SETTINGS, wire.ACK, 0))

    def _change_windows(self, window: int, most: int) -> None:
        """Of all streams. `most`: what it was meanwhile; nothing leaves before the last value.
        Raises `ConnectionBroken`."""
        outgoing, streams = self._outgoing, self._streams
        if most + outgoing.extra_max > wire.WINDOW_MAX:
            streams.units += len(streams.open) // LOOKED_AT_A_UNIT
            self._idle.spend(len(streams.open) // LOOKED_AT_A_UNIT)
            outgoing.extra_max = max((one.send_window for one in streams.open.values()), default=0)
            if most + outgoing.extra_max > wire.WINDOW_MAX:
                raise ConnectionBroken(Error.FLOW_CONTROL_ERROR, "a window beyond its limit")
        outgoing.change_stream_window(window)

    def _apply(self, key: int, value: int) -> None:
        """What only changes a number. Raises `ConnectionBroken`."""
        outgoing = self._outgoing
        if key == Setting.MAX_FRAME_SIZE:
            if not wire.FRAME_BYTES_DEFAULT <= value < 1 << 24:
                raise ConnectionBroken(Error.PROTOCOL_ERROR, f"frames of {value} bytes")
            outgoing.frame_bytes_max = value
        elif key == Setting.ENABLE_PUSH:
            if value > 1:
                raise ConnectionBroken(Error.PROTOCOL_ERROR, f"push is 0 or 1, not {value}")
        elif key == Setting.HEADER_TABLE_SIZE and value < TABLE_BYTES_DEFAULT:
            outgoing.shrink_table()

    def on_ping(self, flags: int, stream_id: int, payload: bytes) -> None:
        """Raises `ConnectionBroken`."""
        if stream_id:
            raise ConnectionBroken(Error.PROTOCOL_ERROR, "a ping of a stream")
        if len(payload) != 8:
            raise ConnectionBroken(Error.FRAME_SIZE_ERROR, "a ping that is none")
        self._idle.spend()
        if flags & wire.ACK:
            self._pings.heard()
        else:
            self._pings.came(payload)

    def on_window_update(self, _: int, stream_id: int, payload: bytes) -> None:
        """Raises `ConnectionBroken`, `StreamBroken`."""
        if len(payload) != 4:
            raise ConnectionBroken(Error.FRAME_SIZE_ERROR, "a window update that is none")
        self._idle.spend()
        increment = wire.NUMBER.unpack(payload)[0] & wire.WINDOW_MAX
        streams = self._streams
        if stream_id > streams.last_id:
            raise ConnectionBroken(Error.PROTOCOL_ERROR, f"a window of idle stream {stream_id}")
        if not increment:
            if stream_id in streams.open:
                raise StreamBroken(stream_id, Error.PROTOCOL_ERROR, "a window update of 0")
            raise ConnectionBroken(Error.PROTOCOL_ERROR, "a window update of 0")
        if not stream_id:
            self._outgoing.grow(increment)
            return
        stream = streams.open.get(stream_id)
        if stream is not None:
            self._outgoing.grow_stream(stream, increment)

    def on_priority(self, _: int, stream_id: int, payload: bytes) -> None:
        """Raises `ConnectionBroken`."""
        if not stream_id:
            raise ConnectionBroken(Error.PROTOCOL_ERROR, "a priority of no stream")
        if len(payload) != 5:
            raise ConnectionBroken(Error.FRAME_SIZE_ERROR, "a priority that is none")
        wire.check_priority(stream_id, payload)
        self._idle.spend()

    def on_reset(self, _: int, stream_id: int, payload: bytes) -> None:
        """Raises `ConnectionBroken`."""
        if len(payload) != 4:
            raise ConnectionBroken(Error.FRAME_SIZE_ERROR, "a reset of another length than 4")
        if not stream_id:
            raise ConnectionBroken(Error.PROTOCOL_ERROR, "a reset of no stream")
        self._streams.on_reset(stream_id)

    def on_push(self, _: int, stream_id: int, payload: bytes) -> None:
        raise ConnectionBroken(Error.PROTOCOL_ERROR, "a client may not push")

    def on_unknown(self, payload: bytes) -> None:
        """To be ignored, if there are not too many."""
        self._idle.spend(1 + len(payload) // idle.LONG_BYTES)
