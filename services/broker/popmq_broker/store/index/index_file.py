"""One index file: entries are appended, its slots live in memory until they are saved.

What is on disk when:

    entries          written when there are 64 KiB of them, and before each save
    save             sync, which brings the entries there and the slots of the save before;
                     then the slots that have changed, then the header

So a header never counts an entry that is not on disk, and no slot on disk names one. Of the slots
that the newest save changed, any may be missing after a crash: `repair` makes them again from the
last entries. For that a save comes at the latest after UNSAVED_ENTRIES_MAX entries. Slots are not
mapped: a full disk is an error of the write and not a signal.
"""

from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from popmq_broker.core.store import index as layout
from popmq_broker.core.store.index import (
    ENTRY_BYTES,
    HEADER_BYTES,
    SLOT_BYTES,
    Header,
    IndexEntry,
    Sizes,
)
from popmq_broker.store.files.files import File, Files, disk_full
from popmq_broker.store.log.commit_log import CommitLog

UNSAVED_ENTRIES_MAX: Final = 500_000
"""Put since the last save; what a start after a crash reads again."""
TAIL_BYTES_MAX: Final = 64 * 1024
"""Entries in memory, then they are written."""
PAGE_SLOTS: Final = 1024
_PIECE_ENTRIES: Final = 4_096
_NEW: Final = Header(0, 0, 0, 0, 0, 1)


class DamagedIndex(Exception):
    """The file is not what was written; it can be made again from the log."""


class Frozen(NamedTuple):
    """What one save writes."""

    header: Header
    pages: list[tuple[int, bytes]]
    """(number of the first slot, slots)"""


class IndexFile:
    def __init__(
        self,
        files: Files,
        path: Path,
        sizes: Sizes,
        header: Header | None = None,
        *,
        after_ms: int = 0,
    ) -> None:
        """Without a header: a new file; the one before ended at `after_ms`, 0: there is none."""
        self.path = path
        self.gone = False
        """It was removed; a search that is in it ends."""
        self._files = files
        self._sizes = sizes
        self._file: File = files.open(path, size_bytes=sizes.file_bytes)
        self.header = header or _NEW
        self._saved = self.header
        self._after_ms = after_ms
        self._users = 0
        self.finished = False
        """Full, and all of it on disk."""
        self._slots: array[int] | None = None
        self._changed: set[int] = set()
        """Pages of slots that are not saved."""
        self._tail = bytearray()
        self._written = self.header.next_number
        """Number of the first entry that is not in the file."""

    @property
    def full(self) -> bool:
        return self.header.next_number >= self._sizes.entries

    @property
    def unsaved_count(self) -> int:
        return self.header.next_number - self._saved.next_number

    @property
    def needs_save(self) -> bool:
        return not self.finished and (self.full or self.header != self._saved)

    @property
    def tail_bytes(self) -> int:
        return len(self._tail)

    def put(self, keyed: Sequence[tuple[int, int]], store_ms: int) -> int:
        """(key hash, log offset) of messages stored at one time; returns how many fitted."""
        assert not self.finished
        slots = self._slots if self._slots is not None else self._load_slots()
        slot_count, entries_max = self._sizes.slots, self._sizes.entries
        begin_ms, _, begin_offset, end_offset, slots_used, count = self.header
        if count == 1 and keyed:
            begin_ms, begin_offset = store_ms, keyed[0][1]
        seconds = since = layout.seconds_since(begin_ms, store_ms)
        if count == 1:
            since = layout.seconds_since(self._after_ms, store_ms)
        first, tail, changed, pack = count, self._tail, self._changed, layout.pack_entry
        for key_hash, log_offset in keyed:
            if count >= entries_max:
                break
            slot = key_hash % slot_count
            before = slots[slot]
            if not before:
                slots_used += 1
            tail += pack(key_hash, log_offset, since, before)
            since = seconds
            slots[slot] = count
            changed.add(slot // PAGE_SLOTS)
            end_offset = log_offset
            count += 1
        if count > first:
            self.header = Header(begin_ms, store_ms, begin_offset, end_offset, slots_used, count)
        return count - first

    def write_entries(self) -> None:
        """Raises `DiskFull`: they stay in memory."""
        if not self._tail:
            return
        try:
            self._file.pwrite(bytes(self._tail), self._sizes.entry_at(self._written))
        except OSError as wrong:
            raise disk_full(wrong, self.path) or wrong from wrong
        self._written = self.header.next_number
        self._tail.clear()

    # --- saving ---

    def freeze(self) -> Frozen:
        """What `save` shall write, while entries go on to be put. Raises `DiskFull`."""
        self.write_entries()
        pages = []
        for page in sorted(self._changed):
            first = page * PAGE_SLOTS
            assert self._slots is not None
            part = self._slots[first : first + PAGE_SLOTS]
            part.byteswap()
            pages.append((first, part.tobytes()))
        self._changed = set()
        return Frozen(self.header, pages)

    def save(self, frozen: Frozen) -> None:
        """May run in another thread. Raises `DiskFull`; then `not_saved` takes it back."""
        self._file.fdatasync()
        try:
            for first, data in frozen.pages:
                self._file.pwrite(data, HEADER_BYTES + SLOT_BYTES * first)
            self._file.pwrite(layout.encode_header(frozen.header), 0)
        except OSError as wrong:
            raise disk_full(wrong, self.path) or wrong from wrong

    def saved(self, frozen: Frozen) -> None:
        self._saved = frozen.header

    def not_saved(self, frozen: Frozen) -> None:
        self._changed.update(first // PAGE_SLOTS for first, _ in frozen.pages)

    def sync(self) -> None:
        """May run in another thread."""
        self._file.fdatasync()

    def finish(self) -> None:
        """It is full and on disk: its slots need not be in memory any more."""
        assert self.full
        assert not self._changed
        self.finished = True
        self._slots = None

    def _load_slots(self) -> "array[int]":
        slots = self._slots = array("i")
        assert slots.itemsize == SLOT_BYTES
        if self.header.next_number > 1:
            slots.frombytes(self._file.pread(SLOT_BYTES * self._sizes.slots, HEADER_BYTES))
            slots.byteswap()
        else:
            slots.frombytes(bytes(SLOT_BYTES * self._sizes.slots))
        return slots

    # --- reading ---

    def newest(self, key_hash: int) -> int:
        """Number of the newest entry of the slot. Raises `DamagedIndex`."""
        slot = key_hash % self._sizes.slots
        if self._slots is not None:
            number = self._slots[slot]
        else:
            data = self._file.pread(SLOT_BYTES, HEADER_BYTES + SLOT_BYTES * slot)
            number = int.from_bytes(data, signed=True)
        if not 0 <= number < self.header.next_number:
            raise DamagedIndex(f"{self.path}: slot {slot} names entry {number}")
        return number

    def entry(self, number: int) -> IndexEntry:
        """Raises `DamagedIndex` when it cannot be what was written."""
        at = number - self._written
        if at >= 0:
            data = bytes(self._tail[at * ENTRY_BYTES : (at + 1) * ENTRY_BYTES])
        else:
            data = self._file.pread(ENTRY_BYTES, self._sizes.entry_at(number))
        (entry,) = layout.decode_entries(data)
        header = self.header
        if (
            not 0 <= entry.before < number
            or not header.begin_offset <= entry.log_offset <= header.end_offset
            or entry.seconds < 0
        ):
            raise DamagedIndex(f"{self.path}: entry {number} is {entry}")
        return entry

    def chain(self, key_hash: int, begin_ms: int) -> Iterator[IndexEntry]:
        """All entries of the slot of messages stored at `begin_ms` or later, newest first; other
        hashes too: a long chain must be seen to be walked. Raises `DamagedIndex`."""
        number = self.newest(key_hash)
        slot_count = self._sizes.slots
        while number and not self.gone:
            entry = self.entry(number)
            if (entry.key_hash - key_hash) % slot_count:
                raise DamagedIndex(f"{self.path}: entry {number} is of another slot")
            if self.header.begin_ms + entry.seconds * 1000 + 999 < begin_ms:
                return
            yield entry
            number = entry.before

    def offsets(self, key_hash: int, begin_ms: int, commit_log: CommitLog) -> Iterator[int | None]:
        """Where the records of entries with that hash begin, newest first; None for an entry that
        is passed over. Raises `DamagedIndex`."""
        for entry in self.chain(key_hash, begin_ms):
            if entry.log_offset < commit_log.start:
                return  # and so are all older ones
            if entry.key_hash != key_hash:
                yield None
                continue
            if not commit_log.begins_at(entry.log_offset):
                raise DamagedIndex(f"{self.path}: no record begins at {entry.log_offset}")
            yield entry.log_offset
        if self.gone:  # meanwhile, by another search
            raise DamagedIndex(f"{self.path} was removed")

    def gone_count(self, key_hash: int, log_start: int) -> int:
        """How many entries with that hash are of records before `log_start`, so deleted. Of what is
        damaged none: it is no more than a hint, and a search for what is left finds the damage."""
        try:
            return sum(
                entry.log_offset < log_start and entry.key_hash == key_hash
                for entry in self.chain(key_hash, 0)
            )
        except DamagedIndex:
            return 0

    def key_count_of_last(self) -> int:
        """How many entries the last message has."""
        number = self.header.next_number - 1
        while number > 0 and self.entry(number).log_offset == self.header.end_offset:
            number -= 1
        return self.header.next_number - 1 - number

    # --- after a crash ---

    def check(self) -> None:
        """Its ends are what the header says. Raises `DamagedIndex`."""
        for number, offset in (
            (1, self.header.begin_offset),
            (self.header.next_number - 1, self.header.end_offset),
        ):
            if self.entry(number).log_offset != offset:
                raise DamagedIndex(f"{self.path}: entry {number} is not of {offset}")

    def repair(self, log_end: int, store_ms_of: Callable[[int], int]) -> None:
        """Cut off entries of records that are not in the log, and make the slots again that a
        crash may have lost. `store_ms_of` tells the store time of the record at an offset.

        Raises `DamagedIndex`.
        """
        unsaved_max = UNSAVED_ENTRIES_MAX
        keep = self._first_at(log_end)
        if keep <= 1:
            raise DamagedIndex(f"{self.path}: nothing of it is in the log")
        slots = self._load_slots()
        known = self.header.next_number
        for entry in self._entries(keep, min(known + unsaved_max, self._sizes.entries)):
            self._unwind(slots, entry.key_hash % self._sizes.slots, keep)
        fresh = sum(not entry.before for entry in self._entries(keep, known))
        start = max(1, keep - unsaved_max)
        for number, entry in enumerate(self._entries(start, keep), start):
            slots[entry.key_hash % self._sizes.slots] = number
            self._changed.add(entry.key_hash % self._sizes.slots // PAGE_SLOTS)
        last = self.entry(keep - 1).log_offset
        self.header = self.header._replace(
            end_ms=store_ms_of(last),
            end_offset=last,
            slots_used=self.header.slots_used - fresh,
            next_number=keep,
        )
        self._written = keep
        self._file.truncate(self._sizes.entry_at(keep))
        self._file.truncate(self._sizes.file_bytes)
        self.save(self.freeze())
        self.sync()  # offsets are used again: an old header must not come back
        self._saved = self.header

    def _first_at(self, log_offset: int) -> int:
        """Number of the first entry at or behind `log_offset`: they are in the log's order."""
        low, high = 1, self.header.next_number
        while low < high:
            middle = (low + high) // 2
            if self.entry(middle).log_offset >= log_offset:
                high = middle
            else:
                low = middle + 1
        return low

    def _unwind(self, slots: "array[int]", slot: int, keep: int) -> None:
        """The newest entry of `slot` among those that are kept."""
        number = slots[slot]
        if not 0 <= number < self._sizes.entries:
            raise DamagedIndex(f"{self.path}: slot {slot} names entry {number}")
        while number >= keep:
            data = self._file.pread(ENTRY_BYTES, self._sizes.entry_at(number))
            (entry,) = layout.decode_entries(data)
            if not 0 <= entry.before < number:
                raise DamagedIndex(f"{self.path}: entry {number} follows {entry.before}")
            number = entry.before
        slots[slot] = number
        self._changed.add(slot // PAGE_SLOTS)

    def _entries(self, start: int, end: int) -> Iterator[IndexEntry]:
        while start < end:
            count = min(_PIECE_ENTRIES, end - start)
            yield from layout.decode_entries(
                self._file.pread(count * ENTRY_BYTES, self._sizes.entry_at(start))
            )
            start += count

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """A thread works on it: it is closed only behind that."""
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            if self.gone:
                self.close()

    def remove(self) -> None:
        self.close()
        self._files.remove(self.path)

    def close(self) -> None:
        self.gone = True
        if not self._users:
            self._file.close()
