"""Header blocks, all of them: HPACK with the table that a client fills.

    indexed field     1xxxxxxx                   name and value of a table's entry
    literal           01xxxxxx, then the value   goes into the table; x 0: the name is written out
                      0000xxxx or 0001xxxx       does not
    table size        001xxxxx                   before the first field of a block only

Entries 1 to 61 are the same for all clients, the others are what the client has written, the newest
first. Numbers are bounded, and so is what a block may say in all.

Source: RFC 7541.
"""

from typing import Final

from hpack import HPACKError
from hpack.table import HeaderTable

from popmq_proxy.front.http2.header_blocks.huffman import decode_huffman

Header = tuple[bytes, bytes]
STATIC: Final[tuple[Header, ...]] = ((b"", b""), *HeaderTable.STATIC_TABLE)
STATIC_MAX: Final = len(STATIC) - 1
TABLE_BYTES: Final = 4_096
"""Of a client's table, unless it makes it smaller."""
FIELD_BYTES: Final = 32
"""What a field counts for in a table and a list besides its name and value."""
NUMBER_BYTES_MAX: Final = 4


class TooLong(Exception):
    """A block says more than it may."""


class FieldReader:
    """The blocks of one connection, in order."""

    def __init__(self, bytes_max: int) -> None:
        """`bytes_max`: of a block's fields as they are read, each with `FIELD_BYTES` more."""
        self.table_bytes_max = TABLE_BYTES
        self.table: list[Header] = []
        """The newest last."""
        self._table_bytes = 0
        self._bytes_max = bytes_max

    def read(self, block: bytes) -> list[Header]:
        """All fields. Raises `HPACKError`, `IndexError` where the block is wrong, `TooLong`."""
        at, end = self._sizes(block), len(block)
        found: list[Header] = []
        left = self._bytes_max
        while at < end:
            first = block[at]
            if first & 0x80:
                index, at = _number(block, at, 0x7F)
                field = self._entry(index)
            elif first & 0x40:
                field, at = self._literal(block, at, 0x3F)
                self._add(field)
            elif first & 0x20:
                raise HPACKError("a table's size behind a field")
            else:
                field, at = self._literal(block, at, 0x0F)
            left -= len(field[0]) + len(field[1]) + FIELD_BYTES
            if left < 0:
                raise TooLong(f"header fields of more than {self._bytes_max} bytes")
            found.append(field)
        return found

    def _sizes(self, block: bytes) -> int:
        """What a block begins with; where its fields begin."""
        at = 0
        while at < len(block) and block[at] & 0xE0 == 0x20:
            size, at = _number(block, at, 0x1F)
            if size > TABLE_BYTES:
                raise HPACKError(f"a table of {size} bytes")
            self.table_bytes_max = size
            self._shrink(size)
        return at

    def _literal(self, block: bytes, at: int, index_max: int) -> tuple[Header, int]:
        index, at = _number(block, at, index_max)
        if index:
            name = self._entry(index)[0]
        else:
            name, at = _string(block, at)
        value, at = _string(block, at)
        return (name, value), at

    def _entry(self, index: int) -> Header:
        if not index or index > STATIC_MAX + len(self.table):
            raise IndexError(f"no entry {index}")
        return STATIC[index] if index <= STATIC_MAX else self.table[STATIC_MAX - index]

    def _add(self, field: Header) -> None:
        size = len(field[0]) + len(field[1]) + FIELD_BYTES
        self._shrink(self.table_bytes_max - size)
        if size <= self.table_bytes_max:
            self.table.append(field)
            self._table_bytes += size

    def _shrink(self, bytes_max: int) -> None:
        while self.table and self._table_bytes > bytes_max:
            name, value = self.table.pop(0)
            self._table_bytes -= len(name) + len(value) + FIELD_BYTES


def _number(block: bytes, at: int, most: int) -> tuple[int, int]:
    """(number, where it ends) of one whose first bits are those of `most`."""
    number = block[at] & most
    at += 1
    if number < most:
        return number, at
    shift = 0
    for _ in range(NUMBER_BYTES_MAX):
        byte = block[at]
        at += 1
        number += (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
    raise HPACKError("a number that does not end")


def _string(block: bytes, at: int) -> tuple[bytes, int]:
    coded = block[at] & 0x80
    size, at = _number(block, at, 0x7F)
    stop = at + size
    if stop > len(block):
        raise IndexError("a string beyond the block")
    text = block[at:stop]
    return (decode_huffman(text) if coded else text), stop
