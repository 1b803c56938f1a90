"""Purge: dead letters that nobody needs any more are deleted, the oldest first.

They are not in the log's order of things: a file of the log goes when retention says so. What is
purged lies before the floor of the dead letters' queue, as what a deleted topic held does; so it is
not listed, counted, sent again or received, over any restart.
"""

from popmq_broker.core.catalog.catalog import CatalogKind, Change
from popmq_broker.core.groups.offsets import QueueKey
from popmq_broker.engine.catalog.catalog import Catalog
from popmq_broker.engine.journal.catalog_state import LOG_END, CatalogState
from popmq_broker.engine.journal.consumer_state import ConsumerState
from popmq_broker.engine.journal.lease_state import LeaseState
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.engine.retries.dead_letters import DeadLetters
from popmq_common.records.names import check_group, dead_letter_topic
from popmq_internal.v1 import link_pb2 as link


class Purge:
    def __init__(
        self,
        runtime: Runtime,
        catalog_state: CatalogState,
        lease_state: LeaseState,
        consumer_state: ConsumerState,
        catalog: Catalog,
        dead_letters: DeadLetters,
    ) -> None:
        self._runtime = runtime
        self._catalog_state = catalog_state
        self._lease_state = lease_state
        self._consumer_state = consumer_state
        self._catalog = catalog
        self._dead_letters = dead_letters

    async def purge(self, request: link.PurgeDeadLetters) -> link.PurgeReply:
        """Raises `GroupNotFound`, `DiskFull`: then nothing was deleted."""
        runtime, catalog_state = self._runtime, self._catalog_state
        group = request.group
        check_group(group)
        topic = dead_letter_topic(group)
        if topic not in catalog_state.topics:
            catalog_state.group(group)
            return link.PurgeReply()
        marked = await self._dead_letters.marked(group)
        start, until = catalog_state.min_offset(topic, 0), self._until(topic, request)
        reply = link.PurgeReply(
            count=max(0, until - start),
            redriven=marked.count_between(start, until),
            until_offset=until,
        )
        if until > start and not request.dry_run:
            self._delete(topic, until)
            await runtime.store.durable(runtime.store.log_end)
        return reply

    def _until(self, topic: str, request: link.PurgeDeadLetters) -> int:
        end = self._runtime.store.max_offset(topic, 0)
        if request.before_ms:
            end = self._catalog_state.offset_at(topic, 0, request.before_ms)
        return min(end, request.until_offset or end)

    def _delete(self, topic: str, until: int) -> None:
        """A group that reads dead letters as a topic goes on behind them."""
        behind = {
            key: until
            for key, queue in self._lease_state.table.queues.items()
            if key == QueueKey(key.group, topic, 0) and queue.position < until
        }
        floors = {LOG_END: self._runtime.store.log_end, 0: until}
        self._catalog.change(Change(CatalogKind.FLOORS, topic, floors), positions=behind)
        for key in behind:
            self._consumer_state.pullers.forget(key)
