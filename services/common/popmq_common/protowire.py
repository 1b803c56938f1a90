"""Protobuf written by hand, where building message objects costs too much.

Source: protobuf.dev, "Encoding". A field's `tag` is its number and wire type, encoded.
"""

_SMALL = [bytes((number,)) for number in range(128)]


def varint(number: int) -> bytes:
    """`number` is not negative."""
    if number < 128:
        return _SMALL[number]
    if number < 16_384:  # the length of most messages
        return bytes((number & 0x7F | 0x80, number >> 7))
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def sized(tag: bytes, data: bytes) -> bytes:
    """A string, bytes or message field."""
    return b"%b%b%b" % (tag, varint(len(data)), data)
