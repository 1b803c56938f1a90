"""Start: what the files say about topics, groups, positions and leases.

The offsets file gives the positions as they were when it was written. The revive topic, read from
where that file says, adds everything since: checkpoints make leases and set positions, acks end
leases. The records of all revive queues are taken in the order of the log, so what happened later
wins.
"""

import heapq
from collections.abc import Iterator
from functools import partial

from popmq_broker.config import PopBuffer
from popmq_broker.core.groups import offsets, passing, starts
from popmq_broker.core.groups.offsets import OffsetTable, Passing, QueueKey
from popmq_broker.core.groups.starts import GroupStart, StartKey
from popmq_broker.core.leases import checkpoint as ck
from popmq_broker.core.leases.fifo_queue import FifoEntry, FifoQueue
from popmq_broker.core.leases.grant import Grant, Lease
from popmq_broker.core.leases.leases import GroupQueueState, LeaseOutcome
from popmq_broker.core.store.damage import Passer
from popmq_broker.core.store.queue_entry import QueueEntry, tag_of
from popmq_broker.core.transactions.transaction_table import HalfTable
from popmq_broker.engine.groups.offsets import OFFSETS_FILE, passes_key
from popmq_broker.engine.journal.catalog_state import LOG_END, CatalogState
from popmq_broker.engine.journal.lease_state import LeaseState
from popmq_broker.engine.journal.position_changes import FORGET
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.engine.leases.queue_scan import message_group_of
from popmq_broker.engine.startup import catalog_replay
from popmq_broker.engine.transactions import transaction_replay
from popmq_broker.store.seek import entries_from
from popmq_common.errors import Corrupt
from popmq_common.records.names import REVIVE_GROUP, SYSTEM_GROUP_PREFIX


def load(
    runtime: Runtime, catalog_state: CatalogState, lease_state: LeaseState, halves: HalfTable
) -> bool:
    """Fill the state from its files. Raises `Corrupt` naming the file.

    True: the log ends before what the files speak of (flush=async, or it was truncated). Then they
    must be written before anything is appended: its offsets are used again.
    """
    catalog_is_ahead = catalog_replay.load(runtime, catalog_state)
    ahead = _lower_floors(runtime, catalog_state) or catalog_is_ahead
    runtime.store.oldest.begin_at(catalog_state.floors)
    runtime.damage.load()
    saved = runtime.store.load_config(OFFSETS_FILE, partial(offsets.decode, where=OFFSETS_FILE))
    table = saved or OffsetTable(0, {})
    for key, position in table.offsets.items():
        if not key.group.startswith(SYSTEM_GROUP_PREFIX):
            end = runtime.store.max_offset(key.topic, key.queue_id)
            # Beyond the end: flush=async has lost what was there, and its offsets are used again.
            queue = lease_state.new_group_queue(key, min(position, end))
            queue.expired = table.expired.get(key, 0)
            lease_state.table.queues[key] = queue
    catalog_state.starts.update(table.starts)
    lease_state.passes_from = _passes_from(runtime, table)
    told = dict(table.passes)
    replayed = _replay(runtime, catalog_state, lease_state, table, told)
    _leave_deleted_topics(catalog_state, lease_state)
    for queue in lease_state.table.queues.values():
        _begin_at_oldest(runtime, lease_state, queue)
        queue.committed = queue.position
        queue.told = told.get(queue.key, passing.EVERYTHING)
        queue.doubt_told()
        if queue.fifo_queue is not None:
            queue.position = queue.fifo_queue.end_of_known(queue.position)
            lease_state.close(queue.pass_settled())
    transaction_replay.load(runtime, halves, table)
    runtime.log.info("leases.replayed", records=replayed, live=lease_state.table.live_count)
    return ahead or table.log_end > runtime.store.log_end


def _lower_floors(runtime: Runtime, catalog_state: CatalogState) -> bool:
    """A floor above its queue's end would hide what comes; True: there was one."""
    lowered, log_end = False, runtime.store.log_end
    for topic, floors in catalog_state.floors.items():
        is_ahead = floors.get(LOG_END, 0) > log_end
        for queue_id, floor in floors.items():
            end = log_end if queue_id == LOG_END else runtime.store.max_offset(topic, queue_id)
            if floor > end and (end or is_ahead):  # else the queue was forgotten
                floors[queue_id] = end
                lowered = True
    return lowered


def _leave_deleted_topics(catalog_state: CatalogState, lease_state: LeaseState) -> None:
    """A crash may have kept the end of a topic and not the position changes behind it."""
    for queue in lease_state.table.queues.values():
        floor = catalog_state.floor(queue.key.topic, queue.key.queue_id)
        if queue.position < floor:
            lease_state.close(lease_state.fence(queue, floor))


def _begin_at_oldest(runtime: Runtime, lease_state: LeaseState, queue: GroupQueueState) -> None:
    """What was deleted while the offsets could not be written has expired."""
    _, topic, queue_id = queue.key
    oldest = runtime.store.min_offset(topic, queue_id)
    if queue.position < oldest:
        _, over = queue.expire_below(oldest)
        lease_state.close(over)


def _passes_from(runtime: Runtime, table: OffsetTable) -> int | None:
    """From where in revive queue 0 the journal tells how groups go over messages: from here on, if
    an older version or RocketMQ wrote the positions; None: it does not."""
    if runtime.config.pop_buffer is PopBuffer.MEMORY:
        return None
    here = runtime.store.max_offset(runtime.revive_topic, 0)
    if not table.log_end:
        return here
    return min(here, table.offsets.get(passes_key(runtime), here))


def _replay(
    runtime: Runtime,
    catalog_state: CatalogState,
    lease_state: LeaseState,
    table: OffsetTable,
    told: dict[QueueKey, Passing],
) -> int:
    """`told`: as the offsets file has it; completed."""
    revive_key = QueueKey(REVIVE_GROUP, runtime.revive_topic, 0)
    streams = [
        _entries(runtime, i, table.offsets.get(revive_key._replace(queue_id=i), -1) + 1)
        for i in range(runtime.config.revive_queues)
    ]
    count = 0
    for entry, revive_queue, revive_offset in heapq.merge(*streams):
        record = runtime.store.read(entry.log_offset, entry.size_bytes)
        if record is None:
            continue
        where = f"revive topic, log offset {entry.log_offset}"
        tag = tag_of(record.properties)
        if tag == ck.CHECKPOINT_TAG:
            checkpoint = ck.decode_checkpoint(record.body, where=where)
            if checkpoint.offsets:
                _apply_checkpoint(runtime, lease_state, checkpoint, revive_queue, revive_offset)
            else:
                if revive_queue == 0:
                    lease_state.progress.position_changed(revive_offset, entry.log_offset)
                is_saved = entry.log_offset < table.log_end
                _apply_position_change(lease_state, checkpoint, table if is_saved else None)
                if not is_saved:
                    told.pop(
                        QueueKey(checkpoint.group, checkpoint.topic, checkpoint.queue_id), None
                    )
        elif tag in (ck.ACK_TAG, ck.BATCH_ACK_TAG):
            _apply_ack(lease_state, ck.decode_ack(record.body, where=where))
        elif tag == starts.START_TAG and entry.log_offset >= table.log_end:
            _apply_start(catalog_state, *starts.decode(record.body, where=where))
        elif tag == passing.PASS_TAG and entry.log_offset >= table.log_end:
            way = passing.decode(record.body, where=where)
            told[way.key] = way.passing
        count += 1
    return count


def _entries(
    runtime: Runtime, revive_queue: int, start: int
) -> Iterator[tuple[QueueEntry, int, int]]:
    for offset, entry in entries_from(runtime.store, runtime.revive_topic, revive_queue, start):
        yield entry, revive_queue, offset


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
        if queue.fifo_queue is not None and offset < queue.position:
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
            lease_state.progress.closed(older)
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
        lease_state.settle(queue, offset, outcome)
