"""Topics, groups and what else the catalog says, and where the offsets of its queues begin."""

from dataclasses import dataclass, field
from typing import Final

from popmq_broker.core.catalog.catalog import NO_ACCESS, CatalogKind, StoredAccess
from popmq_broker.core.catalog.tables import (
    PERM_BOTH,
    PERM_READ,
    ConsumeFrom,
    GroupConfig,
    TopicConfig,
)
from popmq_broker.core.catalog.topic_versions import TopicVersions
from popmq_broker.core.groups.offsets import QueueKey
from popmq_broker.core.groups.starts import GroupStart, StartKey
from popmq_broker.store.seek import first_stored_at
from popmq_broker.store.store import Store
from popmq_common.errors import GroupNotFound, TopicNotFound
from popmq_common.records.names import RETRY_PREFIX

LOG_END: Final = -1
"""In the place of a queue id."""


@dataclass(slots=True)
class CatalogState:
    _store: Store
    topics: dict[str, TopicConfig] = field(default_factory=dict)
    user_topic_count: int = 0
    """Of `topics`, those of clients; counted as they come and go."""
    topic_versions: TopicVersions = field(default_factory=TopicVersions)
    perm: int = PERM_BOTH
    """The broker's permission, as the log says it."""
    drains: bool = False
    """By the configuration: no new messages of clients."""
    groups: dict[str, GroupConfig] = field(default_factory=dict)
    groups_version: int = 0
    floors: dict[str, dict[int, int]] = field(default_factory=dict)
    """Topics that were deleted: queue id → first offset of what came after; `LOG_END` → where the
    log ended then."""
    identity: str = ""
    """Of the data directory."""
    peers: dict[str, str] = field(default_factory=dict)
    """Other brokers of the cluster, and the identities that they had first."""
    access: StoredAccess = NO_ACCESS
    """Users and policies of the cluster."""
    epoch: int = 0
    """How often the data directory was started."""
    whole_from: int | None = None
    """Log offset from which the records of the catalog alone tell all; None: not known."""
    unsaved: dict[CatalogKind, int] = field(default_factory=dict)
    """What of the catalog changed since its file was written, and where in the log that begins."""
    starts: dict[StartKey, GroupStart] = field(default_factory=dict)
    """Where groups started, as told by their first receive."""

    @property
    def allowed(self) -> int:
        """What clients may do here at most; a topic may allow less."""
        return self.perm & PERM_READ if self.drains else self.perm

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
        return max(self._store.min_offset(topic, queue_id), self.floor(topic, queue_id))

    def is_of_deleted(self, topic: str, log_offset: int) -> bool:
        """What was stored there is for a topic that is gone; there may be one of its name."""
        deleted_at = self.floors.get(topic, {}).get(LOG_END, 0)
        return topic not in self.topics or log_offset < deleted_at

    def first_offset(self, key: QueueKey) -> int:
        """Where a group begins that has no offset here."""
        if self.begins_last(key):
            return self._store.max_offset(key.topic, key.queue_id)
        group = self.group(key.group)
        started = StartKey(key.group, key.topic) in self.starts
        is_retry = key.topic.startswith(RETRY_PREFIX)
        if group.consume_from is ConsumeFrom.TIME and not started and not is_retry:
            return self.offset_at(key.topic, key.queue_id, group.consume_from_ms)
        return self.min_offset(key.topic, key.queue_id)

    def offset_at(self, topic: str, queue_id: int, time_ms: int) -> int:
        """Of the first message stored at `time_ms` or later; the queue's end when there is none."""
        low = self.min_offset(topic, queue_id)
        return first_stored_at(self._store, topic, queue_id, low, time_ms)

    def begins_last(self, key: QueueKey) -> bool:
        """Not retry topics, where all there is is for this group; nor a queue that came when the
        group had started in the topic."""
        group = self.group(key.group)
        if group.consume_from is not ConsumeFrom.LAST or key.topic.startswith(RETRY_PREFIX):
            return False
        return StartKey(key.group, key.topic) not in self.starts
