"""Topics and groups: make, change, delete, describe.

A deleted topic's queues stay where they are and go on counting: the floor remembers up to where
they belong to the past. So no offset, lease or handle can ever mean a message of the topic that
is made later under the same name.
"""

import json
from collections.abc import Awaitable, Callable, Iterable, Sequence

from popmq_broker.core import tables
from popmq_broker.core.offsets import QueueKey
from popmq_broker.core.retry_policy import TABLE, RetryPolicy
from popmq_broker.core.starts import StartKey
from popmq_broker.engine.counts import known_queues, of_queue
from popmq_broker.engine.moves import FORGET, move
from popmq_broker.engine.state import LOG_END, BrokerState
from popmq_common.errors import BadRequest, IllegalQueueCount, PopMQError, TooManyRequests
from popmq_common.names import (
    DEAD_LETTER_PREFIX,
    GIVEN_UP_TOPIC,
    HALF_OP_TOPIC,
    HALF_TOPIC,
    MESSAGE_TYPES,
    RETRY_PREFIX,
    check_group,
    check_topic,
    classic_retry_topic,
    is_user_topic,
    retry_topic,
)
from popmq_internal.v1 import link_pb2 as link

TOPICS_FILE = "topics.json"
GROUPS_FILE = "subscriptionGroup.json"
FLOORS_FILE = "topicFloors.json"
QUEUES_MAX = 1_024
LOCK_HOLD_MS_MAX = 3_600_000
TRANSACTION_TOPICS = (HALF_TOPIC, HALF_OP_TOPIC, GIVEN_UP_TOPIC)


class Topics:
    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self.announce: Callable[[], Awaitable[None]] = _nobody
        """Tells the nameservers of the topics; awaited before a change is answered."""
        self._unsaved_topics = False
        self._groups_saved = state.groups_version
        """Version of the group table that is on disk."""
        self._gone_version = self._gone_saved = 0
        """Counts floors and moves; how far they are on disk."""

    async def put_topic(self, request: link.PutTopic) -> link.Done:
        """Make or change a topic. Raises `IllegalTopic`, `IllegalQueueCount`, `BadRequest`."""
        raw = request.topic
        check_topic(raw.name)
        if request.only_new and raw.name in self._state.topics:
            await self.announce()  # whoever asked has not heard of it
            return link.Done()
        for count in (raw.read_queues, raw.write_queues):
            if not 1 <= count <= QUEUES_MAX:
                raise IllegalQueueCount(count=count, reason=f"1 to {QUEUES_MAX} are allowed")
        if raw.message_type not in MESSAGE_TYPES:
            raise BadRequest(
                reason=f"message type {raw.message_type!r}, one of {', '.join(MESSAGE_TYPES)}"
            )
        self._put(
            tables.TopicConfig(
                name=raw.name,
                read_queues=raw.read_queues,
                write_queues=raw.write_queues,
                perm=raw.perm or tables.PERM_BOTH,
                message_type=raw.message_type,
                order_conf=raw.order_conf,
            )
        )
        await self.save()
        await self.announce()
        return link.Done()

    def ensure_system_copy_target(self, name: str, queues: int = 1) -> None:
        """A retry topic, dead letters, or where messages wait, made on first use."""
        if name not in self._state.topics:
            self._put(tables.TopicConfig(name=name, read_queues=queues, write_queues=queues))

    def restore(self) -> None:
        """At start: topics of the broker's own making that a crash kept out of the table.

        Those that were deleted have queues too, but nothing in them.
        """
        state = self._state
        for name in sorted(state.store.topics()):
            holds = state.store.max_offset(name, 0) > state.min_offset(name, 0)
            if holds and name.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX, *TRANSACTION_TOPICS)):
                self.ensure_system_copy_target(name)

    def ensure_revive_topic(self) -> None:
        count = self._state.config.revive_queues
        name = self._state.revive_topic
        if name not in self._state.topics:
            self._put(tables.TopicConfig(name=name, read_queues=count, write_queues=count))

    def _put(self, topic: tables.TopicConfig) -> None:
        state = self._state
        if topic.name not in state.topics and len(state.topics) >= state.config.topics_max:
            raise TooManyRequests(what="topics", limit=state.config.topics_max)
        state.topics[topic.name] = topic
        state.topics_version += 1
        self._unsaved_topics = True

    async def save(self) -> None:
        """Write the tables that changed since the last time.

        Raises `DiskFull`; the next call tries again, every few seconds.
        """
        if self._unsaved_topics:
            await self._save_topics()
        if self._groups_saved != self._state.groups_version:
            await self._write_groups()

    async def _save_topics(self) -> None:
        state = self._state
        await self._save_what_is_gone()
        self._unsaved_topics = False
        text = tables.encode_topics(state.topics, state.topics_version, state.clock.now_ms())
        try:
            await state.store.save_config(TOPICS_FILE, text)
        except BaseException:
            self._unsaved_topics = True
            raise

    async def delete_topic(self, request: link.DeleteTopic) -> link.Done:
        """Raises `TopicNotFound`. Leases of its messages end; groups go on behind what it held."""
        state = self._state
        check_topic(request.topic)
        state.topic(request.topic)
        gone = {request.topic} | {
            retry_topic(key.group, request.topic) for key in state.leases.queues
        }
        topics, floors = dict(state.topics), dict(state.floors)
        self._remove(gone)
        moved = [key for key in state.leases.queues if key.topic in gone]
        try:
            self._move({key: state.min_offset(key.topic, key.queue_id) for key in moved})
        except PopMQError:  # no room for the moves: it is there as before
            for name in gone & topics.keys():
                state.topics[name] = topics[name]
                state.floors[name] = floors.get(name, {})
            raise
        state.stats.forget_topic(request.topic)
        state.locks.forget(topic=request.topic)
        state.queue_locks.forget(topic=request.topic)
        await self.save()
        await self.announce()
        state.waiters.wake_all(request.topic)
        return link.Done()

    def _remove(self, names: set[str]) -> None:
        """Those that exist; what they hold belongs to the past."""
        state = self._state
        for name in names & state.topics.keys():
            self._raise_floors(name)
            del state.topics[name]
            state.topics_version += 1
            self._unsaved_topics = True

    def _raise_floors(self, name: str) -> None:
        state = self._state
        count = max(state.topics[name].read_queues, state.topics[name].write_queues)
        self._gone_version += 1
        floors = {i: state.store.end_offset(name, i) for i in range(count)}
        state.floors[name] = {LOG_END: state.store.log_end, **floors}

    async def save_floors(self) -> None:
        """They are not what is on disk."""
        self._gone_version += 1
        await self._save_what_is_gone()

    async def _save_what_is_gone(self) -> None:
        """Moves and floors first, then any table that something is gone from, whoever writes it.

        Floors when the log is on disk: a crash must not leave one above a queue's end.

        A table is encoded behind this, and saved without awaiting anything in between: saves are
        written in the order of their calls, so an older text would undo a newer one.
        """
        store = self._state.store
        while (version := self._gone_version) != self._gone_saved:
            await store.durable(store.log_end)
            if version == self._gone_version:  # else more is gone, which is not on disk yet
                await store.save_config(FLOORS_FILE, json.dumps(self._state.floors))
                self._gone_saved = max(self._gone_saved, version)

    async def put_group(self, request: link.PutGroup) -> link.Done:
        """Make or change a group. Raises `IllegalGroup`, `BadRequest`."""
        raw = request.group
        check_group(raw.name)
        if raw.max_attempts < 1:
            raise BadRequest(reason=f"max attempts {raw.max_attempts}, at least 1 is needed")
        try:
            consume_from = tables.ConsumeFrom(raw.consume_from or "LAST")
        except ValueError:
            text = f"start {raw.consume_from!r}, one of LAST, FIRST, TIME"
            raise BadRequest(reason=text) from None
        group = tables.GroupConfig(
            name=raw.name,
            fifo=raw.fifo,
            max_attempts=raw.max_attempts,
            consume_from=consume_from,
            consume_from_ms=raw.consume_from_ms if consume_from is tables.ConsumeFrom.TIME else 0,
            retry_policy=_policy(raw) if raw.HasField("retry_policy") else TABLE,
            lock_hold_ms=raw.lock_hold_ms,
        )
        if not 0 <= group.lock_hold_ms <= LOCK_HOLD_MS_MAX:
            text = f"hold time {group.lock_hold_ms} ms, 0 to {LOCK_HOLD_MS_MAX} allowed"
            raise BadRequest(reason=text)
        group.retry_policy.check()
        before = self._state.groups.get(group.name)
        if before is not None and before.fifo != group.fifo:
            self._switch_order(group)
        await self._put_group(group)
        return link.Done()

    def _switch_order(self, group: tables.GroupConfig) -> None:
        """Leases and retries of one way of consuming mean nothing in the other."""
        state = self._state
        queues = [queue for key, queue in state.leases.queues.items() if key.group == group.name]
        if any(queue.in_use or self._retries_wait(queue.key) for queue in queues):
            raise BadRequest(
                reason=f"group {group.name} has messages in flight or to be retried; "
                "whether it consumes in order can change when it has none"
            )
        for queue in queues:
            queue.keep_order(fifo=group.fifo)
        self._move({queue.key: queue.position for queue in queues})

    def _retries_wait(self, key: QueueKey) -> bool:
        state = self._state
        retry = QueueKey(key.group, retry_topic(key.group, key.topic), 0)
        queue = state.group_queue(retry)
        position = state.min_offset(retry.topic, 0) if queue is None else queue.position
        return retry.topic in state.topics and position < state.store.max_offset(retry.topic, 0)

    async def _put_group(self, group: tables.GroupConfig) -> None:
        state = self._state
        if group.name not in state.groups and len(state.groups) >= state.config.groups_max:
            raise TooManyRequests(what="consumer groups", limit=state.config.groups_max)
        state.groups[group.name] = group
        await self._save_groups()

    async def _save_groups(self) -> None:
        self._state.groups_version += 1
        await self._write_groups()

    async def _write_groups(self) -> None:
        await self._save_what_is_gone()
        state, version = self._state, self._state.groups_version
        text = tables.encode_groups(state.groups, version, state.clock.now_ms())
        await state.store.save_config(GROUPS_FILE, text)
        self._groups_saved = max(self._groups_saved, version)

    async def get_group(self, request: link.GetGroup) -> link.GetGroupReply:
        """Raises `GroupNotFound`, `IllegalGroup`."""
        state = self._state
        if request.create and state.config.create_groups and request.group not in state.groups:
            check_group(request.group)
            await self._put_group(tables.GroupConfig(name=request.group))
        return link.GetGroupReply(group=_group_message(state.group(request.group)))

    async def delete_group(self, request: link.DeleteGroup) -> link.Done:
        """Raises `GroupNotFound`. A group made later under the name starts like a new one; what
        this one had to retry goes with it."""
        state = self._state
        state.group(request.group)
        keys = [key for key in state.leases.queues if key.group == request.group]
        # its copies are not for a later group of this name
        retries = {retry_topic(request.group, topic) for topic in state.topics}
        starts = [start for start in state.starts if start.group == request.group]
        self._move(dict.fromkeys(keys, FORGET), starts)
        self._remove(retries | {classic_retry_topic(request.group)})
        del state.groups[request.group]
        state.waiters.wake_group(request.group)
        state.stats.forget_group(request.group)
        state.locks.forget(group=request.group)
        state.queue_locks.forget(group=request.group)
        await self.save()
        await self._save_groups()
        return link.Done()

    def _move(self, positions: dict[QueueKey, int], forgotten: Sequence[StartKey] = ()) -> None:
        move(self._state, positions, forgotten=forgotten)
        for key in positions:
            self._state.pullers.forget(key)
        self._gone_version += 1

    async def describe(self, request: link.Describe) -> link.DescribeReply:
        """One topic, one group, or everything. Raises `TopicNotFound`, `GroupNotFound`."""
        state = self._state
        topics: Iterable[tables.TopicConfig] = ()
        groups: Iterable[tables.GroupConfig] = ()
        if request.topic:
            topics = [state.topic(request.topic)]
        if request.group:
            groups = [state.group(request.group)]
        if not request.topic and not request.group:
            topics, groups = state.topics.values(), state.groups.values()
        return link.DescribeReply(
            broker_name=state.config.name,
            topics=[self._topic_status(topic) for topic in topics],
            groups=[self._group_status(group) for group in groups],
        )

    def _topic_status(self, topic: tables.TopicConfig) -> link.TopicStatus:
        return link.TopicStatus(
            config=topic_message(topic),
            queues=[
                link.QueueStatus(
                    queue_id=i,
                    min_offset=self._state.min_offset(topic.name, i),
                    max_offset=self._state.store.max_offset(topic.name, i),
                )
                for i in range(topic.write_queues)
            ],
        )

    def _group_status(self, group: tables.GroupConfig) -> link.GroupStatus:
        state, now_ms = self._state, self._state.clock.now_ms()
        return link.GroupStatus(
            config=_group_message(group),
            queues=[
                link.GroupQueueStatus(
                    topic=key.topic,
                    queue_id=key.queue_id,
                    committed_offset=queue.committed,
                    max_offset=state.store.max_offset(key.topic, key.queue_id),
                    in_flight=len(queue.leases),
                    lag=of_queue(state, queue).lag,
                    expired=queue.expired,
                    min_offset=state.min_offset(key.topic, key.queue_id),
                    locked_by=state.queue_locks.holder(key, now_ms) or state.locks.owner(key),
                )
                for key, queue in sorted(known_queues(state).items())
                if key.group == group.name
            ],
        )


async def _nobody() -> None: ...


def announced(state: BrokerState) -> list[link.TopicConfig]:
    """What the nameservers are told: topics that clients may use, dead letters, and what groups
    that pull get again."""
    return [
        topic_message(topic, state.perm)
        for topic in state.topics.values()
        if is_user_topic(topic.name)
        or topic.name.startswith(DEAD_LETTER_PREFIX)
        or (topic.name.startswith(RETRY_PREFIX) and topic.name[len(RETRY_PREFIX) :] in state.groups)
    ]


def topic_message(topic: tables.TopicConfig, perm: int = tables.PERM_BOTH) -> link.TopicConfig:
    """`perm`: what its broker allows at most."""
    return link.TopicConfig(
        name=topic.name,
        read_queues=topic.read_queues,
        write_queues=topic.write_queues,
        perm=topic.perm & perm,
        message_type=topic.message_type,
        order_conf=topic.order_conf,
    )


def _group_message(group: tables.GroupConfig) -> link.GroupConfig:
    policy = group.retry_policy
    return link.GroupConfig(
        name=group.name,
        fifo=group.fifo,
        max_attempts=group.max_attempts,
        consume_from=group.consume_from.value,
        consume_from_ms=group.consume_from_ms,
        lock_hold_ms=group.lock_hold_ms,
        retry_policy=link.RetryPolicy(
            delays_ms=policy.delays_ms,
            initial_ms=policy.initial_ms,
            max_ms=policy.max_ms,
            multiplier=policy.multiplier,
        ),
    )


def _policy(raw: link.GroupConfig) -> RetryPolicy:
    policy = raw.retry_policy
    return RetryPolicy(
        delays_ms=tuple(policy.delays_ms),
        initial_ms=policy.initial_ms,
        max_ms=policy.max_ms,
        multiplier=policy.multiplier,
    )
