"""A follower's copy of the broker's state: who leads in its place need not read the journal.

    begin ──► files and journal up to a place of the log ──► each record behind it, as it is
              committed ──► `take`: what the last primary could not commit, and that is all

The files are those that the primary has sent; the journal, and the catalog, are in the log. Only
what is committed is applied, so nothing has to be taken back. What the files alone tell is taken
from them now and then: how far a group's offsets are that no record tells, what retention has cost.

It may be dropped at any time: then a promotion reads the journal, which takes longer. So it is when
the records come faster than they can be applied, and when one does not fit to what is here.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from popmq_broker.config import PopBuffer
from popmq_broker.core.catalog.catalog import CatalogKind
from popmq_broker.engine.journal.state import BrokerState
from popmq_broker.engine.replication.warm_timers import WarmTimers
from popmq_broker.engine.startup import catalog_replay, replay
from popmq_broker.engine.startup.journal_replay import JournalReplay
from popmq_broker.store.replica_store import ReplicaStore
from popmq_common.errors import Corrupt
from popmq_common.process.logs import Log
from popmq_common.records.names import CATALOG_TOPIC
from popmq_common.records.record import Record

RECORDS_MAX: Final = 20_000
"""Heard and not applied; above that it is dropped."""
TURN_RECORDS: Final = 128
"""Applied before other work gets its turn: some 3 ms."""
LOOK_S: Final = 0.5
"""Between two looks whether the files can be read."""
AGAIN_S: Final = 5.0
REFRESH_S: Final = 30.0


class WarmState:
    def __init__(
        self, store: ReplicaStore, make: Callable[[ReplicaStore], BrokerState], log: Log
    ) -> None:
        self.store = store
        self._make = make
        self._log = log
        self.timers = WarmTimers(store, make(store).runtime)
        self._clear()

    def _clear(self) -> None:
        self._hear_no_more()
        self._state = self._make(self.store)
        self._topics = frozenset({self._state.runtime.revive_topic, CATALOG_TOPIC})
        self._replay: JournalReplay | None = None
        """Once files and journal are read."""
        self._heard: deque[Record] = deque()
        self._some_heard = asyncio.Event()
        self._dropped = False

    @property
    def is_warm(self) -> bool:
        return self._replay is not None and not self._dropped

    # --- following ---

    async def keep(self) -> None:
        """For ever; what it holds stays when it is cancelled, and is gone on with."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keep(), name="warm state")
            tasks.create_task(self.timers.keep(), name="warm timers")

    async def _keep(self) -> None:
        if self._state.runtime.config.pop_buffer is PopBuffer.MEMORY:
            return  # what was acked in time is in no journal
        while True:
            if not self.is_warm:
                await self._load()
            await self._go_on()
            await asyncio.sleep(AGAIN_S)

    async def _load(self) -> None:
        """What is in files and journal up to here; what comes meanwhile is heard."""
        self._clear()
        begin = self.store.scanned_end
        self.store.hearers.append(self._hear)
        try:
            while not self._can_load(begin):
                await asyncio.sleep(LOOK_S)
                if self._dropped:
                    return
            _, self._replay = await replay.load_until(self._state, begin)
        except Corrupt as wrong:  # a promotion says it
            self._drop(str(wrong))

    def _can_load(self, begin: int) -> bool:
        """What was here before is committed, and the files speak of nothing that is not."""
        runtime, committed_end = self._state.runtime, self.store.committed_end
        if committed_end < begin:
            return False
        return replay.files_end(runtime, replay.saved_table(runtime)) <= committed_end

    def _hear_no_more(self) -> None:
        if self._hear in self.store.hearers:
            self.store.hearers.remove(self._hear)

    def _hear(self, record: Record) -> None:
        if record.topic in self._topics:
            self._heard.append(record)
            self._some_heard.set()
            if len(self._heard) > RECORDS_MAX:
                self._drop("too many records wait")

    def _drop(self, why: str) -> None:
        self._log.warning("replica.not_warm", reason=why)
        self._dropped = True
        self._hear_no_more()
        self._heard.clear()
        self._some_heard.set()

    async def _go_on(self) -> None:
        """Until it is dropped."""
        now_s = asyncio.get_running_loop().time
        refreshed_s = now_s()
        while not self._dropped:
            self._some_heard.clear()
            self._apply(TURN_RECORDS)
            if self._heard:
                await asyncio.sleep(0)
                continue
            if now_s() - refreshed_s > REFRESH_S:
                self._refresh()
                refreshed_s = now_s()
            await self._some_heard.wait()

    def _apply(self, count_max: int) -> None:
        """Records that were heard; `store.commit` shows them in the same turn of the loop."""
        assert self._replay is not None
        while count_max and self._heard and not self._dropped:
            record = self._heard.popleft()
            count_max -= 1
            try:
                if record.topic == CATALOG_TOPIC:
                    self._apply_change(record)
                else:
                    self._replay.apply(record)
            except Corrupt as wrong:  # a promotion says it
                self._drop(str(wrong))

    def _apply_change(self, record: Record) -> None:
        state = self._state
        change = catalog_replay.take(state.catalog_state, record, record.log_offset)
        group = state.catalog_state.groups.get(change.name)
        if change.kind is not CatalogKind.GROUP or group is None:
            return
        for key, queue in state.lease_state.table.queues.items():
            if key.group == group.name and (queue.fifo_queue is not None) != group.fifo:
                if queue.in_use:
                    self._drop(f"{queue!r} is in use, and its group changes whether it has order")
                    return
                queue.keep_order(fifo=group.fifo)

    def _refresh(self) -> None:
        """All that is committed was applied."""
        try:
            table = replay.saved_table(self._state.runtime)
        except Corrupt as wrong:  # a promotion says it
            self._drop(str(wrong))
            return
        if self._replay is not None and table.log_end <= self.store.committed_end:
            replay.refresh(self._state, self._replay, table)

    # --- leading ---

    async def take(self) -> BrokerState | None:
        """The state at the log's end, all of which is to be committed; None: it is not warm, and
        the files must be read. Raises `Corrupt`."""
        while self.is_warm and self._heard:
            self._apply(TURN_RECORDS)
            await asyncio.sleep(0)
        self._hear_no_more()
        runtime = self._state.runtime
        if not self.is_warm or not runtime.damage.is_saved:
            return None
        table = replay.saved_table(runtime)
        if replay.files_end(runtime, table) > self.store.log_end:
            return None
        assert self._replay is not None
        runtime.damage.load()
        replay.refresh(self._state, self._replay, table)
        await replay.finish(self._state, self._replay, table)
        return self._state
