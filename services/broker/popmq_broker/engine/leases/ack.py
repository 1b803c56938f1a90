"""Ack and change: what a consumer says of messages it holds.

An ack ends a lease, a change gives the message a new lease one generation higher and voids the
old handle. Both are journaled in the revive queue of the lease's checkpoint, and answered when
the records are on disk; an ack that only repeats one waits for that one's record too. An ack of
what waits in the pop buffer is merged: no record, nothing to wait for.

Source: RocketMQ AckMessageProcessor, ChangeInvisibleTimeProcessor.
Differs: the outcome is typed, and an ack that cannot be stored is an error, not OK.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from popmq_broker.core.groups.offsets import QueueKey
from popmq_broker.core.leases.by_grant import LeasesByGrant
from popmq_broker.core.leases.grant import NOT_STORED, Grant
from popmq_broker.core.leases.leases import GroupQueueState, LeaseOutcome
from popmq_broker.core.leases.nack import Nack
from popmq_broker.core.retries.retry import DeadLetterCause
from popmq_broker.engine.journal import journal
from popmq_broker.engine.journal.lease_state import LeaseState
from popmq_broker.engine.journal.pop_buffer import append_behind, before_end
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.engine.leases.extend_lease import extend_leases, extension
from popmq_broker.engine.leases.revive import Revive
from popmq_common.errors import Corrupt
from popmq_common.records import properties as names
from popmq_common.records import receipt
from popmq_common.records.names import retry_topic
from popmq_common.records.receipt import Receipt
from popmq_internal.v1 import link_pb2 as link

OUTCOMES = {
    LeaseOutcome.DONE: link.LEASE_OUTCOME_DONE,
    LeaseOutcome.ALREADY_ACKED: link.LEASE_OUTCOME_ALREADY_ACKED,
    LeaseOutcome.EXPIRED: link.LEASE_OUTCOME_EXPIRED,
    LeaseOutcome.SUPERSEDED: link.LEASE_OUTCOME_SUPERSEDED,
    LeaseOutcome.UNKNOWN: link.LEASE_OUTCOME_UNKNOWN,
}


def outcomes_told(outcomes: Sequence[LeaseOutcome]) -> list["link.LeaseOutcome.ValueType"]:
    return [OUTCOMES[outcome] for outcome in outcomes]


def by_runs(runs: Iterable[link.RunPart]) -> Iterator[tuple[Receipt, Sequence[int]]]:
    """A handle, and the queue offsets of the messages that are named by it."""
    for run in runs:
        if run.queue_offsets:
            yield receipt.decode(run.handle), run.queue_offsets


def _acked(request: link.Ack) -> Iterator[tuple[Receipt, Sequence[int]]]:
    yield from receipt.runs(request.handles)
    yield from by_runs(request.runs)


class Ack:
    def __init__(self, runtime: Runtime, lease_state: LeaseState, revive: Revive) -> None:
        self._runtime = runtime
        self._lease_state = lease_state
        self._revive = revive
        self._releasing = asyncio.Lock()

    async def ack(self, request: link.Ack) -> link.AckReply:
        """One outcome per lease, in order. Raises `DiskFull`: then nothing was acked."""
        runtime = self._runtime
        now_ms = runtime.clock.now_ms()
        acked = self.find(request.group, request.topic, _acked(request), now_ms)
        for outcome, count in Counter(acked.outcomes).items():
            runtime.stats.acked[request.topic, request.group, outcome.value] += count
        wrote = self._journal_acks(acked, now_ms)
        if wrote or LeaseOutcome.ALREADY_ACKED in acked.outcomes:
            await runtime.store.durable(runtime.store.log_end)
        return link.AckReply(outcomes=outcomes_told(acked.outcomes))

    def find(
        self,
        group: str,
        topic: str,
        runs: Iterable[tuple[Receipt, Sequence[int]]],
        now_ms: int,
        *,
        named_again: LeaseOutcome = LeaseOutcome.ALREADY_ACKED,
    ) -> LeasesByGrant:
        """`runs`: a handle, and the queue offsets of messages named by it; `named_again`: the
        outcome of one that is named for the second time."""
        found = LeasesByGrant(named_again)
        for ref, offsets in runs:
            queue = self._queue_of(group, topic, ref)
            if queue is None:
                found.unknown(len(offsets))
            else:
                found.add(queue, ref, offsets, now_ms)
        return found

    async def change(self, request: link.ChangeInvisible) -> link.ChangeInvisibleReply:
        """A new lease from now for `invisible_ms`; 0: due at once. Asked again with the same
        handle, because the answer was lost, it answers the same new one. Raises `DiskFull`."""
        runtime = self._runtime
        now_ms = runtime.clock.now_ms()
        old = receipt.decode(request.handle)
        queue, outcome = self.judge(request.group, request.topic, old, now_ms)
        repeated = queue is not None and queue.repeats_change(old, now_ms)
        outcome = LeaseOutcome.DONE if repeated else outcome
        runtime.stats.changed[request.topic, request.group, outcome.value] += 1
        if outcome is not LeaseOutcome.DONE or queue is None:
            return link.ChangeInvisibleReply(outcome=OUTCOMES[outcome])
        change = self._change_again if repeated else self.renew
        new = change(queue, old.queue_offset, request.invisible_ms, now_ms)
        await runtime.store.durable(runtime.store.log_end)
        fresh = old._replace(
            start_offset=new.start_offset,
            pop_time_ms=new.pop_time_ms,
            invisible_ms=new.invisible_ms,
            generation=new.generation,
        )
        handle = receipt.encode(fresh, request.group, request.topic)
        return link.ChangeInvisibleReply(outcome=link.LEASE_OUTCOME_DONE, handle=handle)

    async def release(self, request: link.Release) -> link.Done:
        """Visible again at once, not counted; leases that are gone are passed over. In slices, one
        call after the other: each message is copied, and they may be large."""
        async with self._releasing:
            for handle in request.handles:
                await self._runtime.portions.wait()
                self._runtime.portions.use(self._release(request, receipt.decode(handle)))
        await self._runtime.store.durable(self._runtime.store.log_end)
        return link.Done()

    def _release(self, request: link.Release, ref: Receipt) -> int:
        """Bytes of the message, if it was held."""
        now_ms = self._runtime.clock.now_ms()
        queue, outcome = self.judge(request.group, request.topic, ref, now_ms)
        if outcome is not LeaseOutcome.DONE or queue is None:
            return 0
        size_bytes = queue.leases[ref.queue_offset].size_bytes
        self._revive.give_back(queue, [ref.queue_offset], ref.pop_time_ms)
        return size_bytes

    async def forward(self, request: link.ForwardDeadLetter) -> link.Done:
        """To the dead letters; done as well when the message is no longer held."""
        runtime = self._runtime
        reason = request.reason or "forwarded by the consumer"
        held = self._find(request)
        if held is not None:
            queue, offset = held
            self._revive.forward(queue, offset, DeadLetterCause.REJECTED, reason)
        await runtime.store.durable(runtime.store.log_end)
        return link.Done()

    def _find(self, request: link.ForwardDeadLetter) -> tuple[GroupQueueState, int] | None:
        if request.handle:
            now_ms = self._runtime.clock.now_ms()
            ref = receipt.decode(request.handle)
            queue, outcome = self.judge(request.group, request.topic, ref, now_ms)
            if outcome is LeaseOutcome.DONE and queue is not None:
                return queue, ref.queue_offset
            return None
        wanted = f"{names.UNIQ_KEY}{names.NAME_END}{request.message_id}{names.VALUE_END}".encode()
        topics = {request.topic, retry_topic(request.group, request.topic)}
        for key, queue in self._lease_state.table.queues.items():
            if key.group != request.group or key.topic not in topics:
                continue
            for offset, lease in queue.leases.items():
                try:
                    record = self._runtime.store.read(lease.log_offset, lease.size_bytes)
                except Corrupt:  # told when its lease ends
                    continue
                if record is not None and wanted in record.properties:
                    return queue, offset
        return None

    def judge(
        self, group: str, topic: str, ref: Receipt, now_ms: int
    ) -> tuple[GroupQueueState | None, LeaseOutcome]:
        queue = self._queue_of(group, topic, ref)
        if queue is None:
            return None, LeaseOutcome.UNKNOWN
        return queue, queue.judge(ref, now_ms)

    def _queue_of(self, group: str, topic: str, ref: Receipt) -> GroupQueueState | None:
        stored = retry_topic(group, topic) if ref.retry_mark else topic
        return self._lease_state.group_queue(QueueKey(group, stored, ref.queue_id))

    def _journal_acks(self, acked: LeasesByGrant, now_ms: int) -> bool:
        """One record per checkpoint, if that was stored, then the leases end; True: it wrote."""
        runtime, lease_state = self._runtime, self._lease_state
        drafts = [
            journal.ack(runtime, queue.key, grant, tuple(offsets), now_ms=now_ms)
            for grant, (queue, offsets) in acked.held.items()
            if grant.stored
        ]
        if drafts:
            runtime.store.append(drafts, now_ms, system=True)
        for queue, offsets in acked.held.values():
            lease_state.settle(queue, tuple(offsets), LeaseOutcome.ALREADY_ACKED)
        for queue in dict.fromkeys(queue for queue, _ in acked.held.values()):
            lease_state.wake_for_fifo(queue)
        return bool(drafts)

    def _change_again(
        self, queue: GroupQueueState, offset: int, invisible_ms: int, now_ms: int
    ) -> Grant:
        """The lease that the first change made gets the time that is asked for now. It keeps its
        handle when that is longer: one that is answered late after all stays true."""
        runtime = self._runtime
        old = queue.leases[offset].grant
        if now_ms + invisible_ms < old.due_ms:
            shorter = self.renew(queue, offset, invisible_ms, now_ms)
            shorter.changed_from = old.changed_from
            return shorter
        longer = replace(old, invisible_ms=now_ms + invisible_ms - old.pop_time_ms)
        draft = extension(runtime, queue, longer, [offset], now_ms)
        (place,) = runtime.store.append([draft], now_ms, system=True)
        longer.revive_offset = place.queue_offset
        extend_leases(self._lease_state, queue, longer, [offset])
        self._revive.look_again()
        return longer

    def renew(self, queue: GroupQueueState, offset: int, invisible_ms: int, now_ms: int) -> Grant:
        """A new lease for a message that is held; the handle of the old one is void."""
        return self.renew_together(queue, (offset,), invisible_ms, now_ms)

    def renew_together(
        self,
        queue: GroupQueueState,
        offsets: Sequence[int],
        invisible_ms: int,
        now_ms: int,
        nack: Nack | None = None,
    ) -> Grant:
        """New leases for messages of one grant, `offsets` in order. They come first and the ends of
        the old ones behind them: a crash between them loses nothing."""
        runtime, lease_state = self._runtime, self._lease_state
        old = queue.leases[offsets[0]].grant
        now_ms = max(now_ms, old.pop_time_ms)
        new = Grant(
            start_offset=offsets[0],
            pop_time_ms=now_ms,
            invisible_ms=invisible_ms,
            revive_queue=old.revive_queue,
            revive_offset=NOT_STORED,
            generation=old.generation + 1,
            changed_from=None if nack else (old.generation, old.pop_time_ms),
            nack=nack,
        )
        entries = [] if queue.fifo_queue is None else [queue.fifo_queue.entries[i] for i in offsets]
        checkpoint = journal.grant_record(
            runtime,
            queue.key,
            new,
            tuple(offsets),
            attempts=tuple(entry.attempts for entry in entries),
            handed_out=tuple(entry.handed_out for entry in entries),
            attempt_id=entries[0].attempt_id if entries and not nack else "",
            reasons=tuple(entry.reason for entry in entries),
        )
        drafts = [
            journal.checkpoint(runtime, checkpoint, new.revive_queue, now_ms),
            journal.ack(runtime, queue.key, old, tuple(offsets), now_ms=now_ms),
        ]
        ahead = before_end(queue, [queue.leases[offset] for offset in offsets])
        appended = append_behind(runtime, lease_state, ahead, drafts, now_ms)
        new.revive_offset = appended[0].queue_offset
        lease_state.progress.opened(new.revive_queue, new.revive_offset, len(offsets))
        older = {offset: queue.leases[offset] for offset in offsets}
        lease_state.close(older.values())
        leases = {offset: lease._replace(grant=new) for offset, lease in older.items()}
        lease_state.table.add(queue, leases)
        if queue.fifo_queue is not None:
            for entry in entries:
                lease = leases[entry.offset]
                queue.fifo_queue.hold(entry, lease, attempt_id=checkpoint.attempt_id, counted=False)
        self._revive.look_again()
        return new
