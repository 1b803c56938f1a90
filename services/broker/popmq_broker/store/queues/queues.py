"""All ConsumeQueues of a store: opened from the directory, or made when first written."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from popmq_broker.core.store.queue_entry import DAMAGED, QueueEntry
from popmq_broker.store.files.files import Files
from popmq_broker.store.files.open_files import OpenFiles
from popmq_broker.store.queues.consume_queue import ConsumeQueue
from popmq_broker.store.queues.entry_check import EntryCheck
from popmq_broker.store.queues.queue_ends import NO_ENTRIES, Ends, QueueEnds, QueueId
from popmq_common.errors import Corrupt, DiskFull
from popmq_common.records.record import Record
from popmq_common.units import LogOffset

__all__ = ["QueueId", "Queues", "folders", "sync_files"]


class Queues:
    def __init__(
        self,
        files: Files,
        folder: Path,
        *,
        file_bytes: int,
        open_max: int,
        unwritten_bytes_max: int,
        ends: QueueEnds,
        log_start: int,
    ) -> None:
        """`ends`: what is trusted of the files. Raises `Corrupt` when they are not what was
        written."""
        self.check: EntryCheck | None = None
        """Asked before entries of an earlier process are read; None: while they are recovered."""
        self.full = False
        """The disk takes no more entries, and memory must not either."""
        self._unwritten_bytes_max = unwritten_bytes_max
        self._folder = folder
        self._file_bytes = file_bytes
        self._open_files = OpenFiles(files, open_max)
        self._queues: dict[QueueId, ConsumeQueue] = {}
        self._unwritten: dict[QueueId, ConsumeQueue] = {}
        self._unsynced: set[Path] = set()
        self.floors: Mapping[str, Mapping[int, int]] = {}
        """Where queues begin that are not there: those of deleted topics that were forgotten."""
        for key in sorted(ends.queues.keys() | set(folders(files, folder))):
            queue = self._make(key, ends.queues.get(key, NO_ENTRIES))
            if log_start != ends.log_start:
                queue.begin_behind(log_start)

    def __contains__(self, queue: QueueId) -> bool:
        return queue in self._queues

    def __iter__(self) -> Iterator[QueueId]:
        return iter(self._queues)

    def _make(self, queue: QueueId, ends: Ends = NO_ENTRIES) -> ConsumeQueue:
        topic, number = queue
        if not _is_legal(queue):
            raise Corrupt(path=self._folder, offset="?", reason=f"no queue can be {queue!r}")
        made = self._queues[queue] = ConsumeQueue(
            self._open_files, self._folder / topic / str(number), self._file_bytes, ends
        )
        self._begin_at_floor(queue, made)
        return made

    def begin_at(self, floors: Mapping[str, Mapping[int, int]]) -> None:
        """Where queues begin that hold nothing. Kept and looked at, so it may change."""
        self.floors = floors
        for key, queue in self._queues.items():
            self._begin_at_floor(key, queue)

    def _begin_at_floor(self, key: QueueId, queue: ConsumeQueue) -> None:
        floor = self._floor(key)
        if floor and queue.next_offset == 0 and not queue.files:
            queue.begin_at(floor)
            queue.next_offset = floor

    def _floor(self, queue: QueueId) -> int:
        return self.floors.get(queue[0], {}).get(queue[1], 0)

    def next_offset(self, queue: QueueId) -> int:
        """The offset the next appended message gets; ahead of the visible end until dispatched."""
        known = self._queues.get(queue)
        if known is not None:
            return known.next_offset
        assert _is_legal(queue), queue
        return self._floor(queue)

    def on_appended(self, queue: QueueId, next_offset: int) -> None:
        (self._queues.get(queue) or self._make(queue)).next_offset = next_offset

    def dispatch(self, key: QueueId, offset: int, entries: bytes | bytearray) -> None:
        """Make messages visible: entries of a queue from `offset` on. Raises `Corrupt`."""
        queue = self._queues[key]
        queue.append(offset, entries)
        self._unwritten[key] = queue
        if queue.needs_flush():
            self._flush_quietly(queue)

    def recover(self, key: QueueId, offset: int, entry: bytes, *, may_begin: bool) -> None:
        """`dispatch` at start-up; `may_begin`: a queue's first messages may be gone."""
        queue = self._queues.get(key) or self._make(key)
        if may_begin and queue.max_offset == 0 and offset > 0:
            queue.begin_at(offset)
        if offset == 0 and queue.max_offset and queue.begins_otherwise(entry):
            queue.cut(0)  # RocketMQ deleted the topic and made it again: it counts anew
        self.dispatch(key, offset, entry)
        queue.next_offset = queue.max_offset

    def begin_empty(self, ends: Mapping[QueueId, int]) -> None:
        """Queues of which the log holds nothing any more go on counting; on disk at once."""
        for key, end in ends.items():
            known = self._queues.get(key)
            if end and (known is None or known.max_offset == 0):
                queue = known or self._make(key)
                queue.begin_at(end, in_files=True)
                self._unsynced.update(queue.flush())
                queue.next_offset = queue.max_offset
        sync_files(self._open_files.disk, self._unsynced)
        self._unsynced.clear()

    def min_offset(self, topic: str, queue_id: int) -> int:
        queue = self._queues.get((topic, queue_id))
        return queue.min_offset if queue else self._floor((topic, queue_id))

    def max_offset(self, topic: str, queue_id: int) -> int:
        queue = self._queues.get((topic, queue_id))
        return queue.max_offset if queue else self._floor((topic, queue_id))

    def entries(self, topic: str, queue_id: int, start: int, count: int) -> list[QueueEntry]:
        queue = self._queues.get((topic, queue_id))
        if queue is None:
            return []
        found = queue.entries(start, count)
        if start < queue.found_end and self.check is not None:
            damaged = self.check.damaged((topic, queue_id), queue, start, count)
            if damaged is not None:
                for low, high in damaged.within(start, start + len(found)):
                    found[low - start : high - start] = [DAMAGED] * (high - low)
        return found

    def entries_at(
        self, topic: str, queue_id: int, offsets: Sequence[int]
    ) -> list[QueueEntry | None]:
        """Single entries, not held against their records: who asks must do so."""
        queue = self._queues.get((topic, queue_id))
        return [None] * len(offsets) if queue is None else queue.entries_at(offsets)

    def entry_of(self, record: Record, size_bytes: int) -> QueueEntry:
        """As it must be in the queue."""
        assert self.check is not None
        code = self.check.code_of(record)
        return QueueEntry(LogOffset(record.log_offset), size_bytes, code)

    def repair(self, key: QueueId, offset: int, entry: QueueEntry) -> None:
        """The entry as it must be. `flush` gives the file to be synced."""
        path = self._queues[key].repair(offset, entry)
        if path is not None:
            self._unsynced.add(path)
        if self.check is not None:
            self.check.repaired(key, offset)

    def last_entries(self) -> Iterator[tuple[QueueId, int, QueueEntry]]:
        """(queue, offset, entry) of each queue's last message."""
        for key, queue in self._queues.items():
            last = queue.last()
            if last is not None:
                yield key, queue.max_offset - 1, last

    def ends(self, log_start: int, log_end: int) -> QueueEnds:
        """What `flush` has brought to the files, when all before `log_end` is in the queues."""
        queues = self._queues.items()
        ends = {key: Ends(queue.min_offset, queue.max_offset) for key, queue in queues}
        return QueueEnds(log_start, log_end, ends)

    def zero_behind(self) -> None:
        """Clear what a crash has left in the files behind the last entries."""
        for queue in self._queues.values():
            queue.zero_behind()

    def cut(self, log_offset: int) -> None:
        """Forget everything that points at or behind `log_offset`."""
        for queue in self._queues.values():
            queue.cut(log_offset)

    def first_behind(self, key: QueueId, log_offset: int) -> int:
        """Where the queue begins when the log begins at `log_offset`; never before it does now.

        The entries grow with the log, so a search finds it, and what is around the place shows
        that no damaged entry has led it astray.
        """
        queue = self._queues[key]
        first = queue.first_behind(log_offset)
        if not self._divides(key, first, log_offset):
            first = self._first_sound_behind(key, log_offset)
        return first

    def _divides(self, key: QueueId, offset: int, log_offset: int) -> bool:
        queue = self._queues[key]
        around = range(max(offset - 1, queue.min_offset), min(offset + 1, queue.max_offset))
        for at in around:
            entry = self.sound(key, at)
            if entry is None or (entry.log_offset >= log_offset) != (at >= offset):
                return False
        return True

    def _first_sound_behind(self, key: QueueId, log_offset: int) -> int:
        """Damaged entries right before it are taken for messages that are still there."""
        queue = self._queues[key]
        low, high = queue.min_offset, queue.max_offset
        while low < high:
            middle = at = (low + high) // 2
            while at < high and (entry := self.sound(key, at)) is None:
                at += 1
            if at == high or (entry is not None and entry.log_offset >= log_offset):
                high = middle
            else:
                low = at + 1
        return low

    def sound(self, key: QueueId, offset: int) -> QueueEntry | None:
        """An entry that is the one of its message, which can be read. None: it is not, or there is
        none."""
        found = self._queues[key].entries(offset, 1)
        if not found or (self.check and not self.check.is_sound(key, offset, found[0])):
            return None
        return found[0]

    def raise_min(self, key: QueueId, offset: int) -> None:
        self._queues[key].raise_min(offset)

    def take_stale_files(self, key: QueueId) -> list[Path]:
        return self._queues[key].take_stale_files()

    def forget(self, keys: Iterable[QueueId]) -> list[Path]:
        """Queues that hold nothing any more, and begin at their floors if they are made again.

        All of them or none; returns their files for the caller to remove, none if one is in use.
        """
        known = {key: self._queues[key] for key in keys if key in self._queues}
        paths = {path for queue in known.values() for path in queue.files}
        if paths & self._unsynced or known.keys() & self._unwritten.keys():
            return []
        if any(not queue.is_empty_at(self._floor(key)) for key, queue in known.items()):
            return []
        for key in known:
            self._queues.pop(key).close()
        return sorted(paths)

    def _flush_quietly(self, queue: ConsumeQueue) -> None:
        """A full disk is no error here: entries wait in memory, up to `full`."""
        try:
            self._unsynced.update(queue.flush())
        except DiskFull:
            self._tell_full()

    def _tell_full(self) -> None:
        waiting_bytes = sum(queue.unwritten_bytes for queue in self._unwritten.values())
        self.full = waiting_bytes > self._unwritten_bytes_max

    def flush(self) -> set[Path]:
        """Write what is in memory; returns the files that are not yet synced. Raises `DiskFull`.

        If they cannot be synced, they are given back to `not_synced`.
        """
        try:
            for key, queue in list(self._unwritten.items()):
                self._unsynced.update(queue.flush())
                del self._unwritten[key]
        except DiskFull:
            self._tell_full()
            raise
        self.full = False
        touched, self._unsynced = self._unsynced, set()
        return touched

    def not_synced(self, paths: set[Path]) -> None:
        self._unsynced |= paths

    def close(self) -> None:
        self._open_files.close()


def folders(files: Files, folder: Path) -> Iterator[QueueId]:
    for topic in files.names(folder):
        for number in files.names(folder / topic):
            is_queue = number.isascii() and number.isdigit()
            if is_queue and files.names(folder / topic / number):  # else it was forgotten
                yield topic, int(number)


def _is_legal(queue: QueueId) -> bool:
    """It can be the name of a folder."""
    topic, number = queue
    return topic not in ("", ".", "..") and "/" not in topic and "\0" not in topic and number >= 0


def sync_files(files: Files, paths: set[Path]) -> None:
    """fdatasync each file, and the folder it is in."""
    for path in paths:
        files.sync(path)
    for folder in {path.parent for path in paths}:
        files.sync_folder(folder)
