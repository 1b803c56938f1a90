"""Header blocks as requests have them, fast where clients are plain.

The first blocks of a connection are read to the last bit (fields.py), so that a client whose
encoder is wrong is told soon. A client that fills its table is asked then to do without: a block
says all by itself afterwards, and what nobody looks at need not even be decoded. One that goes on
with its table is read as before; so is one that never had any.

Source: RFC 7541; RFC 9113, 8.2 and 8.3.
"""

import re
from functools import lru_cache
from typing import Final

from hpack import HPACKError

from popmq_proxy.front.http2.fields import STATIC, STATIC_MAX, FieldReader, Header, TooLong
from popmq_proxy.front.http2.huffman import decode_huffman
from popmq_proxy.front.http2.wire import ConnectionBroken, Error

LOOKED_AT: Final = frozenset(
    (
        b":method",
        b":path",
        b":scheme",
        b":authority",
        b"te",
        b"content-type",
        b"content-length",
        b"grpc-timeout",
        b"grpc-encoding",
        b"x-mq-client-id",
        b"x-mq-namespace",
        b"x-mq-language",
        b"x-popmq-admin-secret",
    )
)
"""The others are skipped where that is possible."""
_PSEUDO, _REGULAR, _SKIPPED, _FORBIDDEN = range(4)
_USUAL: Final = (
    *(b"user-agent", b"accept-encoding", b"grpc-accept-encoding", b"authorization"),
    *(b"x-mq-request-id", b"x-mq-date-time", b"x-mq-client-version", b"x-mq-protocol"),
    *(b"x-mq-session-token", b"traceparent", b"tracestate"),
)
_WRONG: Final = (
    *(b":status", b"connection", b"keep-alive", b"proxy-connection"),
    *(b"transfer-encoding", b"upgrade"),
)
_KINDS: Final[dict[bytes, int]] = {
    **dict.fromkeys(_USUAL, _SKIPPED),
    **dict.fromkeys(_WRONG, _FORBIDDEN),
    **{name: _PSEUDO if name.startswith(b":") else _REGULAR for name in LOOKED_AT},
}
_NAME: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+")
SAME_BYTES_MAX: Final = 1_024
"""Remembered of a connection's last block."""
_DIFFER: Final = frozenset((b"grpc-timeout", b"x-mq-request-id", b"x-mq-date-time"))
"""No two requests have the same; what clients write before the first of them is mostly alike."""
_CACHED_MAX: Final = 4_096
_CACHED_BYTES_MAX: Final = 64
"""Longer strings are not remembered."""
LONG_BYTES: Final = 1_024
"""Blocks that are longer cost time."""
PLAIN_FIELDS_MAX: Final = 64
"""Of a block whose fields that nobody looks at are skipped."""
PLAIN_SHARE: Final = 3 / 8
"""Of the bound, for such a block. With so few fields it cannot mean more than the bound, though a
byte of it may mean 1.6 and a field is 32 larger than what it says; so that needs no counting."""
CHECKED_BLOCKS: Final = 8
"""Of a connection, read whole before anything is skipped."""


class HeaderReader:
    """The blocks of one connection, in order."""

    def __init__(self, bytes_max: int) -> None:
        self.malformed = ""
        """Why the last block is no good request, though it could be read."""
        self.long_bytes = 0
        """What it has beyond `LONG_BYTES`."""
        self._bytes_max = bytes_max
        self._short_max = min(LONG_BYTES, bytes_max)
        self._plain_max = int(bytes_max * PLAIN_SHARE)
        self._count = 0
        self._fields = FieldReader(bytes_max)
        self._same = b""
        """How the last block began, before what differs each time; and what that says."""
        self._known: list[Header] = []
        self._known_regular = False

    @property
    def wants_no_table(self) -> bool:
        """Once in a connection: its client should write what says all by itself."""
        return self._count == CHECKED_BLOCKS and bool(self._fields.table)

    def read(self, block: bytes) -> list[Header]:
        """What is looked at. Raises `ConnectionBroken`."""
        size = len(block)
        self.malformed = ""
        self.long_bytes = 0
        self._count += 1
        if size > self._short_max:
            self.long_bytes = size - self._short_max
            if size > self._bytes_max:
                text = f"a header block of {size} bytes, the limit is {self._bytes_max}"
                raise ConnectionBroken(Error.ENHANCE_YOUR_CALM, text)
        try:
            plain = size <= self._plain_max and not self._fields.table
            if plain and self._count > CHECKED_BLOCKS:
                found = self._read_plain(block)
                if found is not None:
                    return found
            fields = self._fields.read(block)
        except TooLong as much:  # mypyc knows one type of each name
            raise ConnectionBroken(Error.ENHANCE_YOUR_CALM, str(much)) from much
        except (HPACKError, IndexError) as wrong:
            text = f"a header block that cannot be read: {wrong}"
            raise ConnectionBroken(Error.COMPRESSION_ERROR, text) from wrong
        self.malformed = _wrong_with(fields)
        return [field for field in fields if field[0] in LOOKED_AT]

    def _read_plain(self, block: bytes) -> list[Header] | None:
        """None: it has something unusual, or much. Raises as `FieldReader.read` does."""
        found: list[Header] = []
        at, end, regular = 0, len(block), False
        differs_at, known_count, known_regular = end, -1, False
        if self._same and block.startswith(self._same):
            found, regular = self._known.copy(), self._known_regular
            at, differs_at = len(self._same), 0
        left = PLAIN_FIELDS_MAX
        while at < end:
            begin = at
            first = block[at]
            at += 1
            coded = 0
            if first & 0x80:  # both from the static table
                index = first & 0x7F
                if not 0 < index <= STATIC_MAX:
                    return None
                name, value = STATIC[index]
            else:
                if first & 0x60 and (not first & 0x40 or self._fields.table_bytes_max):
                    return None
                index = first & (0x3F if first & 0x40 else 0x0F)
                if index:
                    if index == (0x3F if first & 0x40 else 0x0F):  # a longer number
                        index += block[at]
                        at += 1
                        if index > STATIC_MAX:
                            return None
                    name = STATIC[index][0]
                else:
                    size = block[at]
                    if size & 0x7F == 0x7F:
                        return None
                    stop = at + 1 + (size & 0x7F)
                    name = block[at + 1 : stop]
                    at = stop
                    if size & 0x80:
                        name = _text(name)
                size = block[at]
                at += 1
                coded = size & 0x80
                stop = at + (size & 0x7F)
                if size & 0x7F == 0x7F:
                    size, at = _more(block, at)
                    stop = at + size
                if stop > end:
                    raise IndexError("a string beyond the block")
                value = block[at:stop]
                at = stop
            left -= 1
            if not left:
                return None
            kind = _KINDS.get(name, -1)
            if not 0 <= kind <= _SKIPPED or (kind == _PSEUDO and regular):
                self.malformed = self.malformed or _wrong_with([(name, b"")], regular=regular)
            if kind:
                if differs_at == end and name in _DIFFER:
                    differs_at, known_count, known_regular = begin, len(found), regular
                regular = True
            if 0 <= kind <= _REGULAR:
                if coded:
                    value = _text(value)
                found.append((name, value))
        if 0 < differs_at <= SAME_BYTES_MAX and not self.malformed:
            whole = known_count < 0
            self._same = block[:differs_at]
            self._known = found.copy() if whole else found[:known_count]
            self._known_regular = regular if whole else known_regular
        return found


def _wrong_with(fields: list[Header], *, regular: bool = False) -> str:
    """Nothing, or what makes fields malformed; `regular`: there were others than pseudo-headers."""
    for name, _ in fields:
        kind = _KINDS.get(name, -1)
        if kind == _PSEUDO and regular:
            return "a pseudo-header behind others"
        if kind == _FORBIDDEN or (kind < 0 and not _NAME.fullmatch(name)):
            return f"the field {name!r}"
        regular = regular or kind != _PSEUDO
    return ""


def _text(coded: bytes) -> bytes:
    return _remembered(coded) if len(coded) <= _CACHED_BYTES_MAX else decode_huffman(coded)


def _more(block: bytes, at: int) -> tuple[int, int]:
    """(length, where it ends) of a string of 127 bytes and more; the first bits have been read."""
    size, shift = 0x7F, 0
    while block[at] & 0x80 and shift < 14:
        size += (block[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return size + (block[at] << shift), at + 1


_remembered = lru_cache(maxsize=_CACHED_MAX)(decode_huffman)


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
