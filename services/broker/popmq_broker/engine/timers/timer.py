"""Delayed messages: parked until their time, then put into their topic, each once.

A message waits in the wheel from the moment its parked record is durable. When it is due, one
record is appended to its topic that is at the same time the message and the end of its wait
(core/timers/timer.py), so a crash leaves it waiting or delivered. It is never early; how late it
is, is a matter of the batches before it.

One bad entry harms no other (engine/timers/timer_records.py); what the disk does not take stays,
and is tried again.

Source: RocketMQ TimerMessageStore. Differs: to the millisecond and never early, where RocketMQ
rounds down to a second and more; no files that must agree with each other.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Sequence
from typing import Final

from popmq_broker.core.store.disk_pause import DiskPause
from popmq_broker.core.timers import timer
from popmq_broker.core.timers.timer_table import TimerTable
from popmq_broker.core.timers.timer_wheel import MARK, WheelEntry
from popmq_broker.engine.catalog.topics import Topics
from popmq_broker.engine.journal.catalog_state import CatalogState
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.engine.timers.timer_levels import Levels
from popmq_broker.engine.timers.timer_records import ParkedRecords
from popmq_broker.store.store import Appended, Draft
from popmq_common.errors import BadRequest, DiskFull, PopMQError, TooManyRequests
from popmq_common.records import properties as names
from popmq_common.records.names import TIMER_TOPIC
from popmq_common.records.record import Record

BATCH_MAX: Final = 256
"""Delivered before other work gets its turn."""
SPREAD_MAX: Final = 1_024
"""Entries brought into finer buckets before other work gets its turn."""
PAUSE_MS: Final = 100
"""After the disk took nothing."""
LINGER_MS: Final = 3
"""From one batch to the next, unless there is more than one of them."""
LINGER_MANY_MS: Final = 10
"""The same after a batch of at least `MANY`: the fdatasync of each costs as much as ten of them."""
MANY: Final = 16
IDLE_MS_MAX: Final = 1_000
"""The wall clock may be set; look at it at least this often."""


class Timers:
    def __init__(
        self, runtime: Runtime, catalog_state: CatalogState, topics: Topics, table: TimerTable
    ) -> None:
        self.table = table
        self.wheel = table.wheel
        self.levels = Levels(runtime, catalog_state, topics, table.level_offsets)
        self.records = ParkedRecords(runtime, catalog_state)
        self.version = 0
        """Counts changes of what waits."""
        self._runtime = runtime
        self._topics = topics
        self._appended: deque[WheelEntry] = deque()
        """Parked, and not durable yet."""
        self._changed = asyncio.Event()
        self._wake_ms = 0
        """Until when it sleeps."""
        self._linger_ms = 0
        self._pause = DiskPause(PAUSE_MS)

    @property
    def waiting_count(self) -> int:
        """Messages and marks that wait, durable or not."""
        return len(self.wheel) + len(self._appended)

    def check_room(self, count: int) -> None:
        """Raises `TooManyRequests` when so many more may not wait."""
        limit = self._runtime.config.timers_max
        if self.waiting_count + count > limit:
            raise TooManyRequests(what="messages that wait for their time", limit=limit)

    def park(self, draft: Draft, now_ms: int) -> Draft:
        """The same as a parked record, or as it is when its time has come. Raises
        `PropertiesTooLarge`, `IllegalDeliveryTime`."""
        timer.check_time(draft.properties)
        due_ms = timer.deliver_at_ms(draft.properties)
        if due_ms is None or due_ms <= now_ms:
            return draft
        self._topics.ensure_system_copy_target(TIMER_TOPIC)
        properties = timer.parked(draft.properties, draft.topic, draft.queue_id, due_ms)
        return draft._replace(topic=TIMER_TOPIC, queue_id=0, properties=properties)

    def on_appended(self, drafts: Sequence[Draft], places: Sequence[Appended]) -> None:
        """These have been appended; those of them that are parked wait from when they arrive."""
        for draft, place in zip(drafts, places, strict=True):
            if draft.topic == TIMER_TOPIC:
                entry = timer.entry_in(draft.properties, place.queue_offset)
                assert entry is not None
                self._appended.append(entry)

    def missed(self, record: Record) -> None:
        """Its entry or record could not be read, and now can."""
        entry = timer.entry_in(record.properties, record.queue_offset)
        if entry is not None and entry.offset not in self.wheel.find(entry.due_ms, entry.code):
            self.wheel.add(entry)
            self.version += 1
            self._changed.set()

    def arrived(self) -> None:
        """Parked records became durable."""
        end = self._runtime.store.max_offset(TIMER_TOPIC, 0)
        appended = self._appended
        entries: list[WheelEntry] = []
        while appended and appended[0].offset < end:
            entries.append(appended.popleft())
        self.wheel.add_all(entries)
        self.table.loaded_to = end
        self.version += 1
        if min((entry.due_ms for entry in entries), default=self._wake_ms) < self._wake_ms:
            self._changed.set()

    def levels_arrived(self) -> None:
        """Something waits for a level that was not there before."""
        self.levels.look_again()
        self.version += 1
        self._changed.set()

    async def run(self) -> None:
        """Deliver what is due, for ever."""
        while True:
            self._changed.clear()
            busy = self.deliver_due()
            damage = self._runtime.damage
            if not damage.is_saved:
                await damage.saved_quietly()
                if not damage.is_saved:
                    self._pause.begin(self._runtime.clock.now_ms())
            if busy:
                await asyncio.sleep(0)
            else:
                await self._idle()

    def deliver_due(self) -> bool:
        """One batch; it becomes visible when it is durable. False: nothing else is due now."""
        now_ms = self._runtime.clock.now_ms()
        if self._pause.left_ms(now_ms):
            return False
        opened = self.wheel.open_near(now_ms, SPREAD_MAX)
        due = self.wheel.take_due(now_ms, BATCH_MAX)
        try:
            self._deliver(due, now_ms)
            leveled = self.levels.deliver_due(now_ms, BATCH_MAX)
        except (DiskFull, TooManyRequests) as refused:
            self._pause.begin(now_ms)
            self._runtime.log.warning("timers.postponed", count=len(due), reason=str(refused))
            return False
        self._pause.end()
        busy = bool(due) or leveled
        self._linger_ms = (LINGER_MANY_MS if len(due) >= MANY else LINGER_MS) if busy else 0
        self.version += busy
        return leveled or len(due) == BATCH_MAX or not opened

    def _deliver(self, due: Sequence[WheelEntry], now_ms: int) -> None:
        """Raises `DiskFull`, `TooManyRequests`; then all of it waits on."""
        messages = [entry for entry in due if not entry.code & MARK]
        found = self.records.drafts(messages, now_ms)
        self.wheel.add_all(self.records.take_unread())
        if not found:
            return
        drafts = [draft for _, draft in found]
        try:
            self._append(drafts, now_ms)
        except BadRequest:
            self._deliver_one_by_one(found, now_ms)
        except PopMQError:
            self.wheel.add_all(due)
            raise

    def _deliver_one_by_one(self, found: Sequence[tuple[WheelEntry, Draft]], now_ms: int) -> None:
        """One of them cannot be stored; the others can."""
        for i, (entry, draft) in enumerate(found):
            try:
                self._append([draft], now_ms)
            except BadRequest as wrong:
                self.records.tell_bad(entry, str(wrong))
            except PopMQError:
                self.wheel.add_all([left for left, _ in found[i:]])
                raise

    def _append(self, drafts: Sequence[Draft], now_ms: int) -> None:
        self._runtime.store.append(drafts, now_ms)
        stats = self._runtime.stats
        for topic, count in Counter([draft.topic for draft in drafts]).items():
            if topic != TIMER_TOPIC:
                stats.sent[topic] += count
                stats.timed[topic, "delivered"] += count
                continue
            for mark in [draft for draft in drafts if draft.topic == TIMER_TOPIC]:
                place = timer.real_place(names.decode(mark.properties))
                stats.timed[place[0] if place else "", "dropped"] += 1  # its topic is gone

    async def _idle(self) -> None:
        """Until the next time; in a steady stream what is due lingers for a moment."""
        now_ms = self._runtime.clock.now_ms()
        times = [self.wheel.next_wake_ms(), self.levels.next_due_ms()]
        wait_ms = min((time - now_ms for time in times if time is not None), default=IDLE_MS_MAX)
        wait_ms = max(wait_ms, self._pause.left_ms(now_ms), self._linger_ms)
        wait_ms = min(wait_ms, max(IDLE_MS_MAX, self._pause.left_ms(now_ms)))
        self._wake_ms, self._linger_ms = now_ms + wait_ms, 0
        try:
            async with asyncio.timeout(wait_ms / 1000):
                await self._changed.wait()
        except TimeoutError:
            return
