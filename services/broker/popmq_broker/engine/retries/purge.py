"""Purge: dead letters that nobody needs any more are deleted, the oldest first.

They are not in the log's order of things: a file of the log goes when retention says so. What is
purged lies before the floor of the dead letters' queue, as what a deleted topic held does; so it is
not listed, counted, sent again or received, over any restart.
"""

from popmq_broker.core.catalog.catalog import CatalogKind, Change
from popmq_broker.core.groups.offsets import QueueKey
from popmq_broker.engine.catalog.catalog import Catalog
from popmq_broker.engine.journal.state import LOG_END, BrokerState
from popmq_broker.engine.retries.dead_letters import DeadLetters
from popmq_common.records.names import check_group, dead_letter_topic
from popmq_internal.v1 import link_pb2 as link


class Purge:
    def __init__(self, state: BrokerState, catalog: Catalog, dead_letters: DeadLetters) -> None:
        self._state = state
        self._catalog = catalog
        self._dead_letters = dead_letters

    async def purge(self, request: link.PurgeDeadLetters) -> link.PurgeReply:
        """Raises `GroupNotFound`, `DiskFull`: then nothing was deleted."""
        state, group = self._state, request.group
        check_group(group)
        topic = dead_letter_topic(group)
        if topic not in state.topics:
            state.group(group)
            return link.PurgeReply()
        marked = await self._dead_letters.marked(group)
        start, until = state.min_offset(topic, 0), self._until(topic, request)
        reply = link.PurgeReply(
            count=max(0, until - start),
            redriven=marked.count_between(start, until),
            until_offset=until,
        )
        if until > start and not request.dry_run:
            self._delete(topic, until)
            await state.store.durable(state.store.log_end)
        return reply

    def _until(self, topic: str, request: link.PurgeDeadLetters) -> int:
        state = self._state
        end = state.store.max_offset(topic, 0)
        if request.before_ms:
            end = state.offset_at(topic, 0, request.before_ms)
        return min(end, request.until_offset or end)

    def _delete(self, topic: str, until: int) -> None:
        """A group that reads dead letters as a topic goes on behind them."""
        state = self._state
        behind = {
            key: until
            for key, queue in state.leases.queues.items()
            if key == QueueKey(key.group, topic, 0) and queue.position < until
        }
        floors = {LOG_END: state.store.log_end, 0: until}
        self._catalog.change(Change(CatalogKind.FLOORS, topic, floors), positions=behind)
        for key in behind:
            state.pullers.forget(key)
