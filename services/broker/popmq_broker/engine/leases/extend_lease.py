"""A lease is extended: it gets a longer time and stays the same lease.

One checkpoint says so, with the same pop time and generation as the one before, whose place it
takes. Receipt handles go on as they are.
"""

from collections.abc import Sequence

from popmq_broker.core.leases.grant import Grant, Lease
from popmq_broker.core.leases.leases import GroupQueueState
from popmq_broker.engine.journal import journal
from popmq_broker.engine.journal.lease_state import LeaseState
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.store.store import Draft


def extension(
    runtime: Runtime, queue: GroupQueueState, grant: Grant, offsets: Sequence[int], now_ms: int
) -> Draft:
    """What is appended before `extend_leases`."""
    entries = [] if queue.fifo_queue is None else [queue.fifo_queue.entries[i] for i in offsets]
    record = journal.grant_record(
        runtime,
        queue.key,
        grant,
        tuple(offsets),
        attempts=tuple(entry.attempts for entry in entries),
        handed_out=tuple(entry.handed_out for entry in entries),
        attempt_id=entries[0].attempt_id if entries else "",
        reasons=tuple(entry.reason for entry in entries),
    )
    return journal.checkpoint(runtime, record, grant.revive_queue, now_ms)


def extend_leases(
    lease_state: LeaseState, queue: GroupQueueState, grant: Grant, offsets: Sequence[int]
) -> None:
    """`grant`: with its place in the revive queue, instead of the one these leases have."""
    older: list[Lease] = [queue.leases[offset] for offset in offsets]
    leases = {
        offset: lease._replace(grant=grant) for offset, lease in zip(offsets, older, strict=True)
    }
    lease_state.progress.opened(grant.revive_queue, grant.revive_offset, len(leases))
    lease_state.table.add(queue, leases)
    if queue.fifo_queue is not None:
        queue.fifo_queue.regrant(leases)
    lease_state.close(older)
