"""What the broker holds, as its operators see it: topics with their queues, groups with theirs."""

from collections.abc import Iterable, Sequence

from popmq_broker.core.catalog import tables
from popmq_broker.core.groups.offsets import QueueKey
from popmq_broker.core.leases.leases import GroupQueueState
from popmq_broker.engine.catalog.topics import topic_message
from popmq_broker.engine.groups.groups import group_message
from popmq_broker.engine.journal.catalog_state import CatalogState
from popmq_broker.engine.journal.consumer_state import ConsumerState
from popmq_broker.engine.journal.counts import known_queues, of_queue
from popmq_broker.engine.journal.lease_state import LeaseState
from popmq_broker.engine.journal.runtime import Runtime
from popmq_internal.v1 import link_pb2 as link


class Describe:
    def __init__(
        self,
        runtime: Runtime,
        catalog_state: CatalogState,
        lease_state: LeaseState,
        consumer_state: ConsumerState,
    ) -> None:
        self._runtime = runtime
        self._catalog_state = catalog_state
        self._lease_state = lease_state
        self._consumer_state = consumer_state
        self._topic_settings: Sequence[link.TopicStatus] = ()
        self._topics_version = -1
        """Of the topic table, which these are of."""
        self._group_settings: Sequence[link.GroupStatus] = ()
        self._groups_version = -1

    async def describe(self, request: link.Describe) -> link.DescribeReply:
        """One topic, one group, or everything. Raises `TopicNotFound`, `GroupNotFound`."""
        catalog_state = self._catalog_state
        topics: Iterable[tables.TopicConfig] = ()
        groups: Iterable[tables.GroupConfig] = ()
        if request.topic:
            topics = [catalog_state.topic(request.topic)]
        if request.group:
            groups = [catalog_state.group(request.group)]
        elif not request.topic:
            if request.settings_only:
                return self._reply(
                    () if request.no_topics else self._all_topic_settings(),
                    () if request.no_groups else self._all_group_settings(),
                )
            topics, groups = catalog_state.topics.values(), catalog_state.groups.values()
        statuses = [self._topic_status(topic, request) for topic in topics]
        return self._reply(statuses, self._group_statuses(groups, request))

    def _reply(
        self, topics: Sequence[link.TopicStatus], groups: Sequence[link.GroupStatus]
    ) -> link.DescribeReply:
        name = self._runtime.config.name
        return link.DescribeReply(broker_name=name, topics=topics, groups=groups)

    def _all_topic_settings(self) -> Sequence[link.TopicStatus]:
        """Made again after a change: of 20,000 topics it takes 80 ms."""
        topics, version = self._catalog_state.topics, self._catalog_state.topic_versions.current
        if self._topics_version != version:
            self._topics_version = version
            self._topic_settings = [
                link.TopicStatus(config=topic_message(topic)) for topic in topics.values()
            ]
        return self._topic_settings

    def _all_group_settings(self) -> Sequence[link.GroupStatus]:
        """The same."""
        groups, version = self._catalog_state.groups, self._catalog_state.groups_version
        if self._groups_version != version:
            self._groups_version = version
            self._group_settings = [
                link.GroupStatus(config=group_message(group)) for group in groups.values()
            ]
        return self._group_settings

    def _topic_status(self, topic: tables.TopicConfig, request: link.Describe) -> link.TopicStatus:
        queue_count = max(topic.read_queues, topic.write_queues)
        return link.TopicStatus(
            config=topic_message(topic),
            queues=[
                link.QueueStatus(
                    queue_id=i,
                    min_offset=self._catalog_state.min_offset(topic.name, i),
                    max_offset=self._runtime.store.max_offset(topic.name, i),
                )
                for i in range(0 if request.settings_only else queue_count)
            ],
        )

    def _group_statuses(
        self, groups: Iterable[tables.GroupConfig], request: link.Describe
    ) -> list[link.GroupStatus]:
        found = {group.name: link.GroupStatus(config=group_message(group)) for group in groups}
        if request.settings_only:
            return list(found.values())
        for key, queue in sorted(known_queues(self._catalog_state, self._lease_state).items()):
            if key.group in found:
                found[key.group].queues.append(self._queue_status(key, queue))
        return list(found.values())

    def _queue_status(self, key: QueueKey, queue: GroupQueueState) -> link.GroupQueueStatus:
        runtime, catalog_state, consumer_state = (
            self._runtime,
            self._catalog_state,
            self._consumer_state,
        )
        now_ms = self._runtime.clock.now_ms()
        return link.GroupQueueStatus(
            topic=key.topic,
            queue_id=key.queue_id,
            committed_offset=queue.committed,
            max_offset=runtime.store.max_offset(key.topic, key.queue_id),
            in_flight=len(queue.leases),
            lag=of_queue(runtime, catalog_state, queue).lag,
            expired=queue.expired,
            min_offset=catalog_state.min_offset(key.topic, key.queue_id),
            locked_by=consumer_state.queue_locks.holder(key, now_ms)
            or consumer_state.locks.owner(key),
        )
