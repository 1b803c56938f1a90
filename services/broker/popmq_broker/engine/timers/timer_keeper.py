"""What waits is written down now and then, and moved forward in the log when it has become old.

The snapshot is taken in one go and written only when all it relies on is on disk. How often is
bounded in bytes per second: a million that wait make 16 MB.

A message may wait for weeks, but the log is kept for days. So a parked record that has become old
is written again, with one record that is at once the new one and the end of the old one; and
`needed_from` tells retention what must stay.

Source: RocketMQ TimerMessageStore (roll), there because its wheel is too short.
"""

import asyncio
from typing import Final

from popmq_broker.core.store.queue_entry import DAMAGED
from popmq_broker.core.timers import timer, timer_levels, timer_snapshot
from popmq_broker.core.timers.timer import TimerRecord
from popmq_broker.core.timers.timer_wheel import MARK, WheelEntry
from popmq_broker.engine.journal.catalog_state import CatalogState
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.engine.timers.timer import Timers
from popmq_broker.engine.timers.timer_drafts import mark_draft
from popmq_broker.engine.timers.timer_load import LEVELS_FILE, TIMERS_FILE
from popmq_broker.store.queues.drafts import copy_of
from popmq_broker.store.seek import first_stored_at
from popmq_broker.store.store import Draft
from popmq_common.errors import BadRequest, DiskFull, PropertiesTooLarge, TooManyRequests
from popmq_common.records.names import TIMER_TOPIC
from popmq_common.units import MiB

BYTES_PER_S: Final = MiB
"""Of snapshots, on average."""
LOG_BYTES_MAX: Final = 64 * MiB
"""Log that a start may have to read, though nothing that waits has changed."""
ROLL_BATCH: Final = 128
ROLL_INTERVAL_S_MAX: Final = 10.0
"""Between two looks for records that have become old; less when they become old sooner."""


class TimerKeeper:
    def __init__(self, runtime: Runtime, catalog_state: CatalogState, timers: Timers) -> None:
        self._runtime = runtime
        self._catalog_state = catalog_state
        self._timers = timers
        self._written_version = -1
        self._written_end = 0
        self._written_bytes = 0

    async def run(self) -> None:
        """Write and roll, for ever."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._write_often(), name="timer snapshots")
            tasks.create_task(self._roll_often(), name="timer rolls")

    async def _write_often(self) -> None:
        interval_s = self._runtime.config.timer_snapshot_interval_ms / 1000
        while True:
            await asyncio.sleep(max(interval_s, self._written_bytes / BYTES_PER_S))
            try:
                await self.write()
            except DiskFull as full:
                self._runtime.log.warning("timers.not_written", reason=str(full))

    async def _roll_often(self) -> None:
        more = False
        interval_s = min(ROLL_INTERVAL_S_MAX, self._runtime.config.timer_roll_ms / 1000)
        while True:
            await asyncio.sleep(0 if more else interval_s)
            try:
                more = self.roll()
            except (DiskFull, TooManyRequests) as refused:
                more = False
                self._runtime.log.warning("timers.not_rolled", reason=str(refused))

    async def write(self, *, at_once: bool = False) -> None:
        """Unless nothing has changed. `at_once`: the log's end need not be on disk, for it will be
        before anything is lost. Raises `DiskFull`; then the last one stays."""
        runtime = self._runtime
        timers = self._timers
        log_end, version = runtime.store.log_end, timers.version
        is_far = log_end - self._written_end > LOG_BYTES_MAX
        if not self._any() or (version == self._written_version and not is_far):
            return
        levels = dict(timers.levels.offsets)
        data = timer_snapshot.encode(timers.wheel, log_end, timers.table.loaded_to, levels)
        await runtime.store.durable(log_end)
        if runtime.store.durable_end < log_end and not at_once:  # flush=async
            await asyncio.sleep(2 * runtime.config.async_flush_interval_ms / 1000)
        if runtime.store.durable_end < log_end and not at_once:
            return
        await runtime.store.save_derived(TIMERS_FILE, data)
        if levels:
            text = timer_levels.encode_offsets(levels, version, runtime.clock.now_ms())
            await runtime.store.save_config(LEVELS_FILE, text)
        self._written_version, self._written_end = version, log_end
        self._written_bytes = len(data)

    def _any(self) -> bool:
        """Something waits, or has waited."""
        return bool(self._timers.table.loaded_to or self._timers.levels.offsets)

    def needed_from(self) -> int | None:
        """The lowest log offset that what waits still needs; None: nothing waits.

        A start needs no more: where the end of a wait is deleted, its parked record, which lies
        before it, is too. 15 ms for a million.
        """
        found = [self._timers.levels.needed_from()]
        if self._timers.waiting_count:
            found.append(self._oldest())
        return min((offset for offset in found if offset is not None), default=None)

    def _oldest(self) -> int:
        store = self._runtime.store
        first = self._timers.wheel.first_offset()
        if first is None:
            return store.durable_end
        first = max(first, store.min_offset(TIMER_TOPIC, 0))  # a full disk may have cost it
        found = store.entries(TIMER_TOPIC, 0, first, 1)
        if found and found[0] is DAMAGED:
            return store.log_start
        return found[0].log_offset if found else store.durable_end

    def roll(self) -> bool:
        """Write some old records again; True: there are more. Raises `DiskFull`,
        `TooManyRequests`; then all is as it was."""
        runtime = self._runtime
        timers = self._timers
        now_ms = runtime.clock.now_ms()
        first = timers.wheel.first_offset()
        if first is None:
            return False
        old_ms = now_ms - runtime.config.timer_roll_ms
        limit = first_stored_at(runtime.store, TIMER_TOPIC, 0, first, old_ms + 1)
        old = [entry for entry in timers.wheel.before(limit, ROLL_BATCH) if entry.due_ms > now_ms]
        moved, drafts = [], []
        readable = dict(timers.records.read(old))
        unread = timers.records.take_unread()
        for entry in old:
            if entry not in readable:
                if entry not in unread:
                    timers.wheel.remove(entry)
                continue
            parked = readable[entry]
            try:
                drafts.append(self._again(entry, parked, now_ms))
                moved.append(entry)
            except PropertiesTooLarge:
                continue
        done = self._append(drafts, now_ms)
        for entry in moved if done else []:
            timers.wheel.remove(entry)
        timers.version += done
        return done and len(old) == ROLL_BATCH

    def _again(self, entry: WheelEntry, parked: TimerRecord, now_ms: int) -> Draft:
        """The record written again; or the mark that it will not come, if its topic is gone.

        Raises `PropertiesTooLarge`.
        """
        place = timer.real_place(parked.named)
        assert place is not None, "an entry was made of it"
        topic, of = place[0], str(entry.offset)
        is_message = not entry.code & MARK
        if is_message and self._catalog_state.is_of_deleted(topic, parked.record.log_offset):
            self._runtime.stats.timed[topic, "dropped"] += 1
            return mark_draft(topic, parked.message_id, entry.due_ms, [entry.offset], now_ms)
        return copy_of(parked.record, TIMER_TOPIC, 0, timer.rolled(parked.named, of))

    def _append(self, drafts: list[Draft], now_ms: int) -> bool:
        if not drafts:
            return False
        try:
            places = self._runtime.store.append(drafts, now_ms)
        except BadRequest as wrong:  # one is as long as a file can hold: it cannot grow
            self._runtime.log.warning("timers.not_rolled", reason=str(wrong))
            return False
        self._timers.on_appended(drafts, places)
        return True
