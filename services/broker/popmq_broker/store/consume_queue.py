"""One queue's index over the log: entry n says where message n is.

New entries gather in memory and are written now and then: the file can be rebuilt from the log.
Files are opened for the moment of use, so thousands of queues cost no descriptors.

    consumequeue/TOPIC/QUEUE/00000000000000000000      20-byte entries, sparse
"""

import os
from itertools import pairwise
from pathlib import Path

from popmq_broker.core.queue_entry import ENTRY_BYTES, QueueEntry, decode_all
from popmq_broker.core.queue_entry import encode as encode_entry
from popmq_broker.store.segments import NAME_DIGITS, disk_full
from popmq_common.errors import Corrupt

TAIL_BYTES_MAX = 64 * 1024


class ConsumeQueue:
    def __init__(self, folder: Path, file_bytes: int) -> None:
        """Raises `Corrupt` when a file in the middle is missing."""
        assert file_bytes % ENTRY_BYTES == 0
        self._folder = folder
        self._file_bytes = file_bytes
        self._bases = self._find_files()
        self.min_offset = self._bases[0] // ENTRY_BYTES if self._bases else 0
        self._tail = bytearray()
        self._written = self._find_end()
        """Offset of the first entry that is not in the files."""

    @property
    def max_offset(self) -> int:
        """Offset of the next entry."""
        return self._written + len(self._tail) // ENTRY_BYTES

    def append(self, offset: int, entry: QueueEntry) -> None:
        """Entries that are there already are passed over; a gap is `Corrupt`."""
        if offset < self.max_offset:
            return
        if offset > self.max_offset:
            raise Corrupt(
                path=self._folder,
                offset=offset,
                reason=f"entries {self.max_offset} to {offset - 1} are missing",
            )
        self._tail += encode_entry(entry)

    def entries(self, start: int, count: int) -> list[QueueEntry]:
        """At most `count` consecutive entries from `start`, fewer at the end."""
        count = min(count, self.max_offset - start)
        if count <= 0 or start < self.min_offset:
            return []
        from_files = min(count, max(0, self._written - start))
        data = self._read(start * ENTRY_BYTES, from_files * ENTRY_BYTES) if from_files else b""
        if from_files < count:
            at = (max(start, self._written) - self._written) * ENTRY_BYTES
            data += self._tail[at : at + (count - from_files) * ENTRY_BYTES]
        return decode_all(data)

    def needs_flush(self) -> bool:
        return len(self._tail) >= TAIL_BYTES_MAX

    def flush(self) -> list[Path]:
        """Write what is in memory; returns the files written. Raises `DiskFull`."""
        touched = []
        while self._tail:
            at = self._written * ENTRY_BYTES
            base = at - at % self._file_bytes
            part = bytes(self._tail[: base + self._file_bytes - at])
            path = self._path(base)
            try:
                self._write(path, base, at - base, part)
            except OSError as wrong:
                full = disk_full(wrong, path)
                if full is None:
                    raise
                raise full from wrong
            del self._tail[: len(part)]
            self._written += len(part) // ENTRY_BYTES
            touched.append(path)
        return touched

    def cut(self, log_offset: int) -> None:
        """Drop the entries of records at or behind `log_offset`; entries grow with the log."""
        while self._tail and self.entries(self.max_offset - 1, 1)[0].log_offset >= log_offset:
            del self._tail[-ENTRY_BYTES:]
        last = self.entries(self._written - 1, 1)
        if not last or last[0].log_offset < log_offset:
            return
        low, high = self.min_offset, self._written
        while low < high:
            middle = (low + high) // 2
            (entry,) = self.entries(middle, 1) or (None,)
            if entry is None or entry.log_offset >= log_offset:
                high = middle
            else:
                low = middle + 1
        at = low * ENTRY_BYTES
        for base in [base for base in self._bases if base >= at]:
            self._path(base).unlink()
            self._bases.remove(base)
        if self._bases and at > self._bases[-1]:
            with open(self._path(self._bases[-1]), "r+b") as file:
                file.truncate(at - self._bases[-1])
                file.truncate(self._file_bytes)
        self._written = low

    def _write(self, path: Path, base: int, at: int, data: bytes) -> None:
        if base not in self._bases:
            self._folder.mkdir(parents=True, exist_ok=True)
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if base not in self._bases:
                os.ftruncate(file, self._file_bytes)
                self._bases.append(base)
            done = 0
            while done < len(data):
                done += os.pwrite(file, data[done:], at + done)
        finally:
            os.close(file)

    def _read(self, at: int, size_bytes: int) -> bytes:
        data = b""
        while size_bytes > 0:
            base = at - at % self._file_bytes
            part = min(size_bytes, base + self._file_bytes - at)
            file = os.open(self._path(base), os.O_RDONLY)
            try:
                data += os.pread(file, part, at - base)
            finally:
                os.close(file)
            at += part
            size_bytes -= part
        return data

    def _find_files(self) -> list[int]:
        if not self._folder.is_dir():
            return []
        names = [path.name for path in self._folder.iterdir()]
        bases = sorted(int(name) for name in names if len(name) == NAME_DIGITS and name.isdigit())
        for before, after in pairwise(bases):
            if after != before + self._file_bytes:
                path = self._path(after)
                raise Corrupt(path=path, offset=after, reason="the file before it is missing")
        return bases

    def _find_end(self) -> int:
        """Entries are written in order, so those in use are a prefix of the last file."""
        if not self._bases:
            return 0
        low, high = 0, self._file_bytes // ENTRY_BYTES
        base = self._bases[-1]
        with open(self._path(base), "rb") as file:
            while low < high:
                middle = (low + high) // 2
                slot = os.pread(file.fileno(), ENTRY_BYTES, middle * ENTRY_BYTES)
                if len(slot) == ENTRY_BYTES and decode_all(slot):
                    low = middle + 1
                else:
                    high = middle
        return base // ENTRY_BYTES + low

    def _path(self, base: int) -> Path:
        return self._folder / f"{base:0{NAME_DIGITS}d}"
