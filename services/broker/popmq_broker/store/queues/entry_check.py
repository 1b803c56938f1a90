"""Are a queue's entries those of its messages? Held against the records before they are used.

Those that are not are read as `DAMAGED`, so that one message cannot be read and not all of them.

An entry has no checksum, and a wrong one can be silent: a damaged tag code hides a message from a
filter, a damaged log offset may point at another message's first byte. What this process has
written itself is not looked at; of the rest, a block of entries is, when it is first read.
"""

from collections.abc import Callable
from typing import Final

from popmq_broker.core.store.queue_entry import DAMAGED, QueueEntry, tags_code_of
from popmq_broker.core.store.ranges import Ranges
from popmq_broker.store.log.commit_log import CommitLog
from popmq_broker.store.queues.consume_queue import ConsumeQueue
from popmq_broker.store.queues.queue_ends import QueueId
from popmq_common.errors import Corrupt
from popmq_common.records.names import LEVELS_TOPIC
from popmq_common.records.record import Record

BLOCK_ENTRIES: Final = 64
"""Looked at together: 0.3 ms, once for each block."""
CodeOf = Callable[[Record], int]
"""What the record's entry holds as the tag's code."""


def code_of_tag(record: Record) -> int:
    return tags_code_of(record.properties)


class EntryCheck:
    def __init__(self, commit_log: CommitLog, code_of: CodeOf) -> None:
        self._log = commit_log
        self.code_of = code_of
        self._log_start = commit_log.start
        self._looked_at: dict[QueueId, bytearray] = {}
        """By queue, a byte for each block: 1 when it has been looked at."""
        self._damaged: dict[QueueId, Ranges] = {}

    def damaged(self, key: QueueId, queue: ConsumeQueue, start: int, count: int) -> Ranges | None:
        """Look at the entries that are about to be read; those of the queue that are not the ones
        of their messages, as far as it was looked at. None: none.

        An entry whose record cannot be read is left to whoever reads it, and is told so then.
        """
        end = min(start + count, queue.found_end)
        if start < end:
            blocks = self._looked_at.get(key)
            if blocks is None:
                blocks = bytearray(queue.found_end // BLOCK_ENTRIES + 1)
                self._looked_at[key] = blocks
            for block in range(start // BLOCK_ENTRIES, (end - 1) // BLOCK_ENTRIES + 1):
                if not blocks[block]:
                    self._look_at_block(key, queue, block)
                    blocks[block] = 1
        return self._damaged.get(key)

    def repaired(self, key: QueueId, offset: int) -> None:
        if key in self._damaged:
            self._damaged[key].remove(offset, offset + 1)

    def _look_at_block(self, key: QueueId, queue: ConsumeQueue, block: int) -> None:
        low = max(block * BLOCK_ENTRIES, queue.min_offset)
        high = min((block + 1) * BLOCK_ENTRIES, queue.found_end)
        may_be_gone = self._log.start != self._log_start
        for offset, entry in enumerate(queue.entries(low, high - low), low):
            if entry.log_offset < self._log.start and may_be_gone:
                continue  # retention has deleted it since the start
            may_be_gone = False
            if self.wrong(key, offset, entry) is not None:
                self._damaged.setdefault(key, Ranges()).add(offset, offset + 1)

    def is_sound(self, key: QueueId, offset: int, entry: QueueEntry) -> bool:
        """The entry is the one of its message, and that can be read."""
        if self.wrong(key, offset, entry) is not None:
            return False
        try:
            return self._log.read(entry.log_offset, entry.size_bytes) is not None
        except Corrupt:
            return False

    def wrong(self, key: QueueId, offset: int, entry: QueueEntry) -> str | None:
        """Why the entry is not the one of its message; None also when nobody can say."""
        if entry == DAMAGED:
            return "the entry was lost"
        if entry.log_offset < self._log.start:
            return "the entry points before the log's first record"
        if self._log.begins_at(entry.log_offset):
            size_bytes = self._log.size_at(entry.log_offset)
            if entry.size_bytes != size_bytes:
                return f"the entry's size {entry.size_bytes} is not its record's {size_bytes}"
        try:
            record = self._log.read_at(entry.log_offset)
        except Corrupt:
            return None
        return mismatch(key, offset, entry, record, self.code_of) if record else None


def mismatch(
    key: QueueId, offset: int, entry: QueueEntry, record: Record, code_of: CodeOf
) -> str | None:
    """Why the entry is not the one of this record."""
    if (record.topic, record.queue_id, record.queue_offset) != (*key, offset):
        return (
            "the entry is of another message: "
            f"{record.topic}/{record.queue_id} offset {record.queue_offset}"
        )
    if record.topic == LEVELS_TOPIC:
        return None  # its entries hold times, and the delays may have been others then
    if entry.tags_code != code_of(record):
        return f"the entry's tag code {entry.tags_code} is not the one of its message"
    return None
