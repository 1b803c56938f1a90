"""The CommitLog: one sequence of records for all topics."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from popmq_broker.core import record as rec
from popmq_broker.core.record import Record
from popmq_broker.store.segments import Segments
from popmq_common.errors import BadRequest, Corrupt, DiskFull


@dataclass(slots=True)
class ScanEnd:
    """Where a scan stopped and what the last whole record was."""

    end: int
    last: Record | None = None


class CommitLog:
    def __init__(self, folder: Path, segment_bytes: int) -> None:
        self._segments = Segments(folder, segment_bytes)
        self.end = self._segments.start
        """Where the next record begins; set by recovery."""

    @property
    def start(self) -> int:
        return self._segments.start

    @property
    def segment_bytes(self) -> int:
        return self._segments.segment_bytes

    def path(self, offset: int) -> Path:
        return self._segments.path(offset)

    def base(self, offset: int) -> int:
        return self._segments.base(offset)

    def place(self, sizes_bytes: list[int]) -> list[int]:
        """Where records of these sizes go, rolling to the next file as needed.

        Raises `BadRequest` for a record that no file can hold.
        """
        at = self.end
        places = []
        for size in sizes_bytes:
            if size + rec.BLANK_BYTES > self.segment_bytes:
                raise BadRequest(
                    reason=f"a record of {size} bytes does not fit in a file of segment_bytes="
                    f"{self.segment_bytes}"
                )
            file_end = self.base(at) + self.segment_bytes
            if at + size + rec.BLANK_BYTES > file_end:
                at = file_end
            places.append(at)
            at += size
        return places

    def append(self, places: list[int], records: list[bytes]) -> None:
        """Write records where `place` put them; all or nothing. Raises `DiskFull`."""
        old_end = self.end
        try:
            at = self.end
            run: list[bytes] = []
            run_start = at
            for place, data in zip(places, records, strict=True):
                if place != at:  # the file is full: a blank, then the next one
                    run.append(rec.blank(place - at))
                    self._segments.write(run_start, b"".join(run))
                    run, run_start = [], place
                run.append(data)
                at = place + len(data)
            self._segments.write(run_start, b"".join(run))
        except DiskFull:
            self._segments.zero_from(old_end)
            raise
        self.end = at

    def read(self, log_offset: int, size_bytes: int) -> Record | None:
        """None when retention has deleted it. Raises `Corrupt`."""
        if log_offset < self.start:
            return None
        data = self._segments.read(log_offset, size_bytes)
        return rec.decode(data, where=str(self.path(log_offset)), log_offset=log_offset)

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
                return
            try:
                data = self._segments.read(at, total)
                record = rec.decode(data, where=str(self.path(at)), log_offset=at)
            except Corrupt:
                return
            at += total
            into.end, into.last = at, record
            yield record, total

    def is_blank_from(self, offset: int) -> bool:
        return self._segments.is_zero_from(offset)

    def truncate(self, end: int) -> None:
        self._segments.zero_from(end)

    def sync(self, start: int, end: int) -> None:
        self._segments.sync(start, end)

    def close(self) -> None:
        self._segments.close()
