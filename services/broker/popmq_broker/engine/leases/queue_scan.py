"""What one queue gives to a pop: ready messages that the filter lets through.

Nothing changes here but what is known of a FIFO queue; the pop journals and applies what is found.
What cannot be read is gone over when that is noted on disk; until then the scan ends before it.
"""

from dataclasses import dataclass, field
from typing import Final

from popmq_broker.core.filters.filter import Filter
from popmq_broker.core.filters.sql_filter import SqlFilter
from popmq_broker.core.groups.offsets import Passing
from popmq_broker.core.leases.fifo_queue import FifoEntry, FifoQueue
from popmq_broker.core.leases.leases import GroupQueueState
from popmq_broker.core.store.damage import Passer
from popmq_broker.core.store.queue_entry import DAMAGED, QueueEntry
from popmq_broker.engine.journal.catalog_state import CatalogState
from popmq_broker.engine.journal.runtime import Runtime
from popmq_common.errors import Corrupt
from popmq_common.records import properties as names
from popmq_common.records.record import Record
from popmq_common.units import LogOffset

SCAN_ENTRIES: Final = 1024
"""Read from a queue at a time when a filter has to look at messages."""
FIFO_ENTRIES: Final = 64
"""The same for a FIFO queue, which reads every message."""
SCAN_ENTRIES_MAX: Final = 16_384
"""Looked at in one queue before other work gets its turn."""
SCAN_RECORDS_MAX: Final = 512
"""The same for an SQL filter, which reads every record. 4.3 µs each, of 1 KiB."""
_MESSAGE_GROUP: Final = (names.SHARDING_KEY + names.NAME_END).encode()


@dataclass(slots=True)
class QueueScan:
    """What one queue gives: parallel lists, and where the queue is popped next."""

    queue: GroupQueueState
    is_new: bool
    start: int
    entries: list[QueueEntry] = field(default_factory=list)
    bytes_taken: int = 0
    """In all."""
    records: list[bytes] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    next_offset: int = 0
    more: bool = False
    marks_start: bool = False
    """Nothing handed out, but where a new group begins must outlive a crash."""
    generation: int = 1
    attempts: list[int] = field(default_factory=list)
    """Of a FIFO group, of each: this one included."""
    handed_out: list[int] = field(default_factory=list)
    """The same, with the times that did not count."""
    buffered: bool = False
    """Its grant waits in the pop buffer; nothing is journaled now."""
    reasons: list[str] = field(default_factory=list)
    """Of a FIFO group: why the attempt before failed."""
    again: bool = False
    """An answer that was lost is given once more; it does not count."""
    tells: Passing | None = None
    """The way in which it goes over messages, if the journal does not tell it yet."""
    damaged: bool = False
    """It met messages that cannot be read: more is there when `Damage.saved` returns."""

    def has_room(self, want: int, room_bytes: int) -> bool:
        return len(self.offsets) < want and self.bytes_taken < room_bytes

    def add(self, offset: int, entry: QueueEntry, record: bytes) -> None:
        self.offsets.append(offset)
        self.entries.append(entry)
        self.records.append(record)
        self.bytes_taken += entry.size_bytes

    def add_run(self, offset: int, entries: list[QueueEntry], records: list[bytes]) -> None:
        """Messages that follow each other, from `offset`."""
        self.offsets += range(offset, offset + len(records))
        self.entries += entries
        self.records += records
        self.bytes_taken += sum(map(len, records))


def scan_queue(
    runtime: Runtime,
    catalog_state: CatalogState,
    queue: GroupQueueState,
    is_new: bool,
    want: int,
    room_bytes: int,
    wanted: Filter,
    *,
    pulls: bool = False,
) -> QueueScan:
    """Up to `want` messages and until `room_bytes` are used up; the first always fits.

    `pulls`: the consumer keeps its own place.
    """
    _, topic, queue_id = queue.key
    at = max(queue.position, catalog_state.min_offset(topic, queue_id))
    end = runtime.store.max_offset(topic, queue_id)
    found = QueueScan(queue, is_new, at, next_offset=at, more=at < end)
    if want <= 0:
        return found
    scan_end = at + _scan_max(wanted)
    chunk = want if wanted is None else min(SCAN_ENTRIES, _scan_max(wanted))
    while at < min(end, scan_end) and found.has_room(want, room_bytes):
        entries = runtime.store.entries(topic, queue_id, at, min(chunk, end - at))
        if not entries:
            end = at
            break
        if wanted is None:
            room = want - len(found.offsets)
            records = runtime.store.read_run(entries[:room], room_bytes - found.bytes_taken)
            found.add_run(at, entries[: len(records)], records)
            at += len(records)
            del entries[: len(records)]
        for entry in entries:
            if not found.has_room(want, room_bytes):
                break
            try:
                record = _matching(runtime, entry, wanted)
            except Corrupt as wrong:
                if not runtime.damage.look(Passer(*queue.key, pulls), at, wrong):
                    found.damaged, end = True, at
                    break
                record = None
            if record is not None:
                found.add(at, entry, record)
            at += 1
    found.next_offset = at
    found.more = at < end
    return found


def _scan_max(wanted: Filter) -> int:
    return SCAN_RECORDS_MAX if isinstance(wanted, SqlFilter) else SCAN_ENTRIES_MAX


def _matching(runtime: Runtime, entry: QueueEntry, wanted: Filter) -> bytes | None:
    """The record's bytes, unless it is filtered out or retention has deleted it."""
    if wanted is not None and _read_matching(runtime, entry, wanted) is None:
        return None
    return runtime.store.read_bytes(entry.log_offset, entry.size_bytes)


def _read_matching(runtime: Runtime, entry: QueueEntry, wanted: Filter) -> Record | None:
    """The record, unless it is filtered out or retention has deleted it."""
    if wanted is not None and not wanted.may_match(entry.tags_code) and entry is not DAMAGED:
        return None
    record = runtime.store.read(entry.log_offset, entry.size_bytes)
    if record is None or (wanted is not None and not wanted.matches(record.properties)):
        return None
    return record


def scan_fifo(
    runtime: Runtime,
    catalog_state: CatalogState,
    queue: GroupQueueState,
    fifo_queue: FifoQueue,
    *,
    is_new: bool,
    want: int,
    room_bytes: int,
    wanted: Filter,
    single: bool,
) -> QueueScan:
    """Up to `want` messages whose turn it is; the first always fits.

    `single`: one of each message group.
    """
    found = QueueScan(queue, is_new, fifo_queue.first)
    at, end = _find(runtime, catalog_state, found, fifo_queue, want, wanted, single=single)
    found.next_offset = at
    if want > 0:
        for entry in fifo_queue.next_entries(want, room_bytes, single=single):
            if _give(runtime, found, fifo_queue, entry):
                found.attempts.append(entry.attempts + 1)
                found.handed_out.append(entry.handed_out + 1)
                found.reasons.append(entry.reason)
    found.more = at < end and not fifo_queue.full
    return found


def scan_again(
    runtime: Runtime, queue: GroupQueueState, fifo_queue: FifoQueue, held: list[FifoEntry]
) -> QueueScan:
    """What a receive whose answer was lost had got, for new handles."""
    found = QueueScan(queue, False, fifo_queue.first, next_offset=queue.position, again=True)
    for entry in held:
        if _give(runtime, found, fifo_queue, entry):
            found.attempts.append(entry.attempts)
            found.handed_out.append(entry.handed_out)
            found.reasons.append(entry.reason)
    return found


def _find(
    runtime: Runtime,
    catalog_state: CatalogState,
    found: QueueScan,
    fifo_queue: FifoQueue,
    want: int,
    wanted: Filter,
    *,
    single: bool,
) -> tuple[int, int]:
    """Look ahead until enough messages have their turn; (where it stopped, the queue's end)."""
    queue = found.queue
    _, topic, queue_id = queue.key
    at = max(queue.position, catalog_state.min_offset(topic, queue_id))
    at = fifo_queue.end_of_known(at)  # a pop that was refused has looked further
    end = runtime.store.max_offset(topic, queue_id)
    scan_end = at + _scan_max(wanted)
    while at < min(end, scan_end) and not fifo_queue.full:
        if fifo_queue.has_ready_for(want, single=single):
            break
        entries = runtime.store.entries(topic, queue_id, at, min(FIFO_ENTRIES, end - at))
        if not entries:
            return at, at
        for entry in entries:
            if at not in fifo_queue.entries:
                try:
                    record = _read_matching(runtime, entry, wanted)
                except Corrupt as wrong:
                    if not runtime.damage.look(Passer(*queue.key), at, wrong):
                        found.damaged = True
                        return at, at
                    record = None
                if record is not None:
                    name = message_group_of(record)
                    fifo_queue.found(FifoEntry(at, name, entry.log_offset, entry.size_bytes))
            at += 1
    return at, end


def _give(runtime: Runtime, found: QueueScan, fifo_queue: FifoQueue, entry: FifoEntry) -> bool:
    """False: retention has deleted it, or it cannot be read."""
    try:
        record = runtime.store.read_bytes(entry.log_offset, entry.size_bytes)
    except Corrupt as wrong:
        if not runtime.damage.look(Passer(*found.queue.key), entry.offset, wrong):
            found.damaged = True
        elif not entry.held:
            fifo_queue.settle(entry.offset)
        return False
    if record is None:
        if not entry.held:
            fifo_queue.settle(entry.offset)
            found.queue.expired += 1
        return False
    found.add(entry.offset, QueueEntry(LogOffset(entry.log_offset), entry.size_bytes, 0), record)
    if entry.lease is not None:
        found.generation = max(found.generation, entry.lease.grant.generation + 1)
    return True


def message_group_of(record: Record) -> str:
    return names.value_of(record.properties, _MESSAGE_GROUP) or ""
