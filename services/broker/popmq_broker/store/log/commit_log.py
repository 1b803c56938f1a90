"""The CommitLog: one sequence of records for all topics."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from popmq_broker.core.store.queue_entry import DAMAGED, QueueEntry
from popmq_broker.store.files.files import File
from popmq_broker.store.files.segments import Segments
from popmq_broker.store.log.batch import Batch
from popmq_common.errors import Corrupt, DiskFull
from popmq_common.records import record as rec
from popmq_common.records.record import Record

SEARCH_BYTES: Final = 64 * 1024
_MAGICS: Final = (rec.MAGIC_V1.to_bytes(4, signed=True), rec.MAGIC_V2.to_bytes(4, signed=True))


@dataclass(slots=True)
class ScanEnd:
    """Where a scan stopped and what the last whole record was."""

    end: int
    last: Record | None = None
    reason: str = "nothing was written there"


class CommitLog:
    def __init__(self, segments: Segments) -> None:
        self._segments = segments
        self.start = segments.start
        """The oldest record still there, or where the first one will be."""
        self.end = segments.start
        """Where the next record begins; set by recovery."""

    @property
    def segment_bytes(self) -> int:
        return self._segments.segment_bytes

    @property
    def files_end(self) -> int:
        """Behind the last file."""
        return self._segments.end

    def path(self, offset: int) -> Path:
        return self._segments.path(offset)

    def base(self, offset: int) -> int:
        return self._segments.base(offset)

    def batch(self) -> Batch:
        return Batch(self.end, self._segments.segment_bytes)

    def append(self, batch: Batch) -> None:
        """Write all of `batch` or nothing.

        Raises `DiskFull`: the log is as before. Another `OSError` leaves the log unusable.
        """
        try:
            for log_offset, data in batch.pieces():
                self._segments.write(log_offset, data)
        except DiskFull:
            self._segments.zero_from(self.end)
            raise
        self.end = batch.end

    def append_raw(self, data: bytes) -> None:
        """What another log of this file size holds at this place, of one file. Raises `OSError`."""
        self._segments.write(self.end, data)
        self.end += len(data)

    def raw(self, log_offset: int, bytes_max: int) -> bytes:
        """Its bytes from there, up to its end or the file's."""
        return self._segments.read(log_offset, min(bytes_max, self.end - log_offset))

    def read(self, log_offset: int, size_bytes: int) -> Record | None:
        """None when retention has deleted it. Raises `Corrupt`."""
        if log_offset < self.start:
            return None
        data = self._segments.read(log_offset, size_bytes)
        try:
            return rec.decode(data, where="", log_offset=log_offset)
        except Corrupt as wrong:  # the path is made only now: it costs as much as all the rest
            if log_offset == DAMAGED.log_offset:
                reason = "its entry there is not the one of this message"
                raise Corrupt(path="the message's queue", offset="?", reason=reason) from None
            reason = wrong.fields["reason"]
            raise Corrupt(path=self.path(log_offset), offset=log_offset, reason=reason) from None

    def size_at(self, log_offset: int) -> int:
        """Length of the record that begins there."""
        return rec.peek(self._segments.read(log_offset, rec.BLANK_BYTES))[0]

    def begins_at(self, log_offset: int) -> bool:
        """A record begins there, whole or not."""
        head = self._segments.read(log_offset, rec.START_BYTES)
        return (
            len(head) == rec.START_BYTES
            and head[4:8] in _MAGICS
            and rec.own_offset(head) == log_offset
        )

    def read_at(self, log_offset: int) -> Record | None:
        """`read` where the size is not known. Raises `Corrupt`."""
        if log_offset < self.start:
            return None
        return self.read(log_offset, self.size_at(log_offset))

    def read_bytes(self, log_offset: int, size_bytes: int) -> bytes | None:
        """The whole record as it lies in the log, checked. None when retention has deleted it.

        Raises `Corrupt`.
        """
        if log_offset < self.start:
            return None
        data = self._segments.read(log_offset, size_bytes)
        if not rec.is_whole(data, log_offset):
            self.read(log_offset, size_bytes)  # raises, unless it is whole in another way
        return data

    def read_run(self, entries: Iterable[QueueEntry], bytes_max: int) -> list[bytes]:
        """`read_bytes` of the first of these, until `bytes_max` are used up; ends before one that
        `read_bytes` has to tell something of."""
        records: list[bytes] = []
        start, read = self.start, self._segments.read
        for log_offset, size_bytes, _ in entries:
            if log_offset < start or bytes_max <= 0:
                break
            data = read(log_offset, size_bytes)
            if not rec.is_whole(data, log_offset):
                break
            records.append(data)
            bytes_max -= size_bytes
        return records

    def scan(self, start: int, into: ScanEnd) -> Iterator[tuple[Record, int]]:
        """(record, size) from `start`, a record's first byte, to where no whole record begins.

        `into` tells where that is, also while the scan is under way.
        """
        at = into.end = start
        while at < self._segments.end:
            file_end = self.base(at) + self.segment_bytes
            total, magic = rec.peek(self._segments.read(at, rec.BLANK_BYTES))
            if magic == rec.MAGIC_BLANK and total == file_end - at:
                at = into.end = file_end
                continue
            if total <= 0 or total > file_end - at:
                if total or magic:
                    into.reason = f"no record begins there, its length would be {total}"
                return
            try:
                data = self._segments.read(at, total)
                record = rec.decode(data, where="", log_offset=at)
            except Corrupt as wrong:
                into.reason = wrong.fields["reason"]
                return
            at += total
            into.end, into.last = at, record
            yield record, total

    def walk(self, start: int, end: int) -> Iterator[tuple[Record, int] | None]:
        """(record, size) of all that can be read from `start`, a record's first byte, to before
        `end`. None: what is there is damaged, and others have their turn while it is passed."""
        at = start
        while at < end:
            scan_end = ScanEnd(at)
            for record, size_bytes in self.scan(at, scan_end):
                if record.log_offset >= end:
                    return
                yield record, size_bytes
            behind = None
            for place in self._search(scan_end.end + 1, end):
                behind = place
                yield None
            if behind is None:
                return
            at = behind

    def _search(self, start: int, end: int) -> Iterator[int | None]:
        """Where the next whole record begins before `end`, at last; None for each piece before."""
        for base, piece in self._segments.data_from(start):
            if base >= end:
                return
            for place in _magic_places(piece):
                if start <= base + place < end and self._is_record(base + place):
                    yield base + place
                    return
            yield None

    def last_record(self, file_end: int) -> Record | None:
        """Of the file that ends there: found from behind, without reading what is before it."""
        base, high = file_end - self.segment_bytes, file_end
        while high > base:
            low = max(base, high - SEARCH_BYTES)
            piece = self._segments.read(low, min(high + 3, file_end) - low)
            for place in sorted(_magic_places(piece), reverse=True):
                if low + place >= base and self._is_record(low + place):
                    at = low + place
                    total, _ = rec.peek(self._segments.read(at, rec.BLANK_BYTES))
                    return self.read(at, total)
            high = low
        return None

    def forget_file(self, base: int) -> File:
        """The oldest file's records are gone; the caller closes and removes it."""
        assert base == self._segments.start
        file = self._segments.forget(base)
        self.start = self._segments.start
        return file

    def record_behind(self, offset: int) -> int | None:
        """Where a whole record begins at or behind `offset`, after damage or a hole."""
        for base, piece in self._segments.data_from(offset):
            for place in _magic_places(piece):
                if (at := base + place) >= offset and self._is_record(at):
                    return at
        return None

    def _is_record(self, at: int) -> bool:
        total, _ = rec.peek(self._segments.read(at, rec.BLANK_BYTES))
        data = self._segments.read(at, total) if total > 0 else b""
        try:
            rec.decode(data, where="", log_offset=at)
        except Corrupt:
            return False
        return True

    def is_blank_from(self, offset: int) -> bool:
        """Nothing but zeros follows; holes of sparse files are not read."""
        return all(piece.count(0) == len(piece) for _, piece in self._segments.data_from(offset))

    def truncate(self, end: int) -> None:
        self._segments.zero_from(end)

    def sync(self, start: int, end: int) -> None:
        self._segments.sync(start, end)

    @property
    def closed(self) -> bool:
        return self._segments.closed

    def close(self) -> None:
        self._segments.close()


def _magic_places(piece: bytes) -> Iterator[int]:
    """Where in `piece` records may begin: 4 bytes before a magic."""
    for magic in _MAGICS:
        at = piece.find(magic)
        while at >= 0:
            yield at - 4
            at = piece.find(magic, at + 1)
