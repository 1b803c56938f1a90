"""Header blocks: HPACK as far as a server needs it, fast where clients are plain.

Our SETTINGS ask clients for a header table of size 0, so that a block says all by itself. Then
what nobody looks at need not be decoded at all. Until a client has followed, and for whatever is
out of the ordinary, the hpack library decodes: 5 µs a block here, some 60 µs there.

Source: RFC 7541.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from hpack import Decoder, HPACKError
from hpack.huffman_table import decode_huffman
from hpack.table import HeaderTable

from popmq_proxy.front.http2.wire import ConnectionBroken, Error

Header = tuple[bytes, bytes]
_STATIC: Final[tuple[Header, ...]] = ((b"", b""), *HeaderTable.STATIC_TABLE)
LOOKED_AT: Final = frozenset(
    (
        b":method",
        b":path",
        b":scheme",
        b":authority",
        b"te",
        b"content-type",
        b"content-length",
        b"connection",
        b"grpc-timeout",
        b"grpc-encoding",
        b"x-mq-client-id",
        b"x-mq-namespace",
        b"x-mq-language",
        b"x-popmq-admin-secret",
    )
)
"""The others are skipped where that is possible."""
SAME_BYTES_MAX: Final = 1_024
"""Remembered of a connection's last block."""
_DIFFER: Final = frozenset((b"grpc-timeout", b"x-mq-request-id", b"x-mq-date-time"))
"""No two requests have the same; what clients write before the first of them is mostly alike."""
_CACHED_MAX: Final = 4_096
_NO_TABLE: Final = 0x20
"""What a block begins with when the client has followed: the table's size is 0."""


class HeaderReader:
    """The blocks of one connection, in order."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._decoder = Decoder(max_header_list_size=bytes_max)
        self._plain = False
        """The client has no table any more."""
        self._same: tuple[bytes, list[Header]] = (b"", [])
        """How the last block began, before what differs each time, and what that says."""

    def forbid_table(self) -> None:
        """The client has acknowledged our settings."""
        self._decoder.max_allowed_table_size = 0

    def read(self, block: bytes) -> list[Header]:
        """Raises `ConnectionBroken`."""
        if self._plain:
            same, known = self._same
            if not block.startswith(same):
                same, known = b"", []
            found = _read_plain(block, len(same), known)
            if found is not None:
                headers, differs_at, differs_number = found
                if not same and differs_at <= SAME_BYTES_MAX:
                    self._same = block[:differs_at], headers[:differs_number]
                return headers
        try:
            headers = [(bytes(name), bytes(value)) for name, value in self._decode(block)]
        except (HPACKError, UnicodeDecodeError, IndexError, ValueError) as wrong:
            text = f"a header block that cannot be read: {wrong}"
            raise ConnectionBroken(Error.COMPRESSION_ERROR, text) from wrong
        self._plain = self._decoder.max_allowed_table_size == 0
        return headers

    def _decode(self, block: bytes) -> Iterable[tuple[bytes, bytes]]:
        return self._decoder.decode(block, raw=True)


def _read_plain(
    block: bytes, start: int, known: list[Header]
) -> tuple[list[Header], int, int] | None:
    """(headers, where the first is that differs each time, how many of them are before it)

    Before `start` is what is `known`. None: something unusual; the library knows what to do.
    """
    found = known.copy()
    at, end = start, len(block)
    differs_at, differs_number = -1, 0
    try:
        while at < end:
            begin = at
            first = block[at]
            at += 1
            if first & 0x80:  # both from the static table
                found.append(_STATIC[first & 0x7F])
                continue
            if first & 0xE0 == _NO_TABLE:
                if first != _NO_TABLE:
                    return None
                continue
            index = first & (0x3F if first & 0x40 else 0x0F)
            if index:
                if index == (0x3F if first & 0x40 else 0x0F):  # a longer number
                    index += block[at]
                    at += 1
                name = _STATIC[index][0]
            else:
                size = block[at]
                at += 1
                if size & 0x7F == 0x7F:
                    return None
                stop = at + (size & 0x7F)
                name = block[at:stop]
                at = stop
                if size & 0x80:
                    name = _text(name)
            size = block[at]
            at += 1
            stop = at + (size & 0x7F)
            if size & 0x7F == 0x7F:
                more = block[at]
                at += 1
                if more & 0x80:
                    return None
                stop = at + 0x7F + more
            if stop > end:
                return None
            if differs_at < 0 and name in _DIFFER:
                differs_at, differs_number = begin, len(found)
            if name in LOOKED_AT:
                value = block[at:stop]
                found.append((name, _text(value) if size & 0x80 else value))
            at = stop
    except (IndexError, HPACKError):
        return None
    if differs_at < 0:
        differs_at, differs_number = end, len(found)
    return found, differs_at, differs_number


@lru_cache(maxsize=_CACHED_MAX)
def _text(coded: bytes) -> bytes:
    return bytes(decode_huffman(coded))


@lru_cache(maxsize=256)
def block_of(headers: tuple[Header, ...], status: int) -> bytes:
    """A block for a response; `status` 0: trailers, which have none."""
    parts = []
    if status == 200:
        parts.append(b"\x88")
    elif status:
        parts.append(b"\x08\x03%d" % status)
    for name, value in headers:
        parts += (b"\x00", _length(name), name, _length(value), value)
    return b"".join(parts)


def _length(text: bytes) -> bytes:
    """A string's length, which is not Huffman coded."""
    size = len(text)
    if size < 0x7F:
        return bytes((size,))
    size -= 0x7F
    out = bytearray((0x7F,))
    while size > 0x7F:
        out.append(size & 0x7F | 0x80)
        size >>= 7
    out.append(size)
    return bytes(out)
