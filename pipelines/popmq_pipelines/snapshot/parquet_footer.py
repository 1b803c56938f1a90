"""The footer of a Parquet file, in an order that does not change from one JVM to the next.

Java's Parquet writer keeps the encodings of a column in a hash set of constants, whose hashes are
where they happen to lie in memory: the same rows make footers that list `encodings` in another
order. No reader cares, but it is the only thing in which the files of two runs differ. Here they
are sorted in place, which changes no length.

    file      "PAR1" · data · footer · u32 length of the footer, little endian · "PAR1"
    footer    Thrift's compact protocol: FileMetaData.row_groups (4) · RowGroup.columns (1) ·
              ColumnChunk.meta_data (3) · ColumnMetaData.encodings (2), a list of i32

Source: parquet-format's parquet.thrift, Thrift's thrift-compact-protocol.md.
"""

from pathlib import Path
from struct import Struct
from typing import Final

MAGIC: Final = b"PAR1"
_TAIL: Final = Struct("<I4s")
_ENCODINGS: Final = (4, 1, 3, 2)
_STOP = 0
_BOOLEANS: Final = (1, 2)
_BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT, _UUID = 3, 7, 8, 9, 10, 11, 12, 13
_VARINTS: Final = (4, 5, 6)
_FIXED_BYTES: Final = {_BYTE: 1, _DOUBLE: 8, _UUID: 16}


class NoFooter(Exception):
    """A file is no Parquet file, or its footer is none that this program can read."""


def put_in_order(path: Path) -> None:
    """Of one file, which nobody reads yet. Raises `NoFooter`, `OSError`."""
    with open(path, "r+b") as file:
        size_bytes = file.seek(0, 2)
        if size_bytes < len(MAGIC) + _TAIL.size:
            raise NoFooter(f"{path}: {NoFooter.__doc__}")
        file.seek(-_TAIL.size, 2)
        length, magic = _TAIL.unpack(file.read(_TAIL.size))
        if magic != MAGIC or length > size_bytes - len(MAGIC) - _TAIL.size:
            raise NoFooter(f"{path}: {NoFooter.__doc__}")
        file.seek(-_TAIL.size - length, 2)
        found = file.read(length)
        ordered = in_order(found)
        if ordered != found:
            file.seek(-_TAIL.size - length, 2)
            file.write(ordered)


def in_order(footer: bytes) -> bytes:
    """The same, each list of encodings sorted. Raises `NoFooter`."""
    walk = _Walk(footer)
    try:
        walk.struct(())
    except (IndexError, RecursionError) as wrong:
        raise NoFooter(NoFooter.__doc__) from wrong
    return bytes(walk.data)


class _Walk:
    """Through one footer, from its first byte to its last."""

    def __init__(self, footer: bytes) -> None:
        self.data = bytearray(footer)
        self._at = 0

    def struct(self, path: tuple[int, ...]) -> None:
        """`path`: the numbers of the fields that led here."""
        number = 0
        while (head := self._byte()) != _STOP:
            step, kind = head >> 4, head & 15
            number = number + step if step else _unzigzag(self._varint())
            if kind not in _BOOLEANS:  # of a field, the kind is the value
                self._value(kind, (*path, number))

    def _value(self, kind: int, path: tuple[int, ...]) -> None:
        if kind in _VARINTS:
            self._varint()
        elif kind in _FIXED_BYTES:
            self._at += _FIXED_BYTES[kind]
        elif kind == _BINARY:
            size_bytes = self._varint()
            self._at += size_bytes
        elif kind in (_LIST, _SET):
            self._list(path)
        elif kind == _MAP:
            self._map(path)
        elif kind == _STRUCT:
            self.struct(path)
        elif kind in _BOOLEANS:
            self._at += 1
        else:
            raise NoFooter(NoFooter.__doc__)

    def _list(self, path: tuple[int, ...]) -> None:
        head = self._byte()
        count, kind = head >> 4, head & 15
        if count == 15:
            count = self._varint()
        begin = self._at
        for _ in range(count):
            self._value(kind, path)
        if path == _ENCODINGS and self._at == begin + count:  # a byte each: there are ten
            self.data[begin : self._at] = sorted(self.data[begin : self._at])

    def _map(self, path: tuple[int, ...]) -> None:
        count = self._varint()
        if count:
            kinds = self._byte()
            for _ in range(count):
                self._value(kinds >> 4, path)
                self._value(kinds & 15, path)

    def _byte(self) -> int:
        found = self.data[self._at]
        self._at += 1
        return found

    def _varint(self) -> int:
        found = shift = 0
        while True:
            byte = self._byte()
            found |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return found


def _unzigzag(number: int) -> int:
    return (number >> 1) ^ -(number & 1)
