"""Header blocks as requests have them, fast where clients are plain.

The first blocks of a connection are read to the last bit (fields.py), so that a client whose
encoder is wrong is told soon. A client that fills its table is asked then to do without: a block
says all by itself afterwards, and what nobody looks at need not even be decoded. One that goes on
with its table is read as before; so is one that never had any.

Source: RFC 7541; RFC 9113, 8.2 and 8.3.
"""

import re
from functools import lru_cache
from typing import Any, Final

from hpack import HPACKError

from popmq_proxy.front.http2.header_blocks.fields import (
    STATIC,
    STATIC_MAX,
    FieldReader,
    Header,
    TooLong,
)
from popmq_proxy.front.http2.header_blocks.huffman import decode_huffman
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
        b"authorization",
        b"x-mq-date-time",
    )
)
"""The others are skipped where that is possible."""
_PSEUDO, _REGULAR, _SKIPPED, _FORBIDDEN = range(4)
_USUAL: Final = (
    *(b"user-agent", b"accept-encoding", b"grpc-accept-encoding", b"x-mq-request-id"),
    *(b"x-mq-client-version", b"x-mq-protocol", b"x-mq-session-token"),
    *(b"traceparent", b"tracestate"),
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
SAME_BYTES_MAX: Final = 6_144
"""Remembered of a connection's blocks, in all: two methods of a Go client that signs, in each of
its seven orders."""
PART_BYTES: Final = 64
"""What a part counts for besides."""
SAME_MAX: Final = 8
"""Ways in which a part of its blocks was written: one for each method, say."""
FORGOTTEN_MAX: Final = 4
"""So often in a connection more ways of writing were met than are remembered; then nothing more is
remembered. Go's clients write their metadata in an order of their own each time, but there are only
so many."""
PLACES_MAX: Final = 8
"""Of such parts in a block."""
_TIMEOUT: Final = b"grpc-timeout"
_SIGNATURE: Final = b"authorization"
_DATE: Final = b"x-mq-date-time"
_DIFFER: Final = frozenset((_TIMEOUT, _SIGNATURE, _DATE, b"x-mq-request-id"))
"""No two requests have the same, or those of one second alone; what clients write before, between
and behind them is mostly alike."""
_CACHED_MAX: Final = 4_096
_CACHED_BYTES_MAX: Final = 64
"""Longer strings are not remembered,"""
_SIGNATURE_BYTES_MAX: Final = 512
"""signatures apart, of which a client makes one a second."""
LONG_BYTES: Final = 1_024
"""Blocks that are longer cost time."""
PLAIN_FIELDS_MAX: Final = 64
"""Of a block whose fields that nobody looks at are skipped."""
PLAIN_SHARE: Final = 3 / 8
"""Of the bound, for such a block. With so few fields it cannot mean more than the bound, though a
byte of it may mean 1.6 and a field is 32 larger than what it says; so that needs no counting."""
KNOWN: Final[list[Header]] = []
CHECKED_BLOCKS: Final = 8
"""Of a connection, read whole before anything is skipped."""


class HeaderPart:
    """What stood in a block up to the value of the first field that differs each time, from there
    to the next such value, or behind the last one."""

    __slots__ = ("data", "differs", "following", "is_signed", "prepared")

    def __init__(self, data: bytes, differs: bytes) -> None:
        self.data = data
        self.differs = differs
        """The name of the field whose value comes next; empty: the block ends here."""
        self.is_signed = differs in (_SIGNATURE, _DATE)
        self.following: list[HeaderPart] = []
        """The longest first."""
        self.prepared: Any = None
        """At the end of a block: what its user made of it, the same for all that are alike."""


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
        self.alike: HeaderPart | None = None
        """The end of the last block, if it was written like an earlier one but for the values that
        differ each time."""
        self.timeout: bytes | None = None
        """Of such a block: its grpc-timeout."""
        self.signature: tuple[bytes, bytes] | None = None
        """Of such a block that is signed: its authorization and x-mq-date-time."""
        self._again: tuple[bytes, bytes, bytes, bytes] = b"", b"", b"", b""
        """The last authorization and x-mq-date-time, each as it came (its length, the value) and as
        text: a client's calls of one second have the same."""
        self._again_signature: tuple[bytes, bytes] | None = None
        self._parts: list[HeaderPart] = []
        """How the last blocks began, the longest first."""
        self._parts_bytes = 0
        self._forgotten_count = 0

    @property
    def wants_no_table(self) -> bool:
        """Once in a connection: its client should write what says all by itself."""
        return self._count == CHECKED_BLOCKS and bool(self._fields.table)

    def read(self, block: bytes) -> list[Header]:
        """What is looked at; `KNOWN` if `alike` has been prepared. Raises `ConnectionBroken`."""
        size = len(block)
        self.malformed = ""
        self.long_bytes = 0
        self.alike = self.timeout = self.signature = None
        self._count += 1
        if size > self._short_max:
            self.long_bytes = size - self._short_max
            if size > self._bytes_max:
                text = f"a header block of {size} bytes, the limit is {self._bytes_max}"
                raise ConnectionBroken(Error.ENHANCE_YOUR_CALM, text)
        try:
            plain = size <= self._plain_max and not self._fields.table
            if plain and self._count > CHECKED_BLOCKS:
                alike = self.alike = self._find_alike(block) if self._parts else None
                if alike is not None and alike.prepared is not None:
                    return KNOWN
                found = self._read_plain(block)
                if found is not None:
                    return found
            self._parts, self._parts_bytes = [], 0  # written with a table they would say more
            fields = self._fields.read(block)
        except TooLong as much:  # mypyc knows one type of each name
            raise ConnectionBroken(Error.ENHANCE_YOUR_CALM, str(much)) from much
        except (HPACKError, IndexError) as wrong:
            text = f"a header block that cannot be read: {wrong}"
            raise ConnectionBroken(Error.COMPRESSION_ERROR, text) from wrong
        self.malformed = _wrong_with(fields)
        return [field for field in fields if field[0] in LOOKED_AT]

    def _find_alike(self, block: bytes) -> HeaderPart | None:
        """The end of an earlier block that was written like this one. Raises `IndexError`."""
        parts, at, end, timeout = self._parts, 0, len(block), None
        signature = date = b""
        again = self._again
        while True:
            for part in parts:
                if block.startswith(part.data, at):
                    break
            else:
                return None
            at += len(part.data)
            name = part.differs
            if not name:
                if at != end:
                    return None
                self.timeout = timeout
                if signature:
                    self.signature = self._signature_of(signature, date)
                return part
            parts = part.following
            if part.is_signed:
                raw = again[0] if name == _SIGNATURE else again[2]
                if raw and block.startswith(raw, at):
                    if name == _SIGNATURE:
                        signature = again[1]
                    else:
                        date = again[3]
                    at += len(raw)
                    continue
            begin, size, at = at, block[at], at + 1
            coded = size & 0x80
            size &= 0x7F
            if size == 0x7F:
                size, at = _more(block, at)
            stop = at + size
            if stop > end:
                raise IndexError("a string beyond the block")
            if name == _TIMEOUT:
                value = block[at:stop]
                timeout = _text(value) if coded else value
            elif name == _SIGNATURE:
                value = block[at:stop]
                signature = _signature_text(value) if coded else value
                if stop - begin <= _SIGNATURE_BYTES_MAX:
                    again = self._again = block[begin:stop], signature, again[2], again[3]
            elif name == _DATE:
                value = block[at:stop]
                date = _text(value) if coded else value
                if stop - begin <= _SIGNATURE_BYTES_MAX:
                    again = self._again = again[0], again[1], block[begin:stop], date
            at = stop

    def _signature_of(self, authorization: bytes, date: bytes) -> tuple[bytes, bytes]:
        """The same object for the same signature, so that it is known by one look."""
        last = self._again_signature
        if last is None or last[0] is not authorization or last[1] is not date:
            last = self._again_signature = authorization, date
        return last

    def _read_plain(self, block: bytes) -> list[Header] | None:
        """None: it has something unusual, or much. Raises as `FieldReader.read` does."""
        found: list[Header] = []
        ends: list[tuple[int, int, bytes]] = []
        """Of each part: where it ends, where the value behind it does, and whose value that is."""
        at, end, count, regular = 0, len(block), 0, False
        while at < end:
            field = self._field(block, at)
            count += 1
            if field is None or count >= PLAIN_FIELDS_MAX:
                return None
            name, value, coded, stop, value_at = field
            kind = _KINDS.get(name, -1)
            if not 0 <= kind <= _SKIPPED or (kind == _PSEUDO and regular):
                self.malformed = self.malformed or _wrong_with([(name, b"")], regular=regular)
            regular = regular or kind != _PSEUDO
            if 0 <= kind <= _REGULAR:
                found.append((name, _decoded(name, value) if coded else value))
            if name in _DIFFER:
                ends.append((value_at, stop, name))
            at = stop
        ends.append((end, end, b""))
        in_table = not all(value_at for value_at, _, _ in ends)  # what differs has no place then
        if self.alike is None and not (self.malformed or in_table or len(ends) > PLACES_MAX):
            self._remember(block, ends)
        return found

    def _field(self, block: bytes, at: int) -> tuple[bytes, bytes, int, int, int] | None:
        """(name, value, whether the value is Huffman coded, where the field ends, where the value's
        length stands; 0: both are from the table)"""
        first = block[at]
        if first & 0x80:  # both from the static table
            index = first & 0x7F
            if not 0 < index <= STATIC_MAX:
                return None
            name, value = STATIC[index]
            return name, value, 0, at + 1, 0
        if first & 0x60 and (not first & 0x40 or self._fields.table_bytes_max):
            return None
        at += 1
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
        value_at = at
        size = block[at]
        at += 1
        stop = at + (size & 0x7F)
        if size & 0x7F == 0x7F:
            length, at = _more(block, at)
            stop = at + length
        if stop > len(block):
            raise IndexError("a string beyond the block")
        return name, block[at:stop], size & 0x80, stop, value_at

    def _remember(self, block: bytes, ends: list[tuple[int, int, bytes]]) -> None:
        """How this block was written, but for the values that differ; what it shares with earlier
        ones is there already."""
        if self._forgotten_count == FORGOTTEN_MAX:
            return
        parts, begin = self._parts, 0
        for stop, behind, name in ends:
            data = block[begin:stop]
            same = [part for part in parts if part.data == data and part.differs == name]
            if not same:
                self._parts_bytes += len(data) + PART_BYTES
                if self._parts_bytes > SAME_BYTES_MAX or len(parts) == SAME_MAX:
                    self._forget()
                    return
                same = [HeaderPart(data, name)]
                parts.append(same[0])
                parts.sort(key=_longest_first)
            parts, begin = same[0].following, behind

    def _forget(self) -> None:
        self._parts, self._parts_bytes = [], 0
        self._forgotten_count += 1


def _longest_first(part: HeaderPart) -> int:
    return -len(part.data)


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


def _decoded(name: bytes, coded: bytes) -> bytes:
    return _signature_text(coded) if name == _SIGNATURE else _text(coded)


def _signature_text(coded: bytes) -> bytes:
    if len(coded) > _SIGNATURE_BYTES_MAX:
        return decode_huffman(coded)
    return _remembered_signature(coded)


_remembered = lru_cache(maxsize=_CACHED_MAX)(decode_huffman)
_remembered_signature = lru_cache(maxsize=_CACHED_MAX)(decode_huffman)


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
