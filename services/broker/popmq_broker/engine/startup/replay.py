"""Start: what the files say about topics, groups, positions and leases.

The offsets file gives the positions as they were when it was written. The revive topic, read from
where that file says, adds everything since (engine/startup/journal_replay.py). The records of all
revive queues are taken in the order of the log.
"""

import asyncio
import heapq
from collections.abc import Iterator
from functools import partial
from typing import Final

from popmq_broker.config import PopBuffer
from popmq_broker.core.groups import offsets, passing
from popmq_broker.core.groups.offsets import OffsetTable, QueueKey
from popmq_broker.core.leases.leases import GroupQueueState
from popmq_broker.core.store.queue_entry import DAMAGED, QueueEntry
from popmq_broker.engine.groups.offsets import OFFSETS_FILE, passes_key
from popmq_broker.engine.journal.catalog_state import LOG_END, CatalogState
from popmq_broker.engine.journal.lease_state import LeaseState
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.engine.journal.state import BrokerState
from popmq_broker.engine.startup import catalog_replay
from popmq_broker.engine.startup.journal_replay import JournalReplay
from popmq_broker.engine.transactions import transaction_replay
from popmq_broker.store.seek import entries_from
from popmq_common.records.names import REVIVE_GROUP, SYSTEM_GROUP_PREFIX
from popmq_common.records.record import Record

TURN_RECORDS: Final = 256
"""Read before other work gets its turn, such as a replica's heartbeats: some 20 ms."""


async def load(state: BrokerState) -> bool:
    """Fill the state from its files. Raises `Corrupt` naming the file.

    True: the log ends before what the files speak of (flush=async, or it was truncated). Then they
    must be written before anything is appended: its offsets are used again.
    """
    end = state.runtime.store.log_end
    ahead, replay = await load_until(state, end)
    await finish(state, replay, replay.table)
    return ahead or files_end(state.runtime, replay.table) > end


def saved_table(runtime: Runtime) -> OffsetTable:
    """What the offsets file says. Raises `Corrupt`."""
    decode = partial(offsets.decode, where=OFFSETS_FILE)
    return runtime.store.load_config(OFFSETS_FILE, decode) or OffsetTable(0, {})


def files_end(runtime: Runtime, table: OffsetTable) -> int:
    """The files speak of the log up to there; `table`: the offsets file's. Raises `Corrupt`."""
    return max(catalog_replay.saved_marks(runtime).log_end, table.log_end)


async def load_until(state: BrokerState, end_offset: int) -> tuple[bool, JournalReplay]:
    """The files, and the log's records before `end_offset`; then `finish` is missing. True: floors
    lie above their queues' ends. Raises `Corrupt`."""
    runtime, catalog_state, lease_state = state.runtime, state.catalog_state, state.lease_state
    catalog_replay.load(runtime, catalog_state, end_offset)
    is_ahead = _lower_floors(runtime, catalog_state)
    runtime.store.oldest.begin_at(catalog_state.floors)
    runtime.damage.load()
    table = saved_table(runtime)
    for key in table.offsets:
        _take_position(runtime, lease_state, table, key)
    catalog_state.starts.update(table.starts)
    replay = JournalReplay(runtime, catalog_state, lease_state, table)
    for record in _journal_records(runtime, table, end_offset):
        replay.apply(record)
        if replay.count % TURN_RECORDS == 0:
            await asyncio.sleep(0)
    return is_ahead, replay


def refresh(state: BrokerState, replay: JournalReplay, table: OffsetTable) -> None:
    """An offsets file that is younger than the one that was loaded; all before its `log_end` was
    applied. It does not know of what was set since."""
    lease_state = state.lease_state
    set_since = {key for key, at in replay.changed_at.items() if at >= table.log_end}
    for key, position in table.offsets.items():
        queue = lease_state.table.queues.get(key)
        if key in set_since:
            continue
        if queue is None:
            _take_position(state.runtime, lease_state, table, key)
            continue
        queue.expired = table.expired.get(key, 0)
        queue.position = max(queue.position, position)
        _pass_settled(lease_state, queue)
    replay.changed_at = {key: at for key, at in replay.changed_at.items() if key in set_since}


def _take_position(
    runtime: Runtime, lease_state: LeaseState, table: OffsetTable, key: QueueKey
) -> None:
    """A queue that is not known yet, as the file has it."""
    if key.group.startswith(SYSTEM_GROUP_PREFIX):
        return
    end = runtime.store.max_offset(key.topic, key.queue_id)
    # Beyond the end: flush=async has lost what was there, and its offsets are used again.
    queue = lease_state.new_group_queue(key, min(table.offsets[key], end))
    queue.expired = table.expired.get(key, 0)
    lease_state.table.queues[key] = queue


async def finish(state: BrokerState, replay: JournalReplay, table: OffsetTable) -> None:
    """All of the journal was applied; `table`: what the offsets file says. Raises `Corrupt`."""
    runtime, catalog_state, lease_state = state.runtime, state.catalog_state, state.lease_state
    lease_state.passes_from = _passes_from(runtime, table)
    _leave_deleted_topics(catalog_state, lease_state)
    for queue in lease_state.table.queues.values():
        _begin_at_oldest(runtime, lease_state, queue)
        queue.committed = queue.position
        queue.told = replay.told.get(queue.key, passing.EVERYTHING)
        queue.doubt_told()
        _pass_settled(lease_state, queue)
    await transaction_replay.load(runtime, state.halves, table)
    live = lease_state.table.live_count
    runtime.log.info("leases.replayed", records=replay.count, live=live)


def _pass_settled(lease_state: LeaseState, queue: GroupQueueState) -> None:
    if queue.fifo_queue is not None:
        queue.position = queue.fifo_queue.end_of_known(queue.position)
        lease_state.close(queue.pass_settled())


def _journal_records(runtime: Runtime, table: OffsetTable, end_offset: int) -> Iterator[Record]:
    """Of the revive topic, in the order of the log, from where `table` says; those before
    `end_offset`. Raises `Corrupt`."""
    revive_key = QueueKey(REVIVE_GROUP, runtime.revive_topic, 0)
    streams = [
        _entries(runtime, i, table.offsets.get(revive_key._replace(queue_id=i), -1) + 1)
        for i in range(runtime.config.revive_queues)
    ]
    for entry in heapq.merge(*streams):
        if entry.log_offset >= end_offset and entry is not DAMAGED:
            return
        record = runtime.store.read(entry.log_offset, entry.size_bytes)
        if record is not None:
            yield record


def _entries(runtime: Runtime, revive_queue: int, start: int) -> Iterator[QueueEntry]:
    for _, entry in entries_from(runtime.store, runtime.revive_topic, revive_queue, start):
        yield entry


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
