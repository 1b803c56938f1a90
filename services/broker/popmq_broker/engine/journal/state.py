"""Everything the verbs share: tables, leases, the store, the clock. No decisions here."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from popmq_broker.config import BrokerConfig
from popmq_broker.core.catalog.catalog import CatalogKind
from popmq_broker.core.catalog.tables import PERM_BOTH, ConsumeFrom, GroupConfig, TopicConfig
from popmq_broker.core.catalog.topic_versions import TopicVersions
from popmq_broker.core.groups.access_lock import Locks
from popmq_broker.core.groups.members import Members
from popmq_broker.core.groups.offsets import QueueKey
from popmq_broker.core.groups.pullers import Pullers
from popmq_broker.core.groups.queue_lock import QueueLocks
from popmq_broker.core.groups.starts import GroupStart, StartKey
from popmq_broker.core.leases.grant import Lease
from popmq_broker.core.leases.leases import (
    GroupQueueState,
    LeaseOutcome,
    LeaseTable,
    ReviveProgress,
)
from popmq_broker.core.leases.pop_buffer import GrantBuffer
from popmq_broker.core.polls.receives import LastReceives
from popmq_broker.core.polls.stats import Stats
from popmq_broker.core.transactions.transaction_table import HalfTable
from popmq_broker.engine.journal.damage import Damage
from popmq_broker.engine.journal.long_polls import LongPolls, PollKey
from popmq_broker.store.seek import first_stored_at
from popmq_broker.store.store import Store
from popmq_common.errors import GroupNotFound, TopicNotFound
from popmq_common.link.portions import Portions
from popmq_common.process.clock import Clock
from popmq_common.process.logs import Log
from popmq_common.records.names import RETRY_PREFIX, revive_topic

LOG_END: Final = -1
"""In the place of a queue id."""


@dataclass(slots=True, kw_only=True)
class BrokerState:
    config: BrokerConfig
    store: Store
    clock: Clock
    log: Log
    long_polls: LongPolls
    portions: Portions = field(default_factory=Portions)
    locks: Locks = field(default_factory=Locks)
    members: Members = field(default_factory=Members)
    queue_locks: QueueLocks = field(init=False)
    pullers: Pullers = field(default_factory=Pullers)
    waiting_pulls: LongPolls = field(init=False)
    """Pulls that wait, each by itself."""
    stats: Stats = field(default_factory=Stats)
    receives: LastReceives = field(default_factory=LastReceives)
    topics: dict[str, TopicConfig] = field(default_factory=dict)
    user_topic_count: int = 0
    """Of `topics`, those of clients; counted as they come and go."""
    topic_versions: TopicVersions = field(default_factory=TopicVersions)
    perm: int = PERM_BOTH
    """What clients may do here at most; a topic may allow less."""
    groups: dict[str, GroupConfig] = field(default_factory=dict)
    groups_version: int = 0
    floors: dict[str, dict[int, int]] = field(default_factory=dict)
    """Topics that were deleted: queue id → first offset of what came after; `LOG_END` → where the
    log ended then."""
    identity: str = ""
    """Of the data directory."""
    peers: dict[str, str] = field(default_factory=dict)
    """Other brokers of the cluster, and the identities that they had first."""
    unsaved: dict[CatalogKind, int] = field(default_factory=dict)
    """What of the catalog changed since its file was written, and where in the log that begins."""
    timer_topic_seen: int = 0
    """How far the timer's topic was looked through for leases of RocketMQ's."""
    retention_holds: dict[str, Callable[[], int | None]] = field(default_factory=dict)
    """Who keeps retention from deleting: name → lowest log offset that is still needed, if any."""
    starts: dict[StartKey, GroupStart] = field(default_factory=dict)
    """Where groups started, as told by their first receive."""
    leases: LeaseTable = field(default_factory=LeaseTable)
    progress: ReviveProgress = field(default_factory=ReviveProgress)
    damage: Damage = field(init=False)
    """What cannot be read."""
    halves: HalfTable = field(init=False)
    """Half messages of transactions that are not settled."""
    buffer: GrantBuffer = field(init=False)
    """Grants that are in no journal: empty, but with pop_buffer=memory."""

    def __post_init__(self) -> None:
        config = self.config
        self.waiting_pulls = LongPolls(config.waiting_polls_max)
        self.damage = Damage(self.store, self.log)
        self.queue_locks = QueueLocks(config.queue_lock_ms)
        self.buffer = GrantBuffer(
            stay_ms=config.pop_buffer_stay_ms, leases_max=config.pop_buffer_max
        )
        self.halves = HalfTable(
            interval_ms=config.transaction_check_interval_ms,
            checks_max=config.transaction_checks_max,
            age_ms_max=config.transaction_age_ms_max,
            settled_max=config.settled_transactions_max,
        )

    @property
    def revive_topic(self) -> str:
        return revive_topic(self.config.cluster)

    def topic(self, name: str) -> TopicConfig:
        config = self.topics.get(name)
        if config is None:
            raise TopicNotFound(topic=name)
        return config

    def group(self, name: str) -> GroupConfig:
        config = self.groups.get(name)
        if config is None:
            raise GroupNotFound(group=name)
        return config

    def floor(self, topic: str, queue_id: int) -> int:
        """The first offset ever of this topic; those before belong to deleted ones."""
        return self.floors.get(topic, {}).get(queue_id, 0)

    def min_offset(self, topic: str, queue_id: int) -> int:
        """The oldest offset that can be read; what a deleted topic held does not count."""
        return max(self.store.min_offset(topic, queue_id), self.floor(topic, queue_id))

    def is_of_deleted(self, topic: str, log_offset: int) -> bool:
        """What was stored there is for a topic that is gone; there may be one of its name."""
        deleted_at = self.floors.get(topic, {}).get(LOG_END, 0)
        return topic not in self.topics or log_offset < deleted_at

    def first_offset(self, key: QueueKey) -> int:
        """Where a group begins that has no offset here."""
        if self.begins_last(key):
            return self.store.max_offset(key.topic, key.queue_id)
        group = self.group(key.group)
        started = StartKey(key.group, key.topic) in self.starts
        is_retry = key.topic.startswith(RETRY_PREFIX)
        if group.consume_from is ConsumeFrom.TIME and not started and not is_retry:
            return self.offset_at(key.topic, key.queue_id, group.consume_from_ms)
        return self.min_offset(key.topic, key.queue_id)

    def offset_at(self, topic: str, queue_id: int, time_ms: int) -> int:
        """Of the first message stored at `time_ms` or later; the queue's end when there is none."""
        low = self.min_offset(topic, queue_id)
        return first_stored_at(self.store, topic, queue_id, low, time_ms)

    def begins_last(self, key: QueueKey) -> bool:
        """Not retry topics, where all there is is for this group; nor a queue that came when the
        group had started in the topic."""
        group = self.group(key.group)
        if group.consume_from is not ConsumeFrom.LAST or key.topic.startswith(RETRY_PREFIX):
            return False
        return StartKey(key.group, key.topic) not in self.starts

    def group_queue(self, key: QueueKey) -> GroupQueueState | None:
        return self.leases.queues.get(key)

    def new_group_queue(self, key: QueueKey, position: int) -> GroupQueueState:
        """One that is in no table yet."""
        group = self.groups.get(key.group)
        made = GroupQueueState(key, position, fifo=group is not None and group.fifo)
        if key.topic.startswith(RETRY_PREFIX):  # all that ever was there was for this group
            gone = min(position, self.store.min_offset(key.topic, key.queue_id))
            made.expired = max(0, gone - self.floor(key.topic, key.queue_id))
        return made

    def fence(self, queue: GroupQueueState, to: int) -> list[Lease]:
        """Set a queue's position outright; leases that were needed are returned.

        What expired of a topic that was deleted belongs to the past.
        """
        dropped = self.leases.fence(queue, to)
        floor = self.floor(queue.key.topic, queue.key.queue_id)
        queue.expired = max(0, min(queue.expired, to - floor))
        return dropped

    def lose(self, queue: GroupQueueState, queue_offset: int) -> None:
        """The lease of a message that retention has deleted is over."""
        queue.expired += 1
        self.settle(queue, queue_offset, LeaseOutcome.EXPIRED)

    def settle(self, queue: GroupQueueState, queue_offset: int, outcome: LeaseOutcome) -> None:
        """A message is done with: its lease ends, and the journal is needed that much less."""
        lease = self.leases.end(queue, queue_offset, outcome)
        self.close(queue.settled(queue_offset, lease))
        if not lease.grant.stored:
            queue.advance(queue.needed_from)

    def wake_for_fifo(self, queue: GroupQueueState) -> None:
        """What was settled or came back may have held up others of its message group."""
        if queue.fifo_queue is not None and queue.fifo_queue.has_ready:
            self.long_polls.wake_next(PollKey(queue.key.group, queue.key.topic))

    def close(self, leases: Iterable[Lease]) -> None:
        """Their checkpoints are not needed any more, or need not be written any more."""
        for lease in leases:
            if lease.grant.stored:
                self.progress.closed(lease)
            else:
                self.buffer.ended(lease.grant)
