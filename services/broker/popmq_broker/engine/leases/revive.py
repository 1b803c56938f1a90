"""Revive: what was handed out and not acked in time goes back to its group.

For each lease that expired a copy of the message is appended to the group's retry topic, or after
the last attempt to its dead letters, and directly behind it the ack record that ends the lease:
a pair that recovery keeps or drops as one. The arrival of the copy wakes a waiting poll.

Nothing is lost when the disk is full: the leases stay and are looked at again later.

Source: RocketMQ PopReviveService. Differs: the lease table says what is due, the revive topic is
not read back (docs/decisions/0002-leases-and-journal.md).
"""

import asyncio
from collections.abc import Iterable

from popmq_broker.core.leases.fifo_queue import FifoEntry, FifoQueue
from popmq_broker.core.leases.grant import Lease
from popmq_broker.core.leases.leases import Due, GroupQueueState, LeaseOutcome
from popmq_broker.core.leases.nack import NackKind
from popmq_broker.core.retries.deliveries import handed_out, why_dead
from popmq_broker.core.retries.retry import (
    Copy,
    DeadLetterCause,
    dead_letter,
    retry_or_dead_letter,
)
from popmq_broker.core.store.damage import Passer
from popmq_broker.core.store.disk_pause import DiskPause
from popmq_broker.engine.catalog.topics import Topics
from popmq_broker.engine.journal import journal
from popmq_broker.engine.journal.catalog_state import CatalogState
from popmq_broker.engine.journal.lease_state import LeaseState
from popmq_broker.engine.journal.pop_buffer import append_behind, before_end
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.engine.retries.copies import consumed_topic, copy_draft, tell_often
from popmq_broker.store.store import Draft
from popmq_common.errors import Corrupt, DiskFull
from popmq_common.records.record import Record

BATCH_MAX = 128  # leases revived before other work gets its turn
BATCH_BYTES_MAX = 2 << 20  # of their messages, each of which is copied
PAUSE_MS = 1_000  # after a copy could not be written
IDLE_S_MAX = 1.0  # the wall clock may be set; look at it at least this often


class Revive:
    def __init__(
        self, runtime: Runtime, catalog_state: CatalogState, lease_state: LeaseState, topics: Topics
    ) -> None:
        self._runtime = runtime
        self._catalog_state = catalog_state
        self._lease_state = lease_state
        self._topics = topics
        self._changed = asyncio.Event()
        self._pause = DiskPause(PAUSE_MS)
        """The disk took nothing; looking at all that is due again and again would not help."""

    async def run(self) -> None:
        """Revive what is due, for ever."""
        while True:
            self._changed.clear()
            if not await self.revive_due():
                await self._idle()

    async def revive_due(self) -> int:
        """One batch; returns how many leases it looked at, after their copies are durable."""
        runtime, lease_state = self._runtime, self._lease_state
        now_ms = runtime.clock.now_ms()
        if self._pause.left_ms(now_ms):
            return 0
        due = lease_state.table.take_due(now_ms, BATCH_MAX, BATCH_BYTES_MAX)
        if not due:
            return 0
        lease_count = sum(len(item.offsets) for item in due)
        try:
            left = self._copy_and_end(due)
        except DiskFull as full:
            for item in due:
                lease_state.table.put_back([item], item.due_ms)
            self._pause.begin(now_ms)
            runtime.log.warning("revive.postponed", lease_count=lease_count, reason=str(full))
            return 0
        self._pause.end()
        await runtime.store.durable(runtime.store.log_end)
        if left:  # their notes first
            await runtime.damage.saved_quietly()
            if not runtime.damage.is_saved:
                self._pause.begin(now_ms)
        return lease_count

    def look_again(self) -> None:
        """A lease was added or changed: the next due time may be nearer."""
        self._changed.set()

    def give_back(self, queue: GroupQueueState, offsets: Iterable[int], pop_time_ms: int) -> None:
        """End leases whose messages reached nobody; the attempt is not counted."""
        live = [
            (offset, lease)
            for offset in offsets
            if (lease := queue.leases.get(offset)) is not None
            and lease.grant.pop_time_ms == pop_time_ms
        ]
        self._end_readable(queue, live, counted=False)  # the others end when their time is over

    def deliveries(self, queue: GroupQueueState, queue_offset: int) -> tuple[int, int]:
        """Of a leased message: (attempts, how often it was handed out), this time included."""
        if queue.fifo_queue is not None:
            entry = queue.fifo_queue.entries[queue_offset]
            return entry.attempts, entry.handed_out
        lease = queue.leases[queue_offset]
        try:
            record = self._runtime.store.read(lease.log_offset, lease.size_bytes)
        except Corrupt:  # told when its lease ends
            record = None
        return (1, 1) if record is None else (record.reconsume_times + 1, handed_out(record))

    def forward(
        self, queue: GroupQueueState, queue_offset: int, cause: DeadLetterCause, reason: str
    ) -> int:
        """Move one leased message to the dead letters; returns the log's end behind it."""
        lease = queue.leases[queue_offset]
        runtime, lease_state = self._runtime, self._lease_state
        drafts = self._dead_letter(queue, queue_offset, lease, cause, reason)
        ahead = before_end(queue, [lease])
        appended = append_behind(runtime, lease_state, ahead, drafts, runtime.clock.now_ms())
        self._settle(queue, [(queue_offset, lease)])
        lease_state.wake_for_fifo(queue)
        return appended[-1].end_offset

    def _dead_letter(
        self,
        queue: GroupQueueState,
        queue_offset: int,
        lease: Lease,
        cause: DeadLetterCause,
        reason: str,
    ) -> list[Draft]:
        """The pair that ends the lease; the ack record alone when the message is gone."""
        drafts = []
        entry = None if queue.fifo_queue is None else queue.fifo_queue.entries[queue_offset]
        record = self._read(queue, queue_offset, lease)
        if record is not None:
            group, topic = queue.key.group, consumed_topic(queue.key)
            copy = dead_letter(
                record,
                group=group,
                topic=topic,
                pop_time_ms=lease.grant.pop_time_ms,
                cause=cause,
                attempts=None if entry is None else entry.attempts,
                uncounted=0 if entry is None else entry.handed_out - entry.attempts,
                reason=reason or ("" if entry is None else entry.reason),
            )
            self._topics.ensure_system_copy_target(copy.topic)
            drafts.append(copy_draft(record, copy))
            self._runtime.stats.dead[topic, group] += 1
        drafts.append(self._ack_draft(queue, queue_offset, lease))
        return drafts

    def _copy_and_end(self, due: list[Due]) -> int:
        """How many are left: they cannot be read, and that is to be saved first."""
        by_queue: dict[tuple[GroupQueueState, bool], list[tuple[int, Lease]]] = {}
        for item in due:
            queue = self._lease_state.table.queues[item.key]
            for offset in item.offsets:
                lease = queue.leases[offset]
                by_queue.setdefault((queue, lease.grant.counted), []).append((offset, lease))
        left = 0
        for (queue, counted), leases in by_queue.items():
            unread = self._end_readable(queue, leases, counted=counted)
            for offset, lease in unread:
                grant = lease.grant
                self._lease_state.table.put_back(
                    [Due(grant.due_ms, 0, queue.key, (offset,), grant)], 0
                )
            left += len(unread)
        return left

    def _end_readable(
        self, queue: GroupQueueState, leases: list[tuple[int, Lease]], *, counted: bool
    ) -> list[tuple[int, Lease]]:
        """End those that can be read, or of which it is noted on disk that they cannot; the others
        are returned."""
        try:
            self._end(queue, leases, counted=counted)
        except Corrupt:
            ready = [one for one in leases if self._is_ready(queue, *one)]
            self._end(queue, ready, counted=counted)
            return [one for one in leases if one not in ready]
        return []

    def _is_ready(self, queue: GroupQueueState, offset: int, lease: Lease) -> bool:
        try:
            self._read(queue, offset, lease)
        except Corrupt:
            return False
        return True

    def _read(self, queue: GroupQueueState, offset: int, lease: Lease) -> Record | None:
        """None: retention has deleted the message, or it cannot be read, which is noted on disk.

        Raises `Corrupt`: it is not noted yet.
        """
        try:
            return self._runtime.store.read(lease.log_offset, lease.size_bytes)
        except Corrupt as wrong:
            if not self._runtime.damage.look(Passer(*queue.key), offset, wrong):
                raise
            return None

    def _end(
        self, queue: GroupQueueState, leases: list[tuple[int, Lease]], *, counted: bool
    ) -> None:
        """Append the pairs of these leases in one go, then end them. Raises `DiskFull`."""
        if not leases:
            return
        if queue.fifo_queue is not None:
            self._end_in_order(queue, queue.fifo_queue, leases, counted=counted)
            return
        runtime = self._runtime
        drafts: list[Draft] = []
        copies: list[tuple[Lease, Record, Copy]] = []
        for offset, lease in leases:
            made = self._copy(queue, offset, lease, counted=counted and _counts(lease))
            if made is not None:
                record, copy = made
                self._topics.ensure_system_copy_target(copy.topic)
                drafts.append(copy_draft(record, copy))
                copies.append((lease, record, copy))
            drafts.append(self._ack_draft(queue, offset, lease))
        ahead = before_end(queue, (lease for _, lease in leases))
        append_behind(runtime, self._lease_state, ahead, drafts, runtime.clock.now_ms())
        for lease, record, copy in copies:
            counts = runtime.stats.dead if copy.dead else runtime.stats.revived
            counts[consumed_topic(queue.key), queue.key.group] += 1
            if not copy.dead and not (counted and _counts(lease)):
                tell_often(runtime, queue.key, lease, handed_out(record))
        self._settle(queue, leases)

    def end_gone(self, queue: GroupQueueState) -> None:
        """End the leases of messages that retention has deleted: nothing can be redelivered.

        Raises `DiskFull`; then they end when their time is over.
        """
        gone = [(offset, lease) for offset, lease in queue.leases.items() if self._is_gone(lease)]
        self._end(queue, gone, counted=False)

    def _is_gone(self, lease: Lease) -> bool:
        return lease.log_offset < self._runtime.store.log_start

    def _settle(self, queue: GroupQueueState, leases: Iterable[tuple[int, Lease]]) -> None:
        """Copied, or lost because retention was faster."""
        for offset, lease in leases:
            if self._is_gone(lease):
                self._lease_state.lose(queue, offset)
            else:
                self._lease_state.settle(queue, (offset,), LeaseOutcome.EXPIRED)

    def _end_in_order(
        self,
        queue: GroupQueueState,
        fifo_queue: FifoQueue,
        leases: list[tuple[int, Lease]],
        *,
        counted: bool,
    ) -> None:
        """A FIFO group gets them again where they are; only dead letters are copied.

        What retention has deleted ends as a dead letter does, without a copy.
        """
        runtime, lease_state = self._runtime, self._lease_state
        dead = {
            offset: reason
            for offset, lease in leases
            if (reason := self._why_dead(queue, fifo_queue.entries[offset], lease, counted))
            is not None
        }
        drafts: list[Draft] = []
        for offset, lease in leases:
            if offset in dead:
                counts = counted and _counts(lease)
                cause = DeadLetterCause.ATTEMPTS if counts else DeadLetterCause.DELIVERIES
                drafts += self._dead_letter(queue, offset, lease, cause, dead[offset])
        if drafts:
            runtime.store.append(drafts, runtime.clock.now_ms(), system=True)
        for offset, lease in leases:
            if offset in dead:
                self._settle(queue, [(offset, lease)])
            else:
                again_counted = counted and _counts(lease)
                lease_state.table.end(queue, (offset,), LeaseOutcome.EXPIRED)
                reason = _reason(lease) if again_counted else ""
                fifo_queue.give_back(offset, counted=again_counted, reason=reason)
                runtime.stats.revived[queue.key.topic, queue.key.group] += again_counted
                if not again_counted:
                    tell_often(runtime, queue.key, lease, fifo_queue.entries[offset].handed_out)
        lease_state.wake_for_fifo(queue)

    def _why_dead(
        self, queue: GroupQueueState, entry: FifoEntry, lease: Lease, counted: bool
    ) -> str | None:
        """Why a FIFO group gives up a message whose lease ends; None: it is redelivered."""
        group = self._catalog_state.groups[queue.key.group]
        if self._is_gone(lease):
            return ""
        if counted and _counts(lease):
            return _reason(lease) if entry.attempts >= group.max_attempts else None
        if entry.handed_out < group.max_hand_outs:
            return None
        return why_dead(entry.handed_out, entry.attempts, _reason(lease))

    def _copy(
        self, queue: GroupQueueState, offset: int, lease: Lease, *, counted: bool
    ) -> tuple[Record, Copy] | None:
        """None: retention has deleted the message, it cannot be read, or its group is gone."""
        group = self._catalog_state.groups.get(queue.key.group)
        record = self._read(queue, offset, lease)
        if record is None or group is None:
            return None
        topic = consumed_topic(queue.key)
        return record, retry_or_dead_letter(
            record,
            group=group.name,
            topic=topic,
            pop_time_ms=lease.grant.pop_time_ms,
            max_attempts=group.max_attempts,
            max_hand_outs=group.max_hand_outs,
            counted=counted,
            reason=_reason(lease),
        )

    def _ack_draft(self, queue: GroupQueueState, offset: int, lease: Lease) -> Draft:
        now_ms = self._runtime.clock.now_ms()
        return journal.ack(
            self._runtime, queue.key, lease.grant, (offset,), now_ms=now_ms, expired=True
        )

    async def _idle(self) -> None:
        now_ms = self._runtime.clock.now_ms()
        next_ms = self._lease_state.table.next_due_ms()
        wait_s = IDLE_S_MAX
        if next_ms is not None:
            wait_ms = max(0, next_ms - now_ms, self._pause.left_ms(now_ms))
            wait_s = min(wait_s, wait_ms / 1000)
        try:
            async with asyncio.timeout(wait_s):
                await self._changed.wait()
        except TimeoutError:
            return


def _counts(lease: Lease) -> bool:
    nack = lease.grant.nack
    return nack is None or nack.kind is not NackKind.UNCOUNTED


def _reason(lease: Lease) -> str:
    """What its consumer said when it gave it back."""
    nack = lease.grant.nack
    return "" if nack is None else nack.reason
