"""Starts: where a group starts in a topic is fixed in all its queues at once, durably.

A proxy asks every broker of the topic before it answers the group's first receive. Each tells where
its queues end, and that is where the group starts there, however long it takes until it is told so.
A broker that was away gets the moment later, and finds the place by the store times of its messages
(core/groups/starts.py).
"""

from popmq_broker.core.catalog.tables import ConsumeFrom
from popmq_broker.core.groups import starts
from popmq_broker.core.groups.offsets import QueueKey
from popmq_broker.core.groups.starts import GroupStart, StartKey
from popmq_broker.engine.catalog.topics import QUEUES_MAX
from popmq_broker.engine.journal import journal
from popmq_broker.engine.journal.catalog_state import CatalogState
from popmq_broker.engine.journal.lease_state import LeaseState
from popmq_broker.engine.journal.pop_buffer import append_behind
from popmq_broker.engine.journal.position_changes import position_drafts
from popmq_broker.engine.journal.runtime import Runtime
from popmq_common.errors import BadRequest, TooManyRequests
from popmq_common.records.names import check_topic
from popmq_internal.v1 import link_pb2 as link


class Starts:
    def __init__(
        self, runtime: Runtime, catalog_state: CatalogState, lease_state: LeaseState
    ) -> None:
        self._runtime = runtime
        self._catalog_state = catalog_state
        self._lease_state = lease_state

    async def fix(self, request: link.FixStart) -> link.FixStartReply:
        """The start that the group has here, durable. When it has none and none is given, `at_ms`
        is 0, and the ends of the queues are told.

        Raises `GroupNotFound`, `IllegalTopic`, `BadRequest`, `TooManyRequests`, `DiskFull`.
        """
        runtime, catalog_state = self._runtime, self._catalog_state
        catalog_state.group(request.group)
        check_topic(request.topic)
        key = StartKey(request.group, request.topic)
        if key not in catalog_state.starts and request.at_ms:
            self._fix(key, request)
        start = catalog_state.starts.get(key)
        if start is None:
            return link.FixStartReply(ends=self._ends(key))
        await runtime.store.durable(runtime.store.log_end)
        return link.FixStartReply(
            at_ms=start.at_ms,
            skipped=start.skipped,
            consume_from=start.consume_from,
            consume_from_ms=start.consume_from_ms,
        )

    def _fix(self, key: StartKey, request: link.FixStart) -> None:
        """Positions and the record behind them are one append: the record is never without them."""
        runtime, catalog_state, lease_state = self._runtime, self._catalog_state, self._lease_state
        if len(catalog_state.starts) >= starts.STARTS_MAX:
            raise TooManyRequests(what="groups with a start in a topic", limit=starts.STARTS_MAX)
        lacking = [queue for queue in self._queues(key) if queue not in lease_state.table.queues]
        positions = {queue: self._position(queue, request) for queue in lacking}
        skipped = sum(to - catalog_state.min_offset(*queue[1:]) for queue, to in positions.items())
        place = request.consume_from, request.consume_from_ms
        start = GroupStart(request.at_ms, skipped, *place)
        now_ms = runtime.clock.now_ms()
        drafts = position_drafts(runtime, positions, now_ms)
        append_behind(
            runtime, lease_state, [], [*drafts, journal.start(runtime, key, start, now_ms)], now_ms
        )
        catalog_state.starts[key] = start
        for queue, to in positions.items():
            lease_state.table.queues[queue] = lease_state.new_group_queue(queue, to)

    def _ends(self, key: StartKey) -> list[int]:
        """By queue id; one at least, so that a topic that is not here yet has an end too."""
        last = max((queue.queue_id for queue in self._queues(key)), default=0)
        return [self._runtime.store.max_offset(key.topic, i) for i in range(last + 1)]

    def _queues(self, key: StartKey) -> list[QueueKey]:
        """All that hold messages or may, so that none is read from its beginning later."""
        topic = self._catalog_state.topics.get(key.topic)
        count = 0 if topic is None else max(topic.read_queues, topic.write_queues)
        return [
            QueueKey(key.group, key.topic, i)
            for i in range(QUEUES_MAX)
            if i < count or self._runtime.store.has_queue(key.topic, i)
        ]

    def _position(self, queue: QueueKey, request: link.FixStart) -> int:
        runtime, catalog_state = self._runtime, self._catalog_state
        group = self._catalog_state.group(queue.group)
        try:
            wanted = ConsumeFrom(request.consume_from or group.consume_from)
        except ValueError:
            raise BadRequest(reason=f"start {request.consume_from!r}") from None
        _, topic, queue_id = queue
        if wanted is ConsumeFrom.FIRST:
            return catalog_state.min_offset(topic, queue_id)
        if wanted is ConsumeFrom.TIME:
            time_ms = request.consume_from_ms if request.consume_from else group.consume_from_ms
            return catalog_state.offset_at(topic, queue_id, time_ms)
        if request.is_now and request.ends:
            end = request.ends[queue_id] if queue_id < len(request.ends) else None
            low, high = (
                catalog_state.min_offset(topic, queue_id),
                runtime.store.max_offset(topic, queue_id),
            )
            return starts.position_by_end(end, low, high)
        if request.is_now:  # a proxy of an older version
            return runtime.store.max_offset(topic, queue_id)
        return catalog_state.offset_at(topic, queue_id, starts.position_by_time_ms(request.at_ms))
