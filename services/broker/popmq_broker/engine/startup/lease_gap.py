"""A fail-over: open leases get the time added in which the broker had no primary.

Their ends are times in the journal, and nobody could ack while there was no primary. So without
this a message would be delivered again, and the attempt counted, only because the broker was away.

The gap is the time from the last record of the log to now. The one was told by the clock of the old
primary, the other by this one's: so what the clocks differ is made up for too. It is bounded by
`lease_gap_ms_max`, also because the log may end long before the old primary did.

Each lease is extended as by a sign of life of its client: one checkpoint for each grant, and
receipt handles go on as they are. A start after this one reads it from the journal.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from popmq_broker.core.leases.grant import Grant
from popmq_broker.core.leases.leases import GroupQueueState
from popmq_broker.engine.journal.lease_state import LeaseState
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.engine.leases.extend_lease import extend_leases, extension
from popmq_common.errors import DiskFull

GRANTS_MAX: Final = 1_024
"""Extended before other work gets its turn."""


class OpenLease(NamedTuple):
    queue: GroupQueueState
    grant: Grant
    offsets: list[int]


async def add(runtime: Runtime, lease_state: LeaseState, last_stored_ms: int) -> int:
    """Before anything is served; returns how many messages have their lease extended.

    `last_stored_ms`: of the log's last record before this primary's own. A disk that is full leaves
    the leases as they are.
    """
    gap_ms = gap(last_stored_ms, runtime.clock.now_ms(), runtime.config.lease_gap_ms_max)
    held = list(open_at(lease_state, last_stored_ms)) if gap_ms else []
    count = 0
    for first in range(0, len(held), GRANTS_MAX):
        some = held[first : first + GRANTS_MAX]
        try:
            _extend(runtime, lease_state, some, gap_ms)
        except DiskFull as full:
            runtime.log.warning("leases.not_extended", reason=str(full), gap_ms=gap_ms)
            break
        count += sum(len(one.offsets) for one in some)
        await asyncio.sleep(0)
    await runtime.store.durable(runtime.store.log_end)
    runtime.log.info("leases.extended", count=count, gap_ms=gap_ms)
    return count


def gap(last_stored_ms: int, now_ms: int, ms_max: int) -> int:
    """Milliseconds without a primary; 0: an empty log, or this clock is behind the old primary's,
    which makes the leases longer by itself."""
    return 0 if not last_stored_ms else max(0, min(now_ms - last_stored_ms, ms_max))


def open_at(lease_state: LeaseState, time_ms: int) -> Iterator[OpenLease]:
    """What consumers held at that time, and hold still. What was given back waits for its time,
    and nobody works on it."""
    for queue in lease_state.table.queues.values():
        by_grant: dict[Grant, list[int]] = {}
        for offset, lease in queue.leases.items():
            if lease.grant.nack is None and lease.grant.due_ms > time_ms:
                by_grant.setdefault(lease.grant, []).append(offset)
        for grant, offsets in by_grant.items():
            yield OpenLease(queue, grant, offsets)


def _extend(runtime: Runtime, lease_state: LeaseState, held: list[OpenLease], gap_ms: int) -> None:
    """Append, then apply. Raises `DiskFull`."""
    now_ms = runtime.clock.now_ms()
    longer = [replace(one.grant, invisible_ms=one.grant.invisible_ms + gap_ms) for one in held]
    drafts = [
        extension(runtime, one.queue, grant, one.offsets, now_ms)
        for one, grant in zip(held, longer, strict=True)
    ]
    appended = runtime.store.append(drafts, now_ms, system=True)
    for one, grant, place in zip(held, longer, appended, strict=True):
        stored = replace(grant, revive_offset=place.queue_offset)
        extend_leases(lease_state, one.queue, stored, one.offsets)
