"""Position changes: a group's position in a queue is set outright.

Journaled as a checkpoint without offsets. What the group holds of the queue is fenced.
"""

from collections.abc import Mapping, Sequence

from popmq_broker.core.groups.offsets import QueueKey
from popmq_broker.core.leases import checkpoint as ck
from popmq_broker.core.leases.pop_buffer import Step
from popmq_broker.engine.journal import journal
from popmq_broker.engine.journal.lease_state import LeaseState
from popmq_broker.engine.journal.pop_buffer import append_behind
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.store.store import Appended, Draft
from popmq_common.units import QueueOffset

FORGET = -1
"""Nothing is known of the group in that queue any more."""


def change_positions(
    runtime: Runtime,
    lease_state: LeaseState,
    positions: Mapping[QueueKey, int],
    ahead: Sequence[Step] = (),
) -> None:
    """Journal new positions, void the leases before them, then apply. Raises `DiskFull`.

    `ahead`: what of the pop buffer is stored before them.
    """
    apply_position_changes(
        runtime, lease_state, positions, journal_positions(runtime, lease_state, positions, ahead)
    )


def apply_position_changes(
    runtime: Runtime,
    lease_state: LeaseState,
    positions: Mapping[QueueKey, int],
    appended: Sequence[Appended],
) -> None:
    """They are in the journal."""
    for place in appended:
        lease_state.progress.position_changed(place.queue_offset, place.log_offset)
    for key, to in positions.items():
        if to == FORGET:
            dropped = lease_state.table.forget(key)
        else:
            dropped = lease_state.fence(lease_state.table.queues[key], to)
        lease_state.close(dropped)
        runtime.damage.position_changed(key)


def journal_positions(
    runtime: Runtime,
    lease_state: LeaseState,
    positions: Mapping[QueueKey, int],
    ahead: Sequence[Step] = (),
) -> list[Appended]:
    """One record each. Raises `DiskFull`."""
    now_ms = runtime.clock.now_ms()
    drafts = position_drafts(runtime, positions, now_ms)
    return append_behind(runtime, lease_state, ahead, drafts, now_ms) if drafts else []


def position_drafts(
    runtime: Runtime, positions: Mapping[QueueKey, int], now_ms: int
) -> list[Draft]:
    return [
        journal.checkpoint(runtime, _record(runtime, key, to, now_ms), 0, now_ms)
        for key, to in positions.items()
    ]


def _record(runtime: Runtime, key: QueueKey, to: int, now_ms: int) -> ck.Checkpoint:
    return ck.Checkpoint(
        topic=key.topic,
        group=key.group,
        queue_id=key.queue_id,
        start_offset=QueueOffset(to),
        offsets=(),
        pop_time_ms=now_ms,
        invisible_ms=0,
        broker=runtime.config.name,
    )
