"""HTTP/2 frames as bytes.

    frame     3 bytes length · 1 type · 1 flags · 4 stream id (its first bit is reserved) · payload

Source: RFC 9113.
"""

from enum import IntEnum
from struct import Struct
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD: Final = Struct(">HBBBI")
"""Length (16 bits, then 8), type, flags, stream id."""
HEAD_BYTES: Final = 9
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE = range(9)
CONTINUATION: Final = 9
END_STREAM, ACK, END_HEADERS, PADDED, HAS_PRIORITY = 0x1, 0x1, 0x4, 0x8, 0x20
WINDOW_MAX: Final = 2**31 - 1
WINDOW_DEFAULT: Final = 65_535
FRAME_BYTES_DEFAULT: Final = 16_384
SETTING: Final = Struct(">HI")
NUMBER: Final = Struct(">I")
PRIORITY_BYTES: Final = 5


class Setting(IntEnum):
    HEADER_TABLE_SIZE = 1
    ENABLE_PUSH = 2
    MAX_CONCURRENT_STREAMS = 3
    INITIAL_WINDOW_SIZE = 4
    MAX_FRAME_SIZE = 5
    MAX_HEADER_LIST_SIZE = 6


class Error(IntEnum):
    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    SETTINGS_TIMEOUT = 4
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    ENHANCE_YOUR_CALM = 11


class ConnectionBroken(Exception):
    """The peer broke the rules: the whole connection ends with this code."""

    def __init__(self, code: Error, text: str) -> None:
        super().__init__(text)
        self.code = code


class StreamBroken(Exception):
    """The peer broke the rules on one stream: it ends with this code, the others go on."""

    def __init__(self, stream_id: int, code: Error, text: str) -> None:
        super().__init__(text)
        self.stream_id = stream_id
        self.code = code


def frame(kind: int, flags: int, stream_id: int, payload: bytes = b"") -> bytes:
    size = len(payload)
    return HEAD.pack(size >> 8, size & 0xFF, kind, flags, stream_id) + payload


def settings(values: dict[Setting, int]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join(SETTING.pack(key, values[key]) for key in values))


def window_update(stream_id: int, increment: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream_id, NUMBER.pack(increment))


def reset(stream_id: int, code: Error) -> bytes:
    return frame(RST_STREAM, 0, stream_id, NUMBER.pack(code))


def goaway(last_stream_id: int, code: Error, text: str = "") -> bytes:
    payload = NUMBER.pack(last_stream_id) + NUMBER.pack(code) + text.encode()
    return frame(GOAWAY, 0, 0, payload)


def data_frames(stream_id: int, data: bytes, frame_bytes_max: int) -> list[bytes]:
    """DATA frames that do not end the stream."""
    return [
        frame(DATA, 0, stream_id, data[at : at + frame_bytes_max])
        for at in range(0, len(data), frame_bytes_max)
    ]


def header_frames(stream_id: int, block: bytes, flags: int, frame_bytes_max: int) -> bytes:
    """HEADERS, and CONTINUATION as far as needed. `flags` without END_HEADERS."""
    if len(block) <= frame_bytes_max:
        return frame(HEADERS, flags | END_HEADERS, stream_id, block)
    pieces = [block[at : at + frame_bytes_max] for at in range(0, len(block), frame_bytes_max)]
    frames = [frame(HEADERS, flags, stream_id, pieces[0])]
    frames += [frame(CONTINUATION, 0, stream_id, piece) for piece in pieces[1:-1]]
    frames.append(frame(CONTINUATION, END_HEADERS, stream_id, pieces[-1]))
    return b"".join(frames)


def unpadded(flags: int, payload: bytes) -> bytes:
    """Without the padding, and without the priority of a HEADERS frame. Raises."""
    start, end = 0, len(payload)
    if flags & PADDED:
        if not payload:
            raise ConnectionBroken(Error.FRAME_SIZE_ERROR, "a padded frame without its length")
        start, end = 1, end - payload[0]
    if flags & HAS_PRIORITY:
        start += PRIORITY_BYTES
    if start > end:
        raise ConnectionBroken(Error.PROTOCOL_ERROR, "more padding than frame")
    return payload[start:end]


def check_priority(stream_id: int, payload: bytes) -> None:
    """Of a PRIORITY frame, or in a HEADERS frame without its padding's length. Raises."""
    if NUMBER.unpack_from(payload)[0] & WINDOW_MAX == stream_id:
        raise ConnectionBroken(Error.PROTOCOL_ERROR, "a stream that depends on itself")
