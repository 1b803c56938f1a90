"""HTTP/2 as bytes, without a library's opinion of what may be sent."""

import struct
from collections.abc import Iterable

from front.wire import Headers, headers

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE = range(9)
CONTINUATION = 9
END_STREAM, ACK, END_HEADERS, PADDED = 0x1, 0x1, 0x4, 0x8
HEAD_BYTES = 9
FRAME_BYTES = 16_000
INITIAL_WINDOW_SIZE = 4
CANCEL = 8
CALM = struct.pack(">I", 11)
"""ENHANCE_YOUR_CALM, before the text of a GOAWAY."""


def frame(kind: int, flags: int, stream_id: int, payload: bytes = b"") -> bytes:
    size = len(payload)
    return struct.pack(">BHBBI", size >> 16, size & 0xFFFF, kind, flags, stream_id) + payload


def block(lines: Headers) -> bytes:
    """A header block of literals; the client says that it has no table."""
    fields = [b"\x00" + text(name.encode()) + text(value.encode()) for name, value in lines]
    return b"\x20" + b"".join(fields)


def text(plain: bytes) -> bytes:
    return _length(len(plain), 0) + plain


def huffman_text(coded: bytes) -> bytes:
    """A string that says it is Huffman coded."""
    return _length(len(coded), 0x80) + coded


def _length(number: int, first: int) -> bytes:
    """Behind a first bit."""
    if number < 0x7F:
        return bytes((first | number,))
    found, number = [first | 0x7F], number - 0x7F
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*found, number))


def header_frames(stream_id: int, fields: bytes) -> bytes:
    """HEADERS that end their stream, and CONTINUATION as far as needed."""
    if len(fields) <= FRAME_BYTES:
        return frame(HEADERS, END_HEADERS | END_STREAM, stream_id, fields)
    first, *more = (fields[at : at + FRAME_BYTES] for at in range(0, len(fields), FRAME_BYTES))
    frames = [frame(HEADERS, END_STREAM, stream_id, first)]
    frames += [frame(CONTINUATION, 0, stream_id, piece) for piece in more[:-1]]
    return b"".join([*frames, frame(CONTINUATION, END_HEADERS, stream_id, more[-1])])


def request_head(stream_id: int, path: str) -> bytes:
    return frame(HEADERS, END_HEADERS, stream_id, block(headers(path)))


def request(stream_id: int, path: str, body: bytes) -> bytes:
    return request_head(stream_id, path) + frame(DATA, END_STREAM, stream_id, body)


def settings(values: Iterable[tuple[int, int]]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", *pair) for pair in values))


def window_update(stream_id: int, increment: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream_id, struct.pack(">I", increment))


def reset(stream_id: int) -> bytes:
    return frame(RST_STREAM, 0, stream_id, struct.pack(">I", CANCEL))


def whole_frames(data: bytes) -> tuple[list[tuple[int, int, int, bytes]], int]:
    """([(kind, flags, stream id, payload)], bytes read)"""
    found, at = [], 0
    while at + HEAD_BYTES <= len(data):
        high, low, kind, flags, stream_id = struct.unpack_from(">BHBBI", data, at)
        end = at + HEAD_BYTES + (high << 16 | low)
        if end > len(data):
            break
        found.append((kind, flags, stream_id, data[at + HEAD_BYTES : end]))
        at = end
    return found, at
