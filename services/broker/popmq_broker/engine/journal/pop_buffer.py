"""The pop buffer's shell: store what stays too long, and what must precede another record.

Whoever journals something about a queue of a normal group appends through `append_behind`, with
what `GroupQueueState.unstored` says has to go first: one append, so all of it is refused or none,
and a crash keeps a first part of it, which is in order.

The decisions are in core/leases/pop_buffer.py.
"""

import asyncio
from collections.abc import Iterable, Sequence
from itertools import islice

from popmq_broker.config import PopBuffer
from popmq_broker.core.leases.grant import Grant, Lease
from popmq_broker.core.leases.leases import GroupQueueState
from popmq_broker.core.leases.pop_buffer import Buffered, Step
from popmq_broker.engine.journal import journal
from popmq_broker.engine.journal.lease_state import LeaseState
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.store.store import Appended, Draft
from popmq_common.errors import DiskFull

BATCH_MAX = 128  # grants stored before other work gets its turn; those before them come along
PUT_BACK_MS = 1_000  # next look at grants that could not be stored
IDLE_S_MAX = 1.0  # the wall clock may be set; look at it at least this often


def before_pop(queue: GroupQueueState) -> list[Step]:
    """What is stored before a checkpoint of what is handed out next."""
    return queue.unstored.everything(queue.position)


def before_end(queue: GroupQueueState, leases: Iterable[Lease]) -> list[Step]:
    """What is stored before a record about these leases, their own checkpoints included."""
    wanted = {lease.grant for lease in leases if not lease.grant.stored}
    return queue.unstored.through(wanted, queue.position) if wanted else []


def append_behind(
    runtime: Runtime,
    lease_state: LeaseState,
    ahead: Sequence[Step],
    drafts: Sequence[Draft],
    now_ms: int,
) -> list[Appended]:
    """Append `drafts` behind the checkpoints of `ahead`, all or none. Raises `DiskFull`.

    Leases of these grants are stored from here on; whoever looked one up before looks again.
    """
    live = [_live(lease_state, step.entry) for step in ahead]
    checkpoints = [
        _draft(runtime, step, offsets, now_ms) for step, offsets in zip(ahead, live, strict=True)
    ]
    appended = runtime.store.append([*checkpoints, *drafts], now_ms, system=True)
    lease_state.buffer.serving = True
    for step, offsets, at in zip(ahead, live, appended, strict=False):
        _stored(lease_state, step.entry, offsets, at)
    return appended[len(ahead) :]


def _live(lease_state: LeaseState, entry: Buffered) -> tuple[int, ...]:
    """Offsets of the grant that are still held."""
    leases = lease_state.table.queues[entry.key].leases
    return tuple(
        offset
        for offset in entry.offsets
        if (lease := leases.get(offset)) is not None and lease.grant is entry.grant
    )


def _draft(runtime: Runtime, step: Step, offsets: tuple[int, ...], now_ms: int) -> Draft:
    key, grant = step.entry.key, step.entry.grant
    moves_to = step.moves_to if step.moves_to != offsets[-1] + 1 else None
    record = journal.grant_record(runtime, key, grant, offsets, moves_to=moves_to)
    return journal.checkpoint(runtime, record, grant.revive_queue, now_ms)


def _stored(
    lease_state: LeaseState, entry: Buffered, offsets: tuple[int, ...], at: Appended
) -> None:
    grant = entry.grant
    grant.revive_offset = at.queue_offset
    lease_state.progress.opened(grant.revive_queue, grant.revive_offset, len(offsets))
    lease_state.buffer.was_stored(entry)


class Storing:
    """The task that stores what stays too long; it rests while nothing is buffered."""

    def __init__(self, runtime: Runtime, lease_state: LeaseState) -> None:
        self._runtime = runtime
        self._lease_state = lease_state
        self._added = asyncio.Event()

    @property
    def on(self) -> bool:
        return self._runtime.config.pop_buffer is PopBuffer.MEMORY

    def takes(self, queue: GroupQueueState, lease_count: int, invisible_ms: int) -> bool:
        """Whether a pop of this queue goes without a checkpoint for now."""
        if not self.on or queue.fifo_queue is not None:
            return False
        buffer = self._lease_state.buffer
        takes = buffer.takes(queue.unstored, lease_count, invisible_ms)
        buffer.bypassed += not takes
        return takes

    def add(
        self, queue: GroupQueueState, grant: Grant, offsets: tuple[int, ...], from_offset: int
    ) -> None:
        self._lease_state.buffer.add(queue.key, queue.unstored, grant, offsets, from_offset)
        self._added.set()

    async def run(self) -> None:
        """Store what is due, for ever."""
        while True:
            self._added.clear()
            if not await self.store_due():
                await self._idle()

    async def store_due(self) -> int:
        """One batch; returns how many grants it looked at, after they are durable."""
        runtime, lease_state = self._runtime, self._lease_state
        now_ms = runtime.clock.now_ms()
        taken = lease_state.buffer.take_due(now_ms, BATCH_MAX)
        if not taken:
            return 0
        try:
            await self._store(taken, now_ms)
        except DiskFull as full:
            lease_state.buffer.serving = False
            lease_state.buffer.put_back(taken, now_ms + PUT_BACK_MS)
            runtime.log.warning("pop_buffer.postponed", grants=len(taken), reason=str(full))
            return 0
        return len(taken)

    async def store_all(self) -> None:
        """Before a clean stop. What a full disk refuses is sent again after the next start."""
        runtime, lease_state = self._runtime, self._lease_state
        try:
            while some := list(islice(lease_state.buffer.buffered(), BATCH_MAX)):
                await self._store(some, runtime.clock.now_ms())
        except DiskFull as full:
            runtime.log.warning(
                "pop_buffer.not_stored", grants=len(lease_state.buffer), reason=str(full)
            )

    async def _store(self, wanted: Iterable[Buffered], now_ms: int) -> None:
        runtime, lease_state = self._runtime, self._lease_state
        by_queue: dict[GroupQueueState, list[Buffered]] = {}
        for entry in wanted:
            by_queue.setdefault(lease_state.table.queues[entry.key], []).append(entry)
        steps: list[Step] = []
        for queue, entries in by_queue.items():
            if len(steps) >= BATCH_MAX:
                lease_state.buffer.put_back(entries, now_ms)
            else:
                grants = {entry.grant for entry in entries}
                steps += queue.unstored.through(grants, queue.position)
        append_behind(runtime, lease_state, steps, [], now_ms)
        await runtime.store.durable(runtime.store.log_end)
        for queue in by_queue:
            queue.advance(queue.needed_from)

    async def _idle(self) -> None:
        next_ms = self._lease_state.buffer.next_store_ms()
        if next_ms is None:
            await self._added.wait()
            return
        wait_s = min(IDLE_S_MAX, (next_ms - self._runtime.clock.now_ms()) / 1000)
        await asyncio.sleep(max(wait_s, self._runtime.config.pop_buffer_scan_ms / 1000))
