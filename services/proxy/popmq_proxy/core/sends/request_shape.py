"""Whether a large request is of few fields, looked at before it is read.

Protobuf makes an object of each message and each property, of 40 bytes and more. Two bytes of a
request are enough for one, so that 8 MiB of the smallest become 300 MiB and take 150 ms. What
clients send is large because bodies are; the rest of it is counted here, field by field. Of a
request that has many entries, these are counted.

    SendMessageRequest   1: Message, any number
    Message              1: topic, 2: user property, any number, 3: system properties, 4: body
"""

from typing import Final

from google.protobuf.message import DecodeError

from popmq_common.errors import BadRequest, MessagesCorrupted

LOOKED_AT_BYTES: Final = 1 << 20
"""What smaller requests become is bounded by their size."""
FIELDS_MAX: Final = 256
"""Of a message; more than its properties."""
BESIDES_BODIES_BYTES_MAX: Final = 4 << 20
_MESSAGE: Final = 1 << 3 | 2
_BODY: Final = 4 << 3 | 2
_VARINT, _EIGHT_BYTES, _SIZED, _FOUR_BYTES = 0, 1, 2, 5
_FIXED: Final = {_EIGHT_BYTES: 8, _FOUR_BYTES: 4}


def check_shape(data: bytes, messages_max: int) -> None:
    """Raises `MessagesCorrupted`, `DecodeError`."""
    at, count, besides_bytes = 0, 0, 0
    while at < len(data):
        count += 1
        if count > messages_max:
            raise MessagesCorrupted(reason=f"more than {messages_max} messages")
        tag, start, stop = _field(data, at, len(data))
        besides_bytes += stop - at
        if tag == _MESSAGE:
            besides_bytes -= _body_bytes(data, start, stop)
        if besides_bytes > BESIDES_BODIES_BYTES_MAX:
            text = f"more than {BESIDES_BODIES_BYTES_MAX} bytes besides the bodies"
            raise MessagesCorrupted(reason=text)
        at = stop


def check_count(data: bytes, fields_max: int) -> None:
    """Of a request's own fields. Raises `BadRequest`, `DecodeError`."""
    at = 0
    for _ in range(fields_max):
        if at >= len(data):
            return
        _, _, at = _field(data, at, len(data))
    if at < len(data):
        raise BadRequest(reason=f"more than {fields_max} fields")


def _body_bytes(data: bytes, at: int, end: int) -> int:
    found_bytes = 0
    for _ in range(FIELDS_MAX):
        if at >= end:
            return found_bytes
        tag = data[at]
        size = data[at + 1] if at + 1 < end else 0x80
        if tag & 0x87 == _SIZED and size < 0x80:  # what nearly all are
            start, at = at + 2, at + 2 + size
            if at > end:
                raise DecodeError("a field beyond its message")
        else:
            tag, start, at = _field(data, at, end)
        if tag == _BODY:
            found_bytes += at - start
    if at < end:
        raise MessagesCorrupted(reason=f"a message of more than {FIELDS_MAX} fields")
    return found_bytes


def _field(data: bytes, at: int, end: int) -> tuple[int, int, int]:
    """(tag, where its value begins, where it ends)"""
    tag, start = _varint(data, at, end)
    kind = tag & 7
    if kind == _SIZED:
        size, start = _varint(data, start, end)
        stop = start + size
    elif kind == _VARINT:
        _, stop = _varint(data, start, end)
    elif kind in _FIXED:
        stop = start + _FIXED[kind]
    else:
        raise DecodeError("a field of a kind that is not used any more")
    if stop > end:
        raise DecodeError("a field beyond its message")
    return tag, start, stop


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 70, 7):
        if at >= end:
            break
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
    raise DecodeError("a number that does not end")
