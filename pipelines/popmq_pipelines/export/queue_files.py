"""A queue's entries held against the records that they are of, while the log is exported.

    queue entry wrong      it leads to another record, has another size, or another tag code
    queue entry missing    there is none: its slot is zero, or its file is gone

What is no fault: a queue that is gone as a whole, as those of deleted topics are; an entry of a
later record with the same place, where a topic was made anew; and, unless the broker was stopped
cleanly, entries missing at a queue's end: a broker that runs holds them in memory, one that has
crashed makes them anew from the log.

Files are read, not mapped, a block at a time; so many blocks are kept, and so many faults.
"""

from collections import OrderedDict
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from popmq_broker.core.store.queue_entry import ENTRY_BYTES, tags_code_of
from popmq_common.records.names import LEVELS_TOPIC
from popmq_common.records.record import Record

WRONG: Final = "queue entry wrong"
MISSING: Final = "queue entry missing"
BLOCK_ENTRIES: Final = 1_024
BLOCKS_MAX: Final = 1_024
FAULTS_MAX: Final = 100_000
"""More are not remembered one by one: whoever has so many builds the queues anew."""
ABORT: Final = "abort"
_ENTRY: Final = Struct(">qiq")
_NOTHING: Final = (0, 0, 0)
Queue = tuple[str, int]


class QueueFault(NamedTuple):
    kind: str
    topic: str
    queue_id: int
    queue_offset: int
    log_offset: int


class QueueFiles:
    """Of one data directory; `check` is called with its records in the order of the log."""

    def __init__(self, data_dir: Path, *, running: bool) -> None:
        self._folder = data_dir / "consumequeue"
        self._at_rest = not running and not (data_dir / ABORT).exists()
        self._files: dict[Queue, list[tuple[int, Path]]] = {}
        self._blocks: OrderedDict[tuple[Queue, int], bytes] = OrderedDict()
        self._faults: dict[tuple[str, int, int], QueueFault] = {}
        self._last_sound: dict[Queue, int] = {}
        self._there = self._folder.is_dir()

    def check(self, record: Record, size_bytes: int) -> None:
        """Of a record that has a place in a queue."""
        queue = (record.topic, record.queue_id)
        if not self._there or not self._files_of(queue):
            return
        offset = record.queue_offset
        place = (*queue, offset)
        log_offset, size, code = self._entry(queue, offset)
        if (log_offset, size, code) == _NOTHING:
            kind = MISSING
        elif (log_offset, size) == (record.log_offset, size_bytes) and (
            record.topic == LEVELS_TOPIC or code == tags_code_of(record.properties)
        ):
            self._faults.pop(place, None)  # an earlier record of a topic that was made anew
            self._last_sound[queue] = max(offset, self._last_sound.get(queue, 0))
            return
        else:
            kind = WRONG
        if len(self._faults) < FAULTS_MAX:
            self._faults[place] = QueueFault(kind, *place, record.log_offset)

    def faults(self) -> list[QueueFault]:
        """Of all records that were checked, by their places."""
        return [
            fault
            for _, fault in sorted(self._faults.items())
            if fault.kind == WRONG or self._at_rest or self._is_inside(fault)
        ]

    def _is_inside(self, fault: QueueFault) -> bool:
        """An entry behind it is in the files."""
        return fault.queue_offset < self._last_sound.get((fault.topic, fault.queue_id), -1)

    def _files_of(self, queue: Queue) -> list[tuple[int, Path]]:
        """Base and path of each, in order."""
        found = self._files.get(queue)
        if found is None:
            folder = self._folder / queue[0] / str(queue[1])
            paths = folder.iterdir() if folder.is_dir() else ()
            found = sorted((int(path.name), path) for path in paths if path.name.isdigit())
            self._files[queue] = found
        return found

    def _entry(self, queue: Queue, offset: int) -> tuple[int, int, int]:
        block, at = divmod(offset, BLOCK_ENTRIES)
        key = (queue, block)
        data = self._blocks.get(key)
        if data is None:
            data = self._read(queue, block * BLOCK_ENTRIES * ENTRY_BYTES)
            self._blocks[key] = data
            if len(self._blocks) > BLOCKS_MAX:
                self._blocks.popitem(last=False)
        log_offset, size, code = _ENTRY.unpack_from(data, at * ENTRY_BYTES)
        return log_offset, size, code

    def _read(self, queue: Queue, begin: int) -> bytes:
        """A block of the queue's bytes, zeros where no file is."""
        block = bytearray(BLOCK_ENTRIES * ENTRY_BYTES)
        end = begin + len(block)
        for base, path in self._files_of(queue):
            skipped = max(0, begin - base)
            if base >= end:
                break
            try:
                with open(path, "rb") as file:
                    file.seek(skipped)
                    data = file.read(end - base - skipped)
            except FileNotFoundError:  # retention was faster
                continue
            at = base + skipped - begin
            block[at : at + len(data)] = data
        return bytes(block[: end - begin])
