"""Positions: where a group goes on, told by itself (commit) or by somebody else (reset).

    commit   the group has consumed what is before the offset. Goes forward only; refused while the
             group holds messages of the queue by receives, for then their acks say how far it is.
    reset    the group goes on at the offset, forward or back. What it holds is fenced: acks of
             older handles are superseded, and what was leased is redelivered only if it lies behind
             the offset. Of a whole topic: retries that wait are dropped too, so that the group
             gets exactly what lies behind the offsets, each message once.

Either is a record in the journal before it is answered. Whoever pulls a queue that was reset is
told at its next pull; until then its commits are refused (core/groups/pullers.py).

Source: RocketMQ ConsumerManageProcessor, AdminBrokerProcessor.resetOffset. Differs: there a commit
may go back, a reset leaves leases and retries as they are.
"""

from popmq_broker.core.catalog.tables import PERM_READ
from popmq_broker.core.groups.offsets import QueueKey
from popmq_broker.core.groups.starts import StartKey
from popmq_broker.core.leases.leases import GroupQueueState
from popmq_broker.engine.groups.pull import queue_name
from popmq_broker.engine.journal import journal
from popmq_broker.engine.journal.catalog_state import CatalogState
from popmq_broker.engine.journal.consumer_state import ConsumerState
from popmq_broker.engine.journal.lease_state import LeaseState
from popmq_broker.engine.journal.pop_buffer import before_pop
from popmq_broker.engine.journal.position_changes import change_positions, journal_positions
from popmq_broker.engine.journal.runtime import Runtime
from popmq_common.errors import (
    BadRequest,
    HeldByReceives,
    IllegalOffset,
    NoPermission,
    OffsetNotFound,
    ResetMeanwhile,
)
from popmq_common.records.names import retry_topic
from popmq_internal.v1 import link_pb2 as link


class Positions:
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

    async def commit(self, request: link.CommitOffset) -> link.OffsetReply:
        """The group's offset afterwards, durable.

        Raises `TopicNotFound`, `GroupNotFound`, `IllegalOffset`, `ResetMeanwhile`,
        `HeldByReceives`, `DiskFull`.
        """
        runtime, lease_state = self._runtime, self._lease_state
        key = self._key(request.group, request.topic, request.queue_id)
        if self._consumer_state.pullers.is_behind(key, request.client_id):
            raise ResetMeanwhile(group=key.group, topic=key.topic, queue_id=key.queue_id)
        self._check_range(key, request.offset)
        queue = lease_state.group_queue(key)
        if queue is not None and queue.in_use:
            held = len(queue.leases)
            raise HeldByReceives(group=key.group, topic=key.topic, queue_id=key.queue_id, held=held)
        if queue is None or request.offset > queue.needed_from:
            self._commit(key, queue, request.offset)
        await runtime.store.durable(runtime.store.log_end)
        return link.OffsetReply(offset=lease_state.table.queues[key].committed)

    def _commit(self, key: QueueKey, queue: GroupQueueState | None, offset: int) -> None:
        lease_state = self._lease_state
        ahead = [] if queue is None else before_pop(queue)
        journal_positions(self._runtime, lease_state, {key: offset}, ahead)
        if queue is None:
            lease_state.table.queues[key] = lease_state.new_group_queue(key, offset)
        else:
            lease_state.close(lease_state.fence(queue, offset))

    async def get(self, request: link.GetOffset) -> link.OffsetReply:
        """Durable: no crash takes it back. Of a queue that came after the group's start in the
        topic it is the first. Raises `OffsetNotFound`, `TopicNotFound`, `GroupNotFound`."""
        key = self._key(request.group, request.topic, request.queue_id)
        queue = self._lease_state.group_queue(key)
        if queue is not None:
            offset = queue.committed
        elif StartKey(key.group, key.topic) in self._catalog_state.starts:
            offset = self._catalog_state.first_offset(key)
        else:
            raise OffsetNotFound(group=key.group, topic=key.topic, queue_id=key.queue_id)
        await self._runtime.store.durable(self._runtime.store.log_end)
        return link.OffsetReply(offset=offset)

    async def find(self, request: link.FindOffset) -> link.OffsetReply:
        """Raises `TopicNotFound`, `BadRequest`."""
        self._check_queue(request.topic, request.queue_id)
        at = self._at(request.topic, request.queue_id, request.at, request.time_ms)
        return link.OffsetReply(offset=at)

    async def reset(self, request: link.ResetOffsets) -> link.ResetOffsetsReply:
        """What changed, or with `dry_run` would change, by queue.

        Raises `TopicNotFound`, `GroupNotFound`, `NoPermission`, `IllegalOffset`, `BadRequest`,
        `DiskFull`; then nothing has changed.
        """
        runtime, catalog_state = self._runtime, self._catalog_state
        catalog_state.group(request.group)
        topic = catalog_state.topic(request.topic)
        if not topic.perm & PERM_READ:
            raise NoPermission(topic=topic.name, action="readable")
        queue_ids = range(topic.read_queues)
        if request.HasField("queue_id"):
            self._check_queue(request.topic, request.queue_id)
            queue_ids = range(request.queue_id, request.queue_id + 1)
        targets = {
            QueueKey(request.group, topic.name, i): self._target(request, i) for i in queue_ids
        }
        reply = link.ResetOffsetsReply(
            queues=[self._row(key, to) for key, to in targets.items()],
        )
        if not request.HasField("queue_id"):
            retry = QueueKey(request.group, retry_topic(request.group, topic.name), 0)
            end = runtime.store.end_offset(retry.topic, 0)  # also what is on its way to the disk
            if retry.topic in catalog_state.topics:
                reply.retries_dropped = end - self._row(retry, end).from_offset
                targets[retry] = end
        if not request.dry_run:
            if not request.HasField("queue_id"):
                self._settle_start(StartKey(request.group, topic.name))
            self._reset(targets)
            await runtime.store.durable(runtime.store.log_end)
            await runtime.damage.saved()
        return reply

    def _settle_start(self, key: StartKey) -> None:
        """Somebody has said where the group is to be: it has skipped nothing any more."""
        runtime, catalog_state = self._runtime, self._catalog_state
        start = catalog_state.starts.get(key)
        if start is not None and start.skipped:
            start, now_ms = start._replace(skipped=0), runtime.clock.now_ms()
            draft = journal.start(runtime, key, start, now_ms, was_reset=True)
            runtime.store.append([draft], now_ms)
            catalog_state.starts[key] = start

    def _reset(self, targets: dict[QueueKey, int]) -> None:
        runtime, lease_state = self._runtime, self._lease_state
        known = lease_state.table.queues
        ahead = [step for key in targets if key in known for step in before_pop(known[key])]
        new = {key: lease_state.new_group_queue(key, to) for key, to in targets.items()}
        known.update({key: queue for key, queue in new.items() if key not in known})
        change_positions(runtime, lease_state, targets, ahead)
        for key, to in targets.items():
            self._consumer_state.pullers.reset(key, to)
            runtime.waiting_pulls.wake_all(queue_name(key.topic, key.queue_id))
        for topic in {key.topic for key in targets}:
            runtime.long_polls.wake_all(topic)

    def _target(self, request: link.ResetOffsets, queue_id: int) -> int:
        if not request.HasField("offset"):
            return self._at(request.topic, queue_id, request.at, request.time_ms)
        self._check_range(QueueKey(request.group, request.topic, queue_id), request.offset)
        return request.offset

    def _row(self, key: QueueKey, to: int) -> link.QueueReset:
        queue = self._lease_state.group_queue(key)
        before = self._catalog_state.first_offset(key) if queue is None else queue.committed
        fenced = 0 if queue is None else len(queue.leases)
        return link.QueueReset(
            queue_id=key.queue_id, from_offset=before, to_offset=to, fenced=fenced
        )

    def _at(self, topic: str, queue_id: int, at: "link.OffsetAt.ValueType", time_ms: int) -> int:
        if at == link.OFFSET_AT_MIN:
            return self._catalog_state.min_offset(topic, queue_id)
        if at == link.OFFSET_AT_MAX:
            return self._runtime.store.max_offset(topic, queue_id)
        if at == link.OFFSET_AT_TIME:
            return self._catalog_state.offset_at(topic, queue_id, time_ms)
        raise BadRequest(reason=f"where in the queue: {at} is not the start, the end or a time")

    def _key(self, group: str, topic: str, queue_id: int) -> QueueKey:
        self._catalog_state.group(group)
        self._check_queue(topic, queue_id)
        return QueueKey(group, topic, queue_id)

    def _check_queue(self, topic: str, queue_id: int) -> None:
        if not 0 <= queue_id < self._catalog_state.topic(topic).read_queues:
            raise BadRequest(reason=f"topic {topic} has no queue {queue_id}")

    def _check_range(self, key: QueueKey, offset: int) -> None:
        low = self._catalog_state.min_offset(key.topic, key.queue_id)
        high = self._runtime.store.max_offset(key.topic, key.queue_id)
        if not low <= offset <= high:
            raise IllegalOffset(
                offset=offset,
                topic=key.topic,
                queue_id=key.queue_id,
                min_offset=low,
                max_offset=high,
            )
