"""Where a group's messages are, counted from offsets and leases at one moment.

    stored = settled + ready + in flight + delayed + blocked + expired

holds for each group and topic at any time, over restarts too: all but `expired` is read from
offsets, and that stands beside them in consumerOffset.json. Stored is all that ever was, deleted by
retention or not: from the topic's first message on, or from its floor if it was made anew.
Retry topics are rows of their own: a message that failed is settled in its topic and stored again
in the retry topic. So what a group has acked, put into the dead letters or filtered out is

    settled of the topic + settled of its retry topic - stored in its retry topic
"""

from typing import NamedTuple

from popmq_broker.core.groups.offsets import QueueKey
from popmq_broker.core.leases.fifo_queue import FifoQueue
from popmq_broker.core.leases.leases import GroupQueueState
from popmq_broker.engine.journal.catalog_state import CatalogState
from popmq_broker.engine.journal.lease_state import LeaseState
from popmq_broker.engine.journal.runtime import Runtime
from popmq_common.records.names import (
    DEAD_LETTER_PREFIX,
    RETRY_PREFIX,
    dead_letter_topic,
    retry_topic,
)


class MessageCounts(NamedTuple):
    stored: int
    settled: int
    """Acked, dead-lettered, filtered out, or copied to the retry topic."""
    ready: int
    in_flight: int
    delayed: int
    """Given back by their consumer, and waiting for their delay."""
    blocked: int
    """Waiting for an earlier message of their message group."""
    expired: int
    """Deleted by retention before the group was done with them."""

    @property
    def lag(self) -> int:
        """What the group is not done with."""
        return self.ready + self.in_flight + self.delayed + self.blocked

    @property
    def unaccounted(self) -> int:
        """Anything but 0 is a bug."""
        return self.stored - self.settled - self.lag - self.expired


def counts(
    runtime: Runtime, catalog_state: CatalogState, lease_state: LeaseState
) -> dict[tuple[str, str], MessageCounts]:
    """By topic as stored, and group."""
    found: dict[tuple[str, str], MessageCounts] = {}
    for key, queue in known_queues(catalog_state, lease_state).items():
        _add(found, key, of_queue(runtime, catalog_state, queue))
    return found


def known_queues(
    catalog_state: CatalogState, lease_state: LeaseState
) -> dict[QueueKey, GroupQueueState]:
    """All queues of the topics a group has popped, its retry topics too, looked at or not yet.

    Of a group that has never popped a topic nothing is known, and nothing is said.
    """
    found = dict(lease_state.table.queues)
    pairs = {(key.group, key.topic) for key in found} | set(catalog_state.starts)
    for group, topic in {pair for pair in pairs if pair[0] in catalog_state.groups}:
        for name in (topic, retry_topic(group, topic)):
            config = catalog_state.topics.get(name)
            for i in range(config.read_queues if config else 0):
                key = QueueKey(group, name, i)
                if key not in found:
                    found[key] = lease_state.new_group_queue(key, catalog_state.first_offset(key))
    return found


def dead_letters(runtime: Runtime, catalog_state: CatalogState) -> dict[str, int]:
    """Stored dead letters by group; 0 for a group that has none."""
    found = dict.fromkeys(catalog_state.groups, 0)
    for group in catalog_state.groups:
        topic = dead_letter_topic(group)
        if topic in catalog_state.topics:
            key = QueueKey(group, topic, 0)
            found[group] = _end(runtime, key) - catalog_state.min_offset(topic, 0)
    return found


def _add(found: dict[tuple[str, str], MessageCounts], key: QueueKey, more: MessageCounts) -> None:
    row = (key.topic, key.group)
    before = found.get(row)
    found[row] = (
        more if before is None else MessageCounts(*map(sum, zip(before, more, strict=True)))
    )


def of_queue(
    runtime: Runtime, catalog_state: CatalogState, queue: GroupQueueState
) -> MessageCounts:
    key = queue.key
    first = catalog_state.floor(key.topic, key.queue_id)
    position = max(first, queue.position)
    end = max(position, _end(runtime, key))
    leased = len(queue.leases)
    delayed = sum(lease.grant.nack is not None for lease in queue.leases.values())
    held = leased - delayed
    if queue.fifo_queue is None:
        settled = position - first - leased - queue.expired
        return MessageCounts(end - first, settled, end - position, held, delayed, 0, queue.expired)
    settled, ready = _in_order(queue.fifo_queue, first, position, end)
    blocked = queue.fifo_queue.blocked_count()
    settled -= queue.expired
    return MessageCounts(end - first, settled, ready, held, delayed, blocked, queue.expired)


def _in_order(fifo_queue: FifoQueue, first: int, position: int, end: int) -> tuple[int, int]:
    """(settled or expired, ready). After a start the journal may know of messages behind the
    position."""
    known_ahead = settled_ahead = open_before = 0
    for offset, entry in fifo_queue.entries.items():
        if offset >= position:
            known_ahead += 1
            settled_ahead += entry.settled
        else:
            open_before += not entry.settled
    settled = position - first - open_before + settled_ahead
    return settled, end - position - known_ahead + fifo_queue.ready_count()


def _end(runtime: Runtime, key: QueueKey) -> int:
    """Copies count from when they are appended: then what they are copies of is settled."""
    if key.topic.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX)):
        return runtime.store.end_offset(key.topic, key.queue_id)
    return runtime.store.max_offset(key.topic, key.queue_id)
