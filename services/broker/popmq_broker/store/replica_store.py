"""The store of a broker with replicas: what is on disk here may not be committed yet.

    append ──► on disk here ──► `on_disk` tells the group ──► `commit` ──► visible, answered

As a follower it gets the primary's bytes instead of messages, and reads from them what belongs
into queues and index once it is committed. As a primary it appends as any store does.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace

from popmq_broker.core.store import queue_entry
from popmq_broker.store.log.batch import Batch
from popmq_broker.store.log.commit_log import ScanEnd
from popmq_broker.store.queues.queues import QueueId
from popmq_broker.store.store import Store
from popmq_broker.store.store_parts import StoreParts
from popmq_common.errors import Corrupt
from popmq_common.records.record import Record, is_queued

SCAN_BYTES = 1 << 20
"""Read by a replica that becomes primary before other work gets its turn."""


class ReplicaStore(Store):
    def __init__(self, parts: StoreParts) -> None:
        super().__init__(parts)
        self._parts = parts
        self.on_disk: Callable[[int], None] = lambda _: None
        """Called with the end of what is on disk here."""
        self.grown = asyncio.Event()
        """Set when something was appended; whoever waits for more clears it first."""
        self.hearers: list[Callable[[Record], None]] = []
        """Called with each record that a queue learns of from the log's bytes, before it is
        visible."""
        self._recovered_end = self._scanned_end = self._commit_log.end
        """Before the one: what this start has found. Before the other: what queues know."""
        self._committed_end = self._checkpoints.marks.queues_end

    @property
    def scanned_end(self) -> int:
        """What is before it was heard, or found by this start."""
        return self._scanned_end

    def commit(self, end_offset: int) -> None:
        """The group has what is before `end_offset`. Raises `Corrupt`: a record cannot be read."""
        if end_offset > self._committed_end:
            self._queue_up(end_offset)
            if (known_end := min(end_offset, self._scanned_end)) > self._committed_end:
                self._commit(known_end)

    def _on_disk_up_to(self, end_offset: int) -> None:
        self.on_disk(end_offset)

    def _write(self, batch: Batch) -> None:
        super()._write(batch)
        self._scanned_end = batch.end  # `append` has told what is in it
        self.grown.set()

    def abandon(self) -> None:
        """As any store does; and whoever waits for the group learns at once that nobody will
        answer here, with `StoreClosed`. What was sent may be committed by the next primary."""
        super().abandon()
        self._waiting.fail()

    def _end_to_show(self) -> int:
        return max(self._committed_end, self._visible_end)

    async def _checkpoint(self) -> bool:
        """Not while the queues hold what this start has found and nobody knows to be committed."""
        return self._committed_end >= self._recovered_end and await super()._checkpoint()

    def handed_over(self) -> "ReplicaStore | None":
        """To follow with, after this store has led: another one of the same files, and whoever
        still has this one finds it closed. None: not all of it is committed; then it has to be
        opened anew. Raises `TimeoutError`: an fdatasync does not return."""
        end = self._commit_log.end
        if self._closed or self._pending or min(self._committed_end, self.durable_end) < end:
            return None
        self._closed = self._failed = True
        self._waiting.fail()
        if self._kick is not None:
            self._kick.cancel()
        self._flusher.abandon()
        self._flusher.close(self._config.sync_seconds_max)
        known = self._checkpoints
        fresh = ReplicaStore(replace(self._parts, marks=known.marks, ends=known.ends))
        fresh._last_store_ms = self._last_store_ms
        fresh._committed_end = end
        return fresh

    # --- as a follower ---

    def take(self, data: bytes) -> None:
        """The primary's bytes at our log's end, of one file. Raises `StoreClosed`, `DiskFull`."""
        with self._or_ends():
            self._commit_log.append_raw(data)
        self._flusher.request(self._position())

    def begin_empty(self, next_offsets: Mapping[QueueId, int]) -> None:
        """Queues of which the log holds nothing go on counting there."""
        self._queues.begin_empty(next_offsets)

    async def lead(self) -> None:
        """From now on this store appends: its queues know all that its log holds, committed or
        not. Nothing is shown before that is committed."""
        while (start := self._scanned_end) < self._commit_log.end:
            self._queue_up(min(start + SCAN_BYTES, self._commit_log.end))
            if self._scanned_end == start:  # a record that is larger
                self._queue_up(self._commit_log.end)
            await asyncio.sleep(0)
        self._recovered_end = self._visible_end = self._commit_log.end

    def _queue_up(self, end_offset: int) -> None:
        """Queues learn of the records that end before `end_offset`, from the log's own bytes."""
        start, end = self._scanned_end, self._scanned_end
        if start >= end_offset:
            return
        scan_end = ScanEnd(start)
        for record, size_bytes in self._commit_log.scan(start, scan_end):
            if record.log_offset + size_bytes > end_offset:
                break
            end = record.log_offset + size_bytes
            self._enqueue(record, size_bytes)
            if end == end_offset:
                break
        else:
            end = min(scan_end.end, end_offset)
            if end < end_offset and not self._is_cut_off(end, end_offset):
                path = self._commit_log.path(end)
                raise Corrupt(path=path, offset=end, reason=scan_end.reason)
        self._scanned_end = end
        if self.index is not None:
            self.index.go_on(end)

    def _enqueue(self, record: Record, size_bytes: int) -> None:
        self._record_count += 1
        self._last_store_ms = max(self._last_store_ms, record.store_timestamp_ms)
        if is_queued(record):
            assert self._queues.check is not None
            code = self._queues.check.code_of(record)
            entry = queue_entry.pack(record.log_offset, size_bytes, code)
            key = record.topic, record.queue_id
            self._queues.recover(key, record.queue_offset, entry, may_begin=True)
            for hear in self.hearers:
                hear(record)

    def _is_cut_off(self, start: int, end_offset: int) -> bool:
        """The record that begins there goes on behind `end_offset`."""
        return start + self._commit_log.size_at(start) > end_offset
