"""One queue's index over the log: entry n says where message n is.

    consumequeue/TOPIC/QUEUE/00000000000000000000      20-byte entries, sparse

New entries gather in memory and are written now and then: the files can be rebuilt from the log.
Where the files end is told by config/queueEnds.json (store/queues/queue_ends.py), not by what they
hold.

     min_offset            written              max_offset          next_offset
     │ in the files        │ in memory          │ appended,          │
     ▼                     ▼                    ▼ not yet visible    ▼
     ├─────────────────────┼────────────────────┼────────────────────┤

A queue that does not begin at 0, because retention deleted its first messages before the queue
was rebuilt, has RocketMQ's blanks (log offset 0, size 0x7FFFFFFF) before its first entry.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from popmq_broker.core.store.queue_entry import (
    DAMAGED,
    ENTRY_BYTES,
    QueueEntry,
    decode_all,
    decode_at,
    decode_each,
)
from popmq_broker.core.store.queue_entry import encode as encode_entry
from popmq_broker.store.files.files import Files, disk_full
from popmq_broker.store.files.open_files import OpenFiles
from popmq_broker.store.files.segments import name, numbered
from popmq_broker.store.queues.queue_ends import NO_ENTRIES, Ends
from popmq_common.errors import Corrupt
from popmq_common.units import LogOffset

TAIL_BYTES_MAX: Final = 64 * 1024
BLANK: Final = QueueEntry(LogOffset(0), 0x7FFFFFFF, 0)


class ConsumeQueue:
    def __init__(
        self, open_files: OpenFiles, folder: Path, file_bytes: int, ends: Ends = NO_ENTRIES
    ) -> None:
        """Files behind `ends` are removed. Raises `Corrupt` when one before is missing or has
        another size."""
        assert file_bytes % ENTRY_BYTES == 0
        self.folder = folder
        self._open_files = open_files
        self._file_bytes = file_bytes
        self._tail = bytearray()
        self._flush_at_bytes = TAIL_BYTES_MAX
        self._bases = self._find_files(ends)
        self._written = ends.next
        """Offset of the first entry that is not in the files."""
        self.min_offset = ends.first
        self.next_offset = ends.next
        """What the next appended message gets."""
        self.found_end = ends.next
        """Entries before it were written by an earlier process."""

    @property
    def max_offset(self) -> int:
        """Behind the last visible entry."""
        return self._written + len(self._tail) // ENTRY_BYTES

    @property
    def unwritten_bytes(self) -> int:
        return len(self._tail)

    def append(self, offset: int, entries: bytes | bytearray) -> None:
        """Make messages from `offset` on visible. An entry alone that is there already is passed
        over.

        Raises `Corrupt` for a gap, and for another message under an offset that is taken.
        """
        if offset == self.max_offset:
            self._tail += entries
        elif offset > self.max_offset:
            raise self._damaged(offset, f"entries from {self.max_offset} on are missing")
        elif offset < self.min_offset:
            raise self._damaged(offset, f"entries before {self.min_offset} are missing")
        elif encode_entry(self.entries(offset, 1)[0]) != entries:
            raise self._damaged(offset, "two messages have this offset")

    def begins_otherwise(self, entry: bytes) -> bool:
        """Its first message is another one, or gone."""
        first = self.entries(0, 1)
        return not first or encode_entry(first[0]) != entry

    def begin_at(self, offset: int, *, in_files: bool = False) -> None:
        """An empty queue whose first messages are gone begins here.

        `in_files`: its files will tell, also if no message comes.
        """
        assert self.max_offset == 0
        assert not self._bases
        in_file = offset % (self._file_bytes // ENTRY_BYTES)
        if in_files and not in_file:
            in_file = self._file_bytes // ENTRY_BYTES
        self._written = offset - in_file
        self._tail += encode_entry(BLANK) * in_file
        self.min_offset = offset

    def entries(self, start: int, count: int) -> list[QueueEntry]:
        """At most `count` consecutive entries from `start`, fewer at the end; `DAMAGED` for those
        that were lost."""
        count = min(count, self.max_offset - start)
        if count <= 0 or start < self.min_offset:
            return []
        from_files = min(count, max(0, self._written - start))
        data = self._read(start * ENTRY_BYTES, from_files * ENTRY_BYTES) if from_files else b""
        if from_files < count:
            at = (max(start, self._written) - self._written) * ENTRY_BYTES
            data += self._tail[at : at + (count - from_files) * ENTRY_BYTES]
        return decode_each(data)

    def entries_at(self, offsets: Iterable[int]) -> list[QueueEntry | None]:
        """Single entries, wherever they are; None for what is not visible or not there any more,
        `DAMAGED` for what was lost. 3 µs each."""
        found: list[QueueEntry | None] = []
        end, written = self.max_offset, self._written
        file, file_at = None, -1
        for offset in offsets:
            if not self.min_offset <= offset < end:
                found.append(None)
                continue
            at = offset * ENTRY_BYTES
            if offset >= written:
                entry = decode_at(self._tail, at - written * ENTRY_BYTES)
            else:
                base = at - at % self._file_bytes
                if file is None or base != file_at:
                    file, file_at = self._open_files.get(self._path(base)), base
                entry = decode_at(file.pread(ENTRY_BYTES, at - base), 0)
            found.append(entry or DAMAGED)
        return found

    @property
    def files(self) -> list[Path]:
        return [self._path(base) for base in self._bases]

    def is_empty_at(self, offset: int) -> bool:
        """It holds nothing, and the next message gets `offset`."""
        return self.min_offset == self.next_offset == offset

    def close(self) -> None:
        for path in self.files:
            self._open_files.forget(path)

    def needs_flush(self) -> bool:
        return len(self._tail) >= self._flush_at_bytes

    def flush(self) -> list[Path]:
        """Write what is in memory; returns the files written.

        Raises `DiskFull`: what is not written stays in memory, the next try comes later.
        """
        touched = []
        self._flush_at_bytes = 2 * max(TAIL_BYTES_MAX, len(self._tail))
        while self._tail:
            at = self._written * ENTRY_BYTES
            base = at - at % self._file_bytes
            part = bytes(self._tail[: base + self._file_bytes - at])
            path = self._path(base)
            try:
                self._write(base, at - base, part)
            except OSError as wrong:
                raise disk_full(wrong, path) or wrong from wrong
            del self._tail[: len(part)]
            self._written += len(part) // ENTRY_BYTES
            touched.append(path)
        self._flush_at_bytes = TAIL_BYTES_MAX
        return touched

    def cut(self, log_offset: int) -> None:
        """Drop the entries of records at or behind `log_offset`; entries grow with the log.

        Slots of the files behind the first such entry may hold anything; they are zeroed.
        """
        low = self._first_behind(log_offset)
        self.found_end = min(self.found_end, low)
        if low > self._written:
            del self._tail[(low - self._written) * ENTRY_BYTES :]
        else:
            self._tail.clear()
            self._written = low
            self._zero_files(low * ENTRY_BYTES)
        self.min_offset = min(self.min_offset, low)
        self.next_offset = low

    def zero_behind(self) -> None:
        """Slots of the files behind the last entry may hold anything after a crash."""
        self._zero_files(self._written * ENTRY_BYTES)

    def begin_behind(self, log_offset: int) -> None:
        """The log begins there now: messages before it cannot be read any more."""
        self.min_offset = max(self.min_offset, self._first_behind(log_offset))

    def _zero_files(self, at: int) -> None:
        for base in [base for base in self._bases if base >= at]:
            self._open_files.remove(self._path(base))
            self._bases.remove(base)
        if self._bases and at < self._bases[-1] + self._file_bytes:
            file = self._open_files.get(self._path(self._bases[-1]))
            file.truncate(at - self._bases[-1])
            file.truncate(self._file_bytes)

    def first_behind(self, log_offset: int) -> int:
        """Where the queue begins when the log begins at `log_offset`, never before it does now; as
        the entries say that are looked at."""
        if self.min_offset == self.max_offset:
            return self.min_offset
        if self.entries(self.min_offset, 1)[0].log_offset >= log_offset:
            return self.min_offset
        return self._first_behind(log_offset)

    def repair(self, offset: int, entry: QueueEntry) -> Path | None:
        """The entry as it must be; the file that was written, which the caller syncs."""
        data, at = encode_entry(entry), offset * ENTRY_BYTES
        if offset >= self._written:
            at -= self._written * ENTRY_BYTES
            self._tail[at : at + ENTRY_BYTES] = data
            return None
        path = self._path(at - at % self._file_bytes)
        self._open_files.get(path).pwrite(data, at % self._file_bytes)
        return path

    def raise_min(self, offset: int) -> None:
        """Entries before `offset` are gone."""
        self.min_offset = max(self.min_offset, offset)

    def take_stale_files(self) -> list[Path]:
        """Files that hold nothing from `min_offset` on, oldest first; the caller removes them.

        The last file stays: it says what the next offset is.
        """
        kept_from = self.min_offset * ENTRY_BYTES - self._file_bytes
        gone = [base for base in self._bases[:-1] if base <= kept_from]
        del self._bases[: len(gone)]
        for base in gone:
            self._open_files.forget(self._path(base))
        return [self._path(base) for base in gone]

    def last(self) -> QueueEntry | None:
        found = self.entries(self.max_offset - 1, 1)
        return found[0] if found else None

    def _write(self, base: int, at: int, data: bytes) -> None:
        if base in self._bases:
            self._open_files.get(self._path(base)).pwrite(data, at)
            return
        self._open_files.disk.make_folder(self.folder)
        self._open_files.get(self._path(base), size_bytes=self._file_bytes).pwrite(data, at)
        self._bases.append(base)

    def _read(self, at: int, size_bytes: int) -> bytes:
        data = b""
        while size_bytes > 0:
            base = at - at % self._file_bytes
            part = min(size_bytes, base + self._file_bytes - at)
            data += self._open_files.get(self._path(base)).pread(part, at - base)
            at += part
            size_bytes -= part
        return data

    def _find_files(self, ends: Ends) -> list[int]:
        end = ends.next * ENTRY_BYTES
        found = numbered(self._open_files.disk, self.folder)
        while found and found[-1].base >= end:  # its name came to the disk, the end did not
            self._open_files.remove(self._path(found.pop().base))
        expected = found[0].base if found else end
        if ends.first < ends.next and expected > ends.first * ENTRY_BYTES:
            raise self._damaged(ends.first, f"the file before {expected} is missing")
        for base, size_bytes in found:
            if base != expected or base % self._file_bytes:
                raise self._damaged(base // ENTRY_BYTES, f"the file before {base} is missing")
            if end <= base + size_bytes < base + self._file_bytes:
                # its end was being cleared: zeros from here on
                self._open_files.get(self._path(base), size_bytes=self._file_bytes)
            elif size_bytes != self._file_bytes:
                reason = f"file {base} has {size_bytes} bytes, not {self._file_bytes}"
                raise self._damaged(base // ENTRY_BYTES, reason)
            expected += self._file_bytes
        if found and expected < end:
            raise self._damaged(expected // ENTRY_BYTES, f"file {expected} is missing")
        return [base for base, _ in found]

    def _first_behind(self, log_offset: int) -> int:
        """Offset of the first entry of a record at or behind `log_offset`, else `max_offset`."""
        low = self._bases[0] // ENTRY_BYTES if self._bases else self._written
        high = self.max_offset
        if low < self.found_end < high and self._is_before(self.found_end - 1, log_offset):
            low = self.found_end  # what this process wrote needs no search among what it found
        while low < high:
            middle = (low + high) // 2
            slot = self._slot(middle)
            if slot is None or (slot.log_offset >= log_offset and slot != BLANK):
                high = middle
            else:
                low = middle + 1
        return low

    def _is_before(self, offset: int, log_offset: int) -> bool:
        slot = self._slot(offset)
        return slot is not None and slot.log_offset < log_offset

    def _slot(self, offset: int) -> QueueEntry | None:
        at = (offset - self._written) * ENTRY_BYTES
        if at >= 0:
            return decode_all(bytes(self._tail[at : at + ENTRY_BYTES]))[0]
        found = decode_all(self._read(offset * ENTRY_BYTES, ENTRY_BYTES))
        return found[0] if found else None

    def _path(self, base: int) -> Path:
        return self.folder / name(base)

    def _damaged(self, offset: int, reason: str) -> Corrupt:
        return Corrupt(path=self.folder, offset=offset, reason=reason)


def end_in_files(files: Files, folder: Path, file_bytes: int) -> int:
    """What the next offset was, by the last file of a queue that may be damaged."""
    found = [file for file in numbered(files, folder) if file.size_bytes == file_bytes]
    if not found:
        return 0
    data = files.read(folder / name(found[-1].base)) or b""
    low, high = 0, file_bytes // ENTRY_BYTES
    while low < high:
        middle = (low + high) // 2
        if decode_all(data[middle * ENTRY_BYTES : (middle + 1) * ENTRY_BYTES]):
            low = middle + 1
        else:
            high = middle
    return found[-1].base // ENTRY_BYTES + low
