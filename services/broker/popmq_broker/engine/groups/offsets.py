"""Committed offsets on disk: written now and then, completed by the revive topic at start.

A snapshot is taken in one go: positions of all groups, and for each revive queue the first
checkpoint a live lease rests on. It is written only after everything it relies on is durable, so
the file never knows of a position or an ack that a crash could still undo.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from popmq_broker.core.groups import offsets
from popmq_broker.core.groups.offsets import OffsetTable, QueueKey
from popmq_broker.core.groups.passing import EVERYTHING
from popmq_broker.core.store.queue_entry import DAMAGED
from popmq_broker.core.transactions.transaction_table import HalfTable
from popmq_broker.engine.catalog.catalog import Catalog
from popmq_broker.engine.journal.catalog_state import CatalogState
from popmq_broker.engine.journal.lease_state import LeaseState
from popmq_broker.engine.journal.runtime import Runtime
from popmq_common.errors import DiskFull
from popmq_common.records.names import (
    HALF_GROUP,
    HALF_OP_TOPIC,
    HALF_TOPIC,
    PASSES_GROUP,
    REVIVE_GROUP,
    TIMER_TOPIC,
    WHEEL_GROUP,
)

OFFSETS_FILE = "consumerOffset.json"
TIMER_TOPIC_SEEN = QueueKey(WHEEL_GROUP, TIMER_TOPIC, 0)
"""The file's entry that says how far engine/startup/parked_leases.py has looked."""


def passes_key(runtime: Runtime) -> QueueKey:
    """The file's entry that says from where on the journal tells how groups go over messages."""
    return QueueKey(PASSES_GROUP, runtime.revive_topic, 0)


class Offsets:
    def __init__(
        self,
        runtime: Runtime,
        catalog_state: CatalogState,
        lease_state: LeaseState,
        halves: HalfTable,
        catalog: Catalog,
    ) -> None:
        self._runtime = runtime
        self._catalog_state = catalog_state
        self._lease_state = lease_state
        self._halves = halves
        self._catalog = catalog
        self._written: tuple[Mapping[Any, Any], ...] = ()

    async def run(self) -> None:
        """Write the offsets each interval, for ever."""
        while True:
            await asyncio.sleep(self._runtime.config.offsets_interval_ms / 1000)
            try:
                await self.write()
            except DiskFull as full:
                self._runtime.log.warning("offsets.postponed", reason=str(full))

    async def write(self) -> None:
        await self._runtime.damage.saved_quietly()
        await self._catalog.save()
        table = self.table()
        snapshot = (table.offsets, table.expired, table.starts, table.passes)
        if snapshot == self._written:
            return
        await self._runtime.store.durable(table.log_end)
        text = offsets.encode(table, self._runtime.clock.now_ms())
        await self._runtime.store.save_config(OFFSETS_FILE, text)
        self._written = snapshot

    def table(self) -> OffsetTable:
        """Positions at this moment; they rest on what is in the log, on disk or not yet."""
        queues = self._lease_state.table.queues
        expired = {key: queue.expired for key, queue in queues.items() if queue.expired}
        starts = dict(self._catalog_state.starts)
        passes = {key: queue.told for key, queue in queues.items() if queue.told != EVERYTHING}
        return OffsetTable(self._runtime.store.log_end, self._snapshot(), expired, starts, passes)

    def _snapshot(self) -> dict[QueueKey, int]:
        runtime, lease_state = self._runtime, self._lease_state
        found = {key: queue.needed_from for key, queue in lease_state.table.queues.items()}
        found[TIMER_TOPIC_SEEN] = lease_state.timer_topic_seen
        if lease_state.passes_from is not None:
            found[passes_key(runtime)] = lease_state.passes_from
        needed_from = runtime.store.durable_end
        for i in range(runtime.config.revive_queues):
            end = runtime.store.max_offset(runtime.revive_topic, i)
            oldest = runtime.store.min_offset(runtime.revive_topic, i)
            first = max(oldest, lease_state.progress.first_needed(i, end))
            found[QueueKey(REVIVE_GROUP, runtime.revive_topic, i)] = first - 1
            for entry in runtime.store.entries(runtime.revive_topic, i, first, 1):
                found_at = runtime.store.log_start if entry is DAMAGED else entry.log_offset
                needed_from = min(needed_from, found_at)
        for key, position in self._half_positions().items():
            found[key] = position
        change = lease_state.progress.first_position_change(needed_from)
        if change is not None:
            key = QueueKey(REVIVE_GROUP, runtime.revive_topic, 0)
            found[key] = min(found[key], change - 1)
        return found

    def _half_positions(self) -> dict[QueueKey, int]:
        """From where half messages and their op records are needed."""
        if HALF_TOPIC not in self._catalog_state.topics:
            return {}
        ends = [self._runtime.store.end_offset(topic, 0) for topic in (HALF_TOPIC, HALF_OP_TOPIC)]
        half, op = self._halves.positions(*ends)
        return {
            QueueKey(HALF_GROUP, HALF_TOPIC, 0): half,
            QueueKey(HALF_GROUP, HALF_OP_TOPIC, 0): op,
        }
