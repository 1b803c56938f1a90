"""What a broker knows of one message: where it lies, how each group stands to it, its journal.

Facts alone. What they mean is decided by the proxy, which hears all brokers
(popmq_proxy/core/explain/verdict.py).
"""

from collections.abc import Iterator
from typing import Final

from popmq_broker.config import PopBuffer
from popmq_broker.core.catalog.tables import PERM_READ
from popmq_broker.core.filters.filter import TagFilter
from popmq_broker.core.groups.offsets import QueueKey
from popmq_broker.core.leases.fifo_queue import FifoQueue
from popmq_broker.core.leases.leases import GroupQueueState, LeaseOutcome
from popmq_broker.core.retries.deliveries import count_of
from popmq_broker.core.transactions.transaction_table import HalfTable
from popmq_broker.engine.inspect.explain_copies import Copies
from popmq_broker.engine.inspect.explain_journal import StoredPlace, read_journal
from popmq_broker.engine.journal.catalog_state import CatalogState
from popmq_broker.engine.journal.consumer_state import ConsumerState
from popmq_broker.engine.journal.lease_state import LeaseState
from popmq_broker.engine.journal.long_polls import GroupTopic
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.engine.retries.dead_letters import DeadLetters
from popmq_broker.engine.timers.timer import Timers
from popmq_common.errors import BadRequest, Corrupt, NoIndex
from popmq_common.records import properties as names
from popmq_common.records.record import Record
from popmq_internal.v1 import link_pb2 as link

STANDINGS_MAX: Final = 1_000
_CONSUMED: Final = (link.COPY_KIND_MESSAGE, link.COPY_KIND_RETRY)
_ENDED: Final = {LeaseOutcome.ALREADY_ACKED: "acked", LeaseOutcome.EXPIRED: "expired"}


class Explain:
    def __init__(
        self,
        runtime: Runtime,
        catalog_state: CatalogState,
        lease_state: LeaseState,
        consumer_state: ConsumerState,
        halves: HalfTable,
        timers: Timers,
        dead_letters: DeadLetters,
    ) -> None:
        self._runtime = runtime
        self._catalog_state = catalog_state
        self._lease_state = lease_state
        self._consumer_state = consumer_state
        self._copies = Copies(catalog_state, halves, timers, dead_letters)

    async def explain(self, request: link.Explain) -> link.ExplainReply:
        """Raises `BadRequest`, `NoIndex`, `IndexBehind`, `IndexDamaged`."""
        runtime = self._runtime
        if not request.message_id:
            raise BadRequest(reason="no message id to explain")
        if runtime.store.index is None:
            raise NoIndex(broker=runtime.config.name)
        await runtime.store.index.caught_up()
        reply = link.ExplainReply(
            log_from_offset=runtime.store.log_start,
            topic_exists=request.topic in self._catalog_state.topics,
            buffered=runtime.config.pop_buffer is PopBuffer.MEMORY,
        )
        if 0 < runtime.store.log_start < runtime.store.log_end:
            oldest = self._read_at(runtime.store.log_start)
            reply.log_from_ms = 0 if oldest is None else oldest.store_timestamp_ms
        topics = self._copies.topics(request.topic)
        await self._copies.find(runtime.store.index, request.message_id, topics, reply)
        await self._read_journal(reply)
        for standing in self._standings(request, reply):
            if len(reply.standings) >= STANDINGS_MAX:
                reply.incomplete = True
                break
            reply.standings.append(standing)
        reply.now_ms = runtime.clock.now_ms()
        return reply

    def _read_at(self, log_offset: int) -> Record | None:
        """None also when it cannot be read."""
        index = self._runtime.store.index
        try:
            return None if index is None else index.read(log_offset)
        except Corrupt:
            return None

    async def _read_journal(self, reply: link.ExplainReply) -> None:
        consumed = [copy.stored for copy in reply.copies if copy.kind in _CONSUMED]
        if consumed:
            places = (StoredPlace(one.topic, one.queue_id, one.offset) for one in consumed)
            since_ms = min(one.stored_ms for one in consumed)
            await read_journal(self._runtime, places, since_ms, reply)

    def _standings(
        self, request: link.Explain, reply: link.ExplainReply
    ) -> Iterator[link.Standing]:
        for copy in reply.copies:
            if copy.kind not in _CONSUMED or copy.unreadable:
                continue
            groups = [copy.group] if copy.group else self._groups_of(copy.topic, request.group)
            for group in groups:
                if request.group in ("", group):
                    yield self._standing(group, copy)

    def _groups_of(self, topic: str, asked: str) -> list[str]:
        """Those that have received of the topic, and who was asked for."""
        groups = {key.group for key in self._lease_state.table.queues if key.topic == topic}
        known = {group for group in groups if group in self._catalog_state.groups}
        return sorted(known | ({asked} if asked else set()))

    def _standing(self, group: str, copy: link.KnownCopy) -> link.Standing:
        """How the group stands to the copy, now."""
        catalog_state = self._catalog_state
        stored = copy.stored
        config = catalog_state.groups.get(group)
        topic = catalog_state.topics.get(copy.topic)
        standing = link.Standing(
            group=group,
            topic=stored.topic,
            queue_id=stored.queue_id,
            offset=stored.offset,
            group_exists=config is not None,
            in_flight_max=self._runtime.config.in_flight_max,
            message_group=stored.properties.get(names.SHARDING_KEY, ""),
            readable=topic is not None and bool(topic.perm & PERM_READ),
        )
        if config is None:
            return standing
        standing.fifo = config.fifo
        standing.max_attempts = config.max_attempts
        standing.max_hand_outs = config.max_hand_outs
        standing.consume_from = config.consume_from.value
        self._tell_receives(standing, copy)
        key = QueueKey(group, stored.topic, stored.queue_id)
        standing.handed_out = _handed_out(stored)
        queue = self._lease_state.group_queue(key)
        if queue is None:
            standing.position = catalog_state.first_offset(key)
            return standing
        standing.has_received = True
        standing.position = queue.position
        standing.in_flight = len(queue.leases)
        standing.pulled_by = self._consumer_state.locks.owner(key)
        standing.ended = _ENDED.get(queue.ended(stored.offset) or LeaseOutcome.DONE, "")
        self._tell_lease(standing, queue, stored)
        if queue.fifo_queue is not None:
            self._tell_order(standing, queue.fifo_queue)
        return standing

    def _tell_receives(self, standing: link.Standing, copy: link.KnownCopy) -> None:
        last = self._consumer_state.receives.of(standing.group, copy.topic)
        standing.waiting_polls = self._runtime.long_polls.waiting(
            GroupTopic(standing.group, copy.topic)
        )
        if last is None:
            return
        standing.last_receive_ms = last.at_ms
        if last.wanted is not None:
            kind = "tag" if isinstance(last.wanted, TagFilter) else "SQL"
            standing.filter = f"{kind} {last.expression}"
            properties = names.encode(dict(copy.stored.properties), bytes_max=1 << 20)
            standing.filtered = not last.wanted.matches(properties)

    def _tell_lease(
        self, standing: link.Standing, queue: GroupQueueState, stored: link.StoredMessage
    ) -> None:
        lease = queue.leases.get(stored.offset)
        if lease is None:
            return
        grant = lease.grant
        standing.held.pop_time_ms = grant.pop_time_ms
        standing.held.due_ms = grant.due_ms
        standing.held.generation = grant.generation
        standing.held.client_id = grant.client_id
        standing.held.attempt = stored.reconsume_times + 1
        standing.held.handed_out = _handed_out(stored) + 1
        if grant.nack is not None:
            standing.held.nack_kind = link.NackKind.ValueType(grant.nack.kind)
            standing.held.reason = grant.nack.reason

    def _tell_order(self, standing: link.Standing, fifo_queue: FifoQueue) -> None:
        entry = fifo_queue.entries.get(standing.offset)
        standing.settled = standing.offset < fifo_queue.first or (
            entry is not None and entry.settled
        )
        if entry is not None:
            standing.reason, standing.attempts = entry.reason, entry.attempts
            standing.handed_out = entry.handed_out
            if standing.HasField("held"):
                standing.held.attempt = entry.attempts
                standing.held.handed_out = entry.handed_out
        before = fifo_queue.blocker(standing.message_group, standing.offset)
        if before is None or standing.settled or standing.HasField("held"):
            return
        standing.blocked_by.offset = before.offset
        standing.blocked_by.held = before.held
        if before.held and before.lease is not None:
            standing.blocked_by.due_ms = before.lease.grant.due_ms
        record = self._read_at(before.log_offset)
        if record is not None:
            named = names.decode(record.properties)
            standing.blocked_by.message_id = named.get(names.UNIQ_KEY, "")


def _handed_out(stored: link.StoredMessage) -> int:
    """Deliveries before this copy was written."""
    return stored.reconsume_times + count_of(stored.properties.get(names.UNCOUNTED))
