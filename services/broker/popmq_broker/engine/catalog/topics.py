"""Topics: make, change, delete.

A deleted topic's queues stay where they are and go on counting: the floor remembers up to where
they belong to the past. So no offset, lease or handle can ever mean a message of the topic that
is made later under the same name.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from popmq_broker.core.catalog import catalog, tables, topic_change
from popmq_broker.core.catalog.catalog import CatalogKind, Change, Floors
from popmq_broker.core.catalog.ownership import check_create, wanted_owner
from popmq_broker.core.catalog.settings import changed_topic
from popmq_broker.core.catalog.tables import TopicConfig
from popmq_broker.engine.catalog.catalog import Catalog
from popmq_broker.engine.journal.catalog_state import LOG_END, CatalogState
from popmq_broker.engine.journal.consumer_state import ConsumerState
from popmq_broker.engine.journal.lease_state import LeaseState
from popmq_broker.engine.journal.runtime import Runtime
from popmq_common.errors import (
    BadRequest,
    FirstUseLimit,
    IllegalQueueCount,
    TooManyRequests,
    TopicExists,
)
from popmq_common.records.names import (
    CATALOG_TOPIC,
    DEAD_LETTER_PREFIX,
    FORCED_TOPIC,
    GIVEN_UP_TOPIC,
    HALF_OP_TOPIC,
    HALF_TOPIC,
    MESSAGE_TYPES,
    RETRY_PREFIX,
    check_topic,
    is_user_topic,
    retry_topic,
)
from popmq_internal.v1 import link_pb2 as link

QUEUES_MAX: Final = 1_024
TRANSACTION_TOPICS: Final = (HALF_TOPIC, HALF_OP_TOPIC, GIVEN_UP_TOPIC)


class Topics:
    def __init__(
        self,
        runtime: Runtime,
        catalog_state: CatalogState,
        lease_state: LeaseState,
        consumer_state: ConsumerState,
        catalog: Catalog,
    ) -> None:
        self._runtime = runtime
        self._catalog_state = catalog_state
        self._lease_state = lease_state
        self._consumer_state = consumer_state
        self.catalog = catalog
        self.announce: Callable[[], Awaitable[None]] = _nobody
        """Tells the nameservers of the topics; awaited before a change is answered."""

    async def put_topic(self, request: link.PutTopic) -> link.Done:
        """Make or change a topic; returns when that is on disk and nameservers know it.

        Raises `IllegalTopic`, `IllegalQueueCount`, `IllegalOwner`, `BadRequest`, `TopicExists`,
        `OwnedByOther`, `TooManyRequests`, `FirstUseLimit`, `DiskFull`.
        """
        runtime = self._runtime
        known = self._catalog_state.topics.get(request.topic.name)
        wanted = _checked(request.topic, known)
        if known is not None and request.only_settings:
            wanted = changed_topic(known, wanted, request.only_settings)
        if known is None and request.first_use:
            self._check_first_use()
        if known is None or not (request.only_new or request.create):
            self._put(topic_change.changed(known, wanted, self._holds(wanted.name)))
        elif request.create:
            if not topic_change.is_alike(known, wanted):
                raise TopicExists(
                    topic=known.name, message_type=known.message_type, queues=known.write_queues
                )
            check_create(known, request.topic.owner)
        await runtime.store.durable(runtime.store.log_end)
        await self.announce()  # whoever asked may not have heard of it
        return link.Done()

    def _holds(self, topic: str) -> topic_change.Holds:
        store = self._runtime.store
        return lambda i: store.end_offset(topic, i) > self._catalog_state.min_offset(topic, i)

    async def drain(self) -> None:
        """Queues that were too many and hold nothing any more are no longer read."""
        runtime = self._runtime
        changes = [
            catalog.topic(less)
            for topic in self._catalog_state.topics.values()
            if topic.drains
            and (less := topic_change.drained(topic, self._holds(topic.name))) != topic
        ]
        if changes:
            self.catalog.change(*changes)
            await runtime.store.durable(runtime.store.log_end)
            await self.announce()

    def ensure_system_copy_target(self, name: str, queues: int = 1) -> None:
        """A retry topic, dead letters, or where messages wait, made on first use. Raises
        `DiskFull`, `TooManyRequests`."""
        if name not in self._catalog_state.topics:
            self._put(TopicConfig(name=name, read_queues=queues, write_queues=queues))

    def restore(self) -> None:
        """At start: topics of the broker's own making that are in no table: an older version, or
        RocketMQ, kept them out of it when it crashed.

        Those that were deleted have queues too, but nothing in them.
        """
        runtime = self._runtime
        kinds = (RETRY_PREFIX, DEAD_LETTER_PREFIX, FORCED_TOPIC, *TRANSACTION_TOPICS)
        for name in sorted(runtime.store.topics()):
            holds = runtime.store.max_offset(name, 0) > self._catalog_state.min_offset(name, 0)
            if holds and name.startswith(kinds):
                self.ensure_system_copy_target(name)

    def ensure_own_topics(self) -> None:
        """The journal's, with as many queues as are configured, and the catalog's."""
        self.ensure_system_copy_target(CATALOG_TOPIC)
        self.ensure_system_copy_target(
            self._runtime.revive_topic, self._runtime.config.revive_queues
        )

    def _put(self, topic: TopicConfig) -> None:
        catalog_state = self._catalog_state
        if topic.name not in catalog_state.topics:
            self._check_room(topic.name)
        if catalog_state.topics.get(topic.name) != topic:
            self.catalog.change(catalog.topic(topic))

    def _check_first_use(self) -> None:
        """Raises `FirstUseLimit`."""
        limit = self._runtime.config.first_use_topics_max
        if self._catalog_state.user_topic_count >= limit:
            raise FirstUseLimit(
                what="topic", limit=limit, variable="POPMQ_BROKER_FIRST_USE_TOPICS_MAX"
            )

    def _check_room(self, name: str) -> None:
        catalog_state = self._catalog_state
        config = self._runtime.config
        what, count, limit = "topics", catalog_state.user_topic_count, config.topics_max
        if not is_user_topic(name):
            count = len(catalog_state.topics) - catalog_state.user_topic_count
            what, limit = "retry topics and dead letters", config.inner_topics_max
        if count >= limit:
            raise TooManyRequests(what=what, limit=limit)

    async def delete_topic(self, request: link.DeleteTopic) -> link.Done:
        """Raises `TopicNotFound`. Leases of its messages end; groups go on behind what it held."""
        runtime, lease_state, consumer_state = (
            self._runtime,
            self._lease_state,
            self._consumer_state,
        )
        check_topic(request.topic)
        self._catalog_state.topic(request.topic)
        gone = {request.topic} | {
            retry_topic(key.group, request.topic) for key in lease_state.table.queues
        }
        changes = self.removal(gone)
        moved = [key for key in lease_state.table.queues if key.topic in gone]
        ends = {key: runtime.store.end_offset(key.topic, key.queue_id) for key in moved}
        self.catalog.change(*changes, positions=ends)
        for key in moved:
            consumer_state.pullers.forget(key)
        runtime.stats.forget_topic(request.topic)
        consumer_state.locks.forget(topic=request.topic)
        consumer_state.queue_locks.forget(topic=request.topic)
        await runtime.store.durable(runtime.store.log_end)
        await self.announce()
        runtime.long_polls.wake_all(request.topic)
        return link.Done()

    def removal(self, names: set[str]) -> list[Change]:
        """Of those that exist: what they hold belongs to the past."""
        found = []
        for name in sorted(names & self._catalog_state.topics.keys()):
            found.append(Change(CatalogKind.FLOORS, name, self._floors(name)))
            found.append(Change(CatalogKind.TOPIC, name, None))
        return found

    def _floors(self, name: str) -> Floors:
        """Every queue's end, and the log's."""
        runtime = self._runtime
        floors = {
            i: runtime.store.end_offset(name, i)
            for i in range(QUEUES_MAX)
            if i < self._catalog_state.topics[name].read_queues or runtime.store.has_queue(name, i)
        }
        return {LOG_END: runtime.store.log_end, **floors}


def _checked(raw: link.TopicConfig, known: TopicConfig | None) -> TopicConfig:
    """Raises `IllegalTopic`, `IllegalQueueCount`, `IllegalOwner`, `BadRequest`."""
    check_topic(raw.name)
    for count in (raw.read_queues, raw.write_queues):
        if not 1 <= count <= QUEUES_MAX:
            raise IllegalQueueCount(count=count, reason=f"1 to {QUEUES_MAX} are allowed")
    if raw.message_type not in MESSAGE_TYPES:
        kinds = ", ".join(MESSAGE_TYPES)
        raise BadRequest(reason=f"message type {raw.message_type!r}, one of {kinds}")
    return TopicConfig(
        name=raw.name,
        read_queues=raw.read_queues,
        write_queues=raw.write_queues,
        perm=raw.perm or tables.PERM_BOTH,
        message_type=raw.message_type,
        order_conf=raw.order_conf,
        owner=wanted_owner(raw, known),
    )


async def _nobody() -> None:
    return


class Announced:
    """What nameservers hear of: topics that clients may use, dead letters, and what groups
    that pull get again."""

    def __init__(self, catalog_state: CatalogState) -> None:
        self._catalog_state = catalog_state

    @property
    def version(self) -> int:
        return self._catalog_state.topic_versions.current

    def everything(self) -> list[link.TopicConfig]:
        catalog_state = self._catalog_state
        topics = catalog_state.topics.values()
        return [
            topic_message(one, catalog_state.allowed)
            for one in topics
            if self._is_announced(one.name)
        ]

    def since(self, version: int) -> tuple[list[link.TopicConfig], list[str]] | None:
        """(those that changed, those that are gone); None: that is not known any more."""
        catalog_state = self._catalog_state
        names = catalog_state.topic_versions.since(version)
        if names is None:
            return None
        announced = {
            name for name in names if name in catalog_state.topics and self._is_announced(name)
        }
        changed = [
            topic_message(catalog_state.topics[name], catalog_state.allowed)
            for name in sorted(announced)
        ]
        return changed, sorted(names - announced)

    def _is_announced(self, topic: str) -> bool:
        if is_user_topic(topic) or topic.startswith(DEAD_LETTER_PREFIX):
            return True
        return (
            topic.startswith(RETRY_PREFIX)
            and topic[len(RETRY_PREFIX) :] in self._catalog_state.groups
        )


def topic_message(topic: TopicConfig, perm: int = tables.PERM_BOTH) -> link.TopicConfig:
    """`perm`: what its broker allows at most."""
    return link.TopicConfig(
        name=topic.name,
        read_queues=topic.read_queues,
        write_queues=topic.write_queues,
        perm=topic.perm & perm,
        message_type=topic.message_type,
        order_conf=topic.order_conf,
        owner=topic.owner or None,
    )
