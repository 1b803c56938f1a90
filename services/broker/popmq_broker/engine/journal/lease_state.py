"""What groups hold, and what of it the journal is still needed for."""

from collections.abc import Iterable, Sequence

from popmq_broker.core.groups.offsets import QueueKey
from popmq_broker.core.leases.grant import Grant, Lease
from popmq_broker.core.leases.leases import (
    GroupQueueState,
    LeaseOutcome,
    LeaseTable,
)
from popmq_broker.core.leases.pop_buffer import GrantBuffer
from popmq_broker.core.leases.revive_progress import ReviveProgress
from popmq_broker.engine.journal.catalog_state import CatalogState
from popmq_broker.engine.journal.long_polls import GroupTopic
from popmq_broker.engine.journal.runtime import Runtime
from popmq_common.records.names import RETRY_PREFIX


class LeaseState:
    __slots__ = (
        "_catalog_state",
        "_long_polls",
        "_store",
        "buffer",
        "passes_from",
        "progress",
        "table",
        "timer_topic_seen",
    )

    def __init__(self, runtime: Runtime, catalog_state: CatalogState) -> None:
        config = runtime.config
        self._catalog_state = catalog_state
        self._store = runtime.store
        self._long_polls = runtime.long_polls
        self.table = LeaseTable()
        self.progress = ReviveProgress()
        self.buffer = GrantBuffer(
            stay_ms=config.pop_buffer_stay_ms, leases_max=config.pop_buffer_max
        )
        """Grants that are in no journal: empty, but with pop_buffer=memory."""
        self.passes_from: int | None = None
        """Offset of revive queue 0 from which on it is told how groups go over messages."""
        self.timer_topic_seen = 0
        """How far the timer's topic was looked through for leases of RocketMQ's."""

    def group_queue(self, key: QueueKey) -> GroupQueueState | None:
        return self.table.queues.get(key)

    def new_group_queue(self, key: QueueKey, position: int) -> GroupQueueState:
        """One that is in no table yet."""
        group = self._catalog_state.groups.get(key.group)
        made = GroupQueueState(key, position, fifo=group is not None and group.fifo)
        if key.topic.startswith(RETRY_PREFIX):  # all that ever was there was for this group
            gone = min(position, self._store.min_offset(key.topic, key.queue_id))
            made.expired = max(0, gone - self._catalog_state.floor(key.topic, key.queue_id))
        return made

    def fence(self, queue: GroupQueueState, to: int) -> list[Lease]:
        """Set a queue's position outright; leases that were needed are returned.

        What expired of a topic that was deleted belongs to the past.
        """
        dropped = self.table.fence(queue, to)
        floor = self._catalog_state.floor(queue.key.topic, queue.key.queue_id)
        queue.expired = max(0, min(queue.expired, to - floor))
        return dropped

    def lose(self, queue: GroupQueueState, queue_offset: int) -> None:
        """The lease of a message that retention has deleted is over."""
        queue.expired += 1
        self.settle(queue, (queue_offset,), LeaseOutcome.EXPIRED)

    def settle(
        self, queue: GroupQueueState, queue_offsets: Sequence[int], outcome: LeaseOutcome
    ) -> None:
        """Messages of one grant are done with: their leases end, and the journal is needed that
        much less."""
        grant = self.table.end(queue, queue_offsets, outcome)
        if queue.fifo_queue is not None:
            for offset in queue_offsets:
                queue.fifo_queue.settle(offset)
            self.close(queue.pass_settled())
            return
        self._close(grant, len(queue_offsets))
        if not grant.stored:
            queue.advance(queue.needed_from)

    def wake_for_fifo(self, queue: GroupQueueState) -> None:
        """What was settled or came back may have held up others of its message group."""
        if queue.fifo_queue is not None and queue.fifo_queue.has_ready:
            self._long_polls.wake_next(GroupTopic(queue.key.group, queue.key.topic))

    def close(self, leases: Iterable[Lease]) -> None:
        """Their checkpoints are not needed any more, or need not be written any more."""
        for lease in leases:
            self._close(lease.grant, 1)

    def _close(self, grant: Grant, lease_count: int) -> None:
        if grant.stored:
            self.progress.closed(grant, lease_count)
        else:
            self.buffer.ended(grant, lease_count)
