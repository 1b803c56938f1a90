"""Protobuf written by hand, where an object per message costs too much.

Source: protobuf.dev, "Encoding". A field's `tag` is its number and wire type, encoded.
"""

from typing import Final

_SHORT_MAX: Final = 16_384
_SHORT: Final = [bytes((number,)) for number in range(128)] + [
    bytes((number & 0x7F | 0x80, number >> 7)) for number in range(128, _SHORT_MAX)
]
"""Of one and two bytes, made once: the lengths of nearly everything."""


def varint(number: int) -> bytes:
    """`number` is not negative."""
    if number < _SHORT_MAX:
        return _SHORT[number]
    return bytes((number & 0x7F | 0x80,)) + varint(number >> 7)


def sized(tag: bytes, data: bytes) -> bytes:
    """A string, bytes or message field."""
    return b"%b%b%b" % (tag, varint(len(data)), data)
