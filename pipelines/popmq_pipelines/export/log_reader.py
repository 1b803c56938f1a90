"""Read the CommitLog of a data directory without touching it, also while a broker writes to it.

A scan goes from the first file on to where no whole record begins. That place is the end of the
log if the broker says so, or if it lies behind everything the broker knew to be on disk: there a
record may be half written. Anywhere else it is damage. The scan goes on at the next whole record,
and `LogScan.problem` says that something went unread: an audit of half a log must not be green.

A scan that is given an `until` by the broker itself ends there, and what lies behind it is not
looked at; one that is given a `start_from` begins there, which must be where a record does.

Files are read, not mapped: a mapped file that the broker shortens would end the reader.
"""

from collections.abc import Generator, Iterator
from pathlib import Path
from struct import Struct
from typing import BinaryIO, Final, NamedTuple

from popmq_common.errors import Corrupt
from popmq_common.records import record as rec
from popmq_common.records.record import Record

READ_BUFFER_BYTES: Final = 1 << 20
_FLUSHED = Struct(">q")
_FLUSHED_AT: Final = 24  # of the file `checkpoint`: the log is on disk up to here
_BODY_CRC = Struct(">i")
_BODY_CRC_AT: Final = 8


class Stored(NamedTuple):
    record: Record
    size_bytes: int
    body_crc: int
    data: bytes
    """The record as it lies there."""


class _File(NamedTuple):
    path: Path
    base: int
    size_bytes: int
    begun: bool


class LogScan:
    """One pass over the log. `end` and `problem` hold once the iteration is over."""

    def __init__(
        self,
        folder: Path,
        *,
        flushed: int = 0,
        start_from: int | None = None,
        until: int | None = None,
    ) -> None:
        """`flushed`: what is known to be on disk. Raises `FileNotFoundError`: no such folder."""
        self._files = _list_files(folder)
        self._flushed = max(flushed, until or 0)
        self._until = until
        self.log_start = self._files[0].base if self._files else 0
        """Where the log's first file begins."""
        self.start = self.log_start if start_from is None else start_from
        self.end = self.start
        self.problem: str | None = None

    def __iter__(self) -> Iterator[Stored]:
        self.end, self.problem = self.start, None
        files = [file for file in self._files if file.base + file.size_bytes > self.start]
        for i, file in enumerate(files):
            if self.end == self._until:
                return
            if file.base > self.end or (i and file.base != self.end):
                if file.begun:
                    self.problem = f"the log has no file for offsets {self.end} to {file.base}"
                else:
                    self._judge_end([])
                return
            complete = yield from self._records(file)
            if not complete:
                self._judge_end(files[i + 1 :])
                return
        self._judge_end([])

    def _records(self, file: _File) -> Generator[Stored, None, bool]:
        """Returns whether the file ended as a full one does, so that the next one goes on."""
        with open(file.path, "rb", buffering=READ_BUFFER_BYTES) as source:
            at = self.end - file.base
            source.seek(at)
            while at + rec.BLANK_BYTES <= file.size_bytes and self.end != self._until:
                remaining = file.size_bytes - at
                head = source.read(rec.BLANK_BYTES)
                total, magic = rec.peek(head)
                if magic == rec.MAGIC_BLANK and total == remaining:
                    self.end = file.base + file.size_bytes
                    return True
                stored = None
                if rec.BLANK_BYTES < total <= remaining:
                    stored = _decode(source, head, total, file, at)
                if stored is None:
                    if self.end >= self._flushed:
                        return False
                    behind = _next_record(source, file, at + 1)
                    if file.base + behind >= self._flushed:
                        return False  # nothing is left of what was on disk
                    self._pass_over(file.base + behind)
                    at = behind
                    source.seek(at)
                    continue
                at += total
                self.end = file.base + at
                yield stored
        return self.end == file.base + file.size_bytes

    def _pass_over(self, to: int) -> None:
        """Damage, up to where the next whole record begins, or the next file."""
        if self.problem is None:
            self.problem = (
                f"no whole record at log offset {self.end}, but the log is on disk "
                f"up to {self._flushed}"
            )
        self.end = to

    def _judge_end(self, later: list[_File]) -> None:
        if self.problem is not None:
            return
        if self._until is not None and self.end >= self._until:
            if self.end > self._until:
                self.problem = f"no record ends at log offset {self._until}, where the broker's do"
        elif self.end < self._flushed:
            self.problem = (
                f"no whole record at log offset {self.end}, but the log is on disk "
                f"up to {self._flushed}"
            )
        elif any(file.begun for file in later):
            self.problem = f"no whole record at log offset {self.end}, but later files hold some"


def flushed_mark(data_dir: Path) -> int:
    """Up to where the broker last knew the log to be on disk; 0 when it never said."""
    try:
        page = (data_dir / "checkpoint").read_bytes()
    except FileNotFoundError:
        return 0
    if len(page) < _FLUSHED_AT + _FLUSHED.size:
        return 0
    (flushed,) = _FLUSHED.unpack_from(page, _FLUSHED_AT)
    return max(0, int(flushed))


def _list_files(folder: Path) -> list[_File]:
    """Listed before anything is read: a file that is begun now has full ones before it."""
    files = []
    for path in sorted(path for path in folder.iterdir() if path.name.isdigit()):
        with open(path, "rb") as source:
            head = source.read(rec.BLANK_BYTES)
        files.append(_File(path, int(path.name), path.stat().st_size, any(head)))
    return files


def _next_record(source: BinaryIO, file: _File, at: int) -> int:
    """Of the file, at `at` or behind it; its end when there is none."""
    while at < file.size_bytes:
        source.seek(at)
        piece = source.read(READ_BUFFER_BYTES)
        for place in sorted(_magic_places(piece)):
            begin = at + place
            if begin < 0:
                continue
            source.seek(begin)
            head = source.read(rec.BLANK_BYTES)
            total, _ = rec.peek(head)
            fits = rec.BLANK_BYTES < total <= file.size_bytes - begin
            if fits and _decode(source, head, total, file, begin) is not None:
                return begin
            if rec.peek(head)[1] == rec.MAGIC_BLANK and total == file.size_bytes - begin:
                return begin
        if len(piece) < READ_BUFFER_BYTES:
            break
        at += len(piece) - 7  # a head may lie across two pieces
    return file.size_bytes


def _magic_places(piece: bytes) -> Iterator[int]:
    """Where in `piece` a record, or the blank at a file's end, may begin."""
    for magic in (rec.MAGIC_V1, rec.MAGIC_V2, rec.MAGIC_BLANK):
        sought = magic.to_bytes(4, signed=True)
        at = piece.find(sought)
        while at >= 0:
            yield at - 4
            at = piece.find(sought, at + 1)


def _decode(source: BinaryIO, head: bytes, total: int, file: _File, at: int) -> Stored | None:
    data = head + source.read(total - len(head))
    try:
        record = rec.decode(data, where=str(file.path), log_offset=file.base + at)
    except Corrupt:
        return None
    (body_crc,) = _BODY_CRC.unpack_from(data, _BODY_CRC_AT)
    return Stored(record, total, body_crc, data)
