"""The journal brought into the lease tables, record by record in the order of the log.

Checkpoints make leases and set positions, acks end leases; what happened later wins. A start reads
the records from its files (engine/startup/replay.py); a follower gets them as they are committed
(engine/replication/warm_leases.py).
"""

from popmq_broker.core.groups import passing, starts
from popmq_broker.core.groups.offsets import OffsetTable, Passing, QueueKey
from popmq_broker.core.groups.starts import GroupStart, StartKey
from popmq_broker.core.leases import checkpoint as ck
from popmq_broker.core.leases.fifo_queue import FifoEntry, FifoQueue
from popmq_broker.core.leases.grant import Grant, Lease
from popmq_broker.core.leases.leases import GroupQueueState, LeaseOutcome
from popmq_broker.core.store.damage import Passer
from popmq_broker.core.store.queue_entry import tag_of
from popmq_broker.engine.journal.catalog_state import CatalogState
from popmq_broker.engine.journal.lease_state import LeaseState
from popmq_broker.engine.journal.position_changes import FORGET
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.engine.leases.queue_scan import message_group_of
from popmq_common.errors import Corrupt
from popmq_common.records.record import Record


class JournalReplay:
    """`table`: the positions that the state was filled with; the records go on from there."""

    def __init__(
        self,
        runtime: Runtime,
        catalog_state: CatalogState,
        lease_state: LeaseState,
        table: OffsetTable,
    ) -> None:
        self._runtime = runtime
        self._catalog_state = catalog_state
        self._lease_state = lease_state
        self.table = table
        self.told: dict[QueueKey, Passing] = dict(table.passes)
        """The ways in which messages are gone over."""
        self.changed_at: dict[QueueKey, int] = {}
        """Queues whose position was set, and where in the log that stands."""
        self.count = 0

    def apply(self, record: Record) -> None:
        """One of the revive topic. Raises `Corrupt`."""
        where = f"revive topic, log offset {record.log_offset}"
        tag = tag_of(record.properties)
        is_saved = record.log_offset < self.table.log_end
        if tag == ck.CHECKPOINT_TAG:
            checkpoint = ck.decode_checkpoint(record.body, where=where)
            if checkpoint.offsets:
                place = record.queue_id, record.queue_offset
                _apply_checkpoint(self._runtime, self._lease_state, checkpoint, *place)
            else:
                self._set_position(checkpoint, record, is_saved=is_saved)
        elif tag in (ck.ACK_TAG, ck.BATCH_ACK_TAG):
            _apply_ack(self._lease_state, ck.decode_ack(record.body, where=where))
        elif tag == starts.START_TAG and not is_saved:
            _apply_start(self._catalog_state, *starts.decode(record.body, where=where))
        elif tag == passing.PASS_TAG and not is_saved:
            way = passing.decode(record.body, where=where)
            self.told[way.key] = way.passing
        self.count += 1

    def _set_position(self, change: ck.Checkpoint, record: Record, *, is_saved: bool) -> None:
        if record.queue_id == 0:
            place = record.queue_offset, record.log_offset
            self._lease_state.progress.position_changed(*place)
        _apply_position_change(self._lease_state, change, self.table if is_saved else None)
        key = QueueKey(change.group, change.topic, change.queue_id)
        self.changed_at[key] = record.log_offset
        if not is_saved:
            self.told.pop(key, None)


def _apply_checkpoint(
    runtime: Runtime,
    lease_state: LeaseState,
    checkpoint: ck.Checkpoint,
    revive_queue: int,
    revive_offset: int,
) -> None:
    key = QueueKey(checkpoint.group, checkpoint.topic, checkpoint.queue_id)
    queue = lease_state.table.queues.get(key)
    if queue is None:
        queue = lease_state.new_group_queue(key, checkpoint.start_offset)
        lease_state.table.queues[key] = queue
    if queue.fifo_queue is None:
        queue.position = max(queue.position, checkpoint.next_offset)
    grant = Grant(
        start_offset=checkpoint.start_offset,
        pop_time_ms=checkpoint.pop_time_ms,
        invisible_ms=checkpoint.invisible_ms,
        revive_queue=revive_queue,
        revive_offset=revive_offset,
        generation=checkpoint.generation,
        nack=checkpoint.nack,
        client_id=checkpoint.client_id,
        renew_ms=checkpoint.renew_ms,
    )
    leases = {}
    for offset in checkpoint.offsets:
        if queue.fifo_queue is not None and offset < queue.fifo_queue.first:
            continue  # settled before the offsets were written
        entries = runtime.store.entries(key.topic, key.queue_id, offset, 1)
        if not entries:  # retention has deleted it: as good as done
            continue
        leases[offset] = Lease(grant, entries[0].log_offset, entries[0].size_bytes)
    if queue.fifo_queue is not None:
        _hold_in_order(runtime, queue, queue.fifo_queue, checkpoint, leases)
    lease_state.progress.opened(revive_queue, revive_offset, len(leases))
    for offset in leases:
        older = queue.leases.get(offset)
        if older is not None:
            lease_state.progress.closed(older.grant)
            grant.changed_from = _changed_from(queue, older.grant, grant)
    lease_state.table.add(queue, leases)


def _changed_from(queue: GroupQueueState, older: Grant, newer: Grant) -> tuple[int, int] | None:
    """In a FIFO group the next delivery is a generation of the same place, not a change alone."""
    if newer.nack is not None or queue.fifo_queue is not None:
        return None
    if newer.generation == older.generation:
        return older.changed_from
    if newer.generation != older.generation + 1:
        return None
    return older.generation, older.pop_time_ms


def _hold_in_order(
    runtime: Runtime,
    queue: GroupQueueState,
    fifo_queue: FifoQueue,
    checkpoint: ck.Checkpoint,
    leases: dict[int, Lease],
) -> None:
    """Takes out of `leases` what retention has deleted."""
    attempts = dict(zip(checkpoint.offsets, checkpoint.attempts, strict=False))
    handed_out = dict(zip(checkpoint.offsets, checkpoint.handed_out, strict=False))
    reasons = dict(zip(checkpoint.offsets, checkpoint.reasons, strict=False))
    for offset, lease in list(leases.items()):
        entry = fifo_queue.entries.get(offset)
        if entry is None:
            try:
                record = runtime.store.read(lease.log_offset, lease.size_bytes)
            except Corrupt as wrong:  # the note is on disk before anything is served
                runtime.damage.look(Passer(*queue.key), offset, wrong)
                record = None
            if record is None:
                del leases[offset]
                continue
            name = message_group_of(record)
            entry = FifoEntry(offset, name, lease.log_offset, lease.size_bytes)
            fifo_queue.found(entry)
        fifo_queue.hold(entry, lease, attempt_id=checkpoint.attempt_id, counted=False)
        entry.attempts = attempts.get(offset, 1)
        entry.handed_out = handed_out.get(offset, 1)
        entry.reason = reasons.get(offset, "")


def _apply_position_change(
    lease_state: LeaseState, change: ck.Checkpoint, saved: OffsetTable | None
) -> None:
    """Void the leases before the change and take its position.

    `saved`: the offsets file is younger and knows better; a queue that is not in it was forgotten.
    """
    key = QueueKey(change.group, change.topic, change.queue_id)
    to: int | None = change.start_offset
    if saved is not None:
        to = saved.offsets.get(key)
    queue = lease_state.table.queues.get(key)
    if to is None or to == FORGET:
        dropped = lease_state.table.forget(key)
    elif queue is not None:
        dropped = lease_state.fence(queue, to)
    else:
        lease_state.table.queues[key] = lease_state.new_group_queue(key, to)
        dropped = []
    lease_state.close(dropped)


def _apply_start(catalog_state: CatalogState, key: StartKey, start: GroupStart | None) -> None:
    if start is None:
        catalog_state.starts.pop(key, None)
    else:
        catalog_state.starts[key] = start


def _apply_ack(lease_state: LeaseState, ack: ck.AckRecord) -> None:
    queue = lease_state.table.queues.get(QueueKey(ack.group, ack.topic, ack.queue_id))
    outcome = LeaseOutcome.EXPIRED if ack.expired else LeaseOutcome.ALREADY_ACKED
    for offset in ack.offsets:
        lease = queue.leases.get(offset) if queue is not None else None
        if queue is None or lease is None or lease.grant.generation != ack.generation:
            continue  # replaced by a newer lease, or ended before
        if queue.fifo_queue is not None:
            queue.position = queue.fifo_queue.end_of_known(queue.position)
        lease_state.settle(queue, (offset,), outcome)
