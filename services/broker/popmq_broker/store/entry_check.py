"""Are a queue's entries those of its messages? Held against the records before they are used.

An entry has no checksum, and a wrong one can be silent: a damaged tag code hides a message from a
filter, a damaged log offset may point at another message's first byte. What this process has
written itself is not looked at; of the rest, a block of entries is, when it is first read.
"""

from collections.abc import Callable
from typing import Final

from popmq_broker.core.queue_entry import QueueEntry, tags_code
from popmq_broker.store.commit_log import CommitLog
from popmq_broker.store.consume_queue import ConsumeQueue
from popmq_broker.store.queue_ends import QueueId
from popmq_common.errors import Corrupt
from popmq_common.record import Record

BLOCK_ENTRIES: Final = 64
"""Looked at together: 0.3 ms, once for each block."""
TagOf = Callable[[bytes], str | None]
CodeOf = Callable[[Record], int | None]
"""The code of a record whose entry does not hold its tag's; None for all others."""


def by_tag(record: Record) -> int | None:
    return None


def tags_code_of(record: Record, tag_of: TagOf, code_of: CodeOf = by_tag) -> int:
    """The code that the record's entry holds."""
    code = code_of(record)
    if code is not None:
        return code
    tag = tag_of(record.properties)
    return tags_code(tag) if tag else 0


class EntryCheck:
    def __init__(self, commit_log: CommitLog, tag_of: TagOf, code_of: CodeOf = by_tag) -> None:
        self._log = commit_log
        self._tag_of = tag_of
        self._code_of = code_of
        self._log_start = commit_log.start
        self._sound: dict[QueueId, bytearray] = {}
        """By queue, a byte for each block: 1 when it has been looked at."""

    def check(self, key: QueueId, queue: ConsumeQueue, start: int, count: int) -> None:
        """Look at the entries that are about to be read. Raises `Corrupt` naming queue and offset.

        An entry whose record cannot be read is left to whoever reads it, and is told so then.
        """
        end = min(start + count, queue.found_end)
        if end <= start:
            return
        sound = self._sound.get(key)
        if sound is None:
            sound = self._sound[key] = bytearray(queue.found_end // BLOCK_ENTRIES + 1)
        for block in range(start // BLOCK_ENTRIES, (end - 1) // BLOCK_ENTRIES + 1):
            if not sound[block]:
                self._check_block(key, queue, block)
                sound[block] = 1

    def _check_block(self, key: QueueId, queue: ConsumeQueue, block: int) -> None:
        low = max(block * BLOCK_ENTRIES, queue.min_offset)
        high = min((block + 1) * BLOCK_ENTRIES, queue.found_end)
        seen = False
        for offset, entry in enumerate(queue.entries(low, high - low), low):
            if entry.log_offset < self._log.start:
                if seen or self._log.start == self._log_start:
                    reason = "the entry points before the log's first record"
                    raise Corrupt(path=queue.folder, offset=offset, reason=reason)
                continue  # retention has deleted it since the start
            seen = True
            wrong = self._wrong(key, offset, entry)
            if wrong is not None:
                raise Corrupt(path=queue.folder, offset=offset, reason=wrong)

    def _wrong(self, key: QueueId, offset: int, entry: QueueEntry) -> str | None:
        try:
            record = self._log.read(entry.log_offset, entry.size_bytes)
        except Corrupt:
            return None
        if record is None:
            return None
        return mismatch(
            key, offset, entry, record, tags_code_of(record, self._tag_of, self._code_of)
        )


def mismatch(key: QueueId, offset: int, entry: QueueEntry, record: Record, code: int) -> str | None:
    """Why the entry is not the one of this record."""
    if (record.topic, record.queue_id, record.queue_offset) != (*key, offset):
        return (
            "the entry is of another message: "
            f"{record.topic}/{record.queue_id} offset {record.queue_offset}"
        )
    if entry.tags_code != code:
        return f"the entry's tag code {entry.tags_code} is not the one of its message"
    return None
