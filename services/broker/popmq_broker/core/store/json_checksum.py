"""A checksum at the end of a JSON object, which other readers take for one more item.

    {"dataVersion": …, "topicConfigTable": …,
     "popmqCrc32": "9ae0daaf"}

It covers all bytes before the comma. RocketMQ reads such a file as before; what RocketMQ or a
person wrote has no such item, and nothing can be said about it. A damaged byte of the item itself
either breaks the checksum or leaves the rest, which is whole, without one.
"""

import re
from typing import Final
from zlib import crc32

_ITEM: Final = re.compile(rb',?\s*"popmqCrc32": "([0-9a-f]{8})"\s*\}\s*\Z')


def sign(text: str) -> bytes:
    """The object with its checksum; anything else as it is."""
    body = text.rstrip()
    if not body.endswith("}"):
        return text.encode()
    covered = body[:-1].rstrip().encode()
    comma = b"" if covered.endswith(b"{") else b","
    return covered + comma + b'\n "popmqCrc32": "%08x"\n}\n' % crc32(covered)


def verify(data: bytes) -> str:
    """The object without its checksum. Raises `ValueError` when it is not what was signed."""
    found = _ITEM.search(data)
    if found is None:
        return data.decode()
    covered = data[: found.start()]
    if b"%08x" % crc32(covered) != found[1]:
        raise ValueError("its checksum is wrong; remove popmqCrc32 if you have edited it")
    return covered.decode() + "\n}\n"
