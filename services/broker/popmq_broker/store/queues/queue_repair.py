"""Entries of a queue held against their records, and those that are wrong found again in the log.

Between the records of two sound entries of a queue lie the records of all entries between them.
Who looks through much gives others their turn: the generators here yield what says so.
"""

from collections.abc import Iterator

from popmq_broker.core.store.queue_entry import QueueEntry
from popmq_broker.core.store.ranges import Range
from popmq_broker.store.log.commit_log import CommitLog
from popmq_broker.store.queues.queue_ends import QueueId
from popmq_broker.store.queues.queues import Queues
from popmq_common.errors import Corrupt
from popmq_common.records.record import Record, is_queued

TURN_ENTRIES = 64
TURN_RECORDS = 64


class QueueRepair:
    def __init__(self, commit_log: CommitLog, queues: Queues) -> None:
        self._log = commit_log
        self._queues = queues

    def entry(self, key: QueueId, offset: int) -> QueueEntry | None:
        """None: it is not sound."""
        return self._queues.sound(key, offset)

    def record(self, key: QueueId, offset: int) -> Record | None:
        """The message, if its entry is sound and it can be read."""
        entry = self._queues.sound(key, offset)
        try:
            return None if entry is None else self._log.read(entry.log_offset, entry.size_bytes)
        except Corrupt:
            return None

    def damaged(self, key: QueueId, start: int, end: int) -> Iterator[Range | int]:
        """Runs of entries that are not sound. A number: so far it is, and it is the turn of
        others."""
        begun = None
        for offset in range(start, end):
            if offset % TURN_ENTRIES == 0:
                yield offset
            if self._queues.sound(key, offset) is not None:
                if begun is not None:
                    yield Range(begun, offset)
                begun = None
            elif begun is None:
                begun = offset
        if begun is not None:
            yield Range(begun, end)

    def repair(self, key: QueueId, run: Range, log_end: int) -> Iterator[int | None]:
        """Make the entries of `run` again whose records are in the log, which must be so far in
        the queue; their offsets. None: it is the turn of others."""
        before = self._queues.sound(key, run.start - 1)
        behind = self._queues.sound(key, run.end)
        low = self._log.start if before is None else before.log_offset + before.size_bytes
        high = log_end if behind is None else behind.log_offset
        for count, found in enumerate(self._log.walk(max(low, self._log.start), high)):
            if found is None or count % TURN_RECORDS == 0:
                yield None
            if found is None:
                continue
            record, size_bytes = found
            if (record.topic, record.queue_id) != key or not is_queued(record):
                continue
            if run.start <= record.queue_offset < run.end:
                entry = self._queues.entry_of(record, size_bytes)
                self._queues.repair(key, record.queue_offset, entry)
                yield record.queue_offset
