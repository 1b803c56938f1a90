"""The 18 delay levels: park a record, deliver it when its level's delay is over.

For parts of the broker that send with a level (engine/retries/send_back.py); clients of the 5.x
protocol cannot. `park` a draft, append it, and it comes into its topic in time.

A record that cannot be read, or whose topic is gone, is told and passed over: the next one of the
level must not wait for it.

Source: RocketMQ ScheduleMessageService. Differs: delivered once over crashes, for the message
itself says where it waited.
"""

from collections.abc import Iterator, Mapping

from popmq_broker.core.store.damage import Passer
from popmq_broker.core.store.queue_entry import DAMAGED, QueueEntry
from popmq_broker.core.timers import timer, timer_levels
from popmq_broker.engine.catalog.topics import Topics
from popmq_broker.engine.journal.catalog_state import CatalogState
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.store.queues.drafts import copy_of
from popmq_broker.store.store import Draft
from popmq_common.errors import Corrupt
from popmq_common.records import properties as names
from popmq_common.records.names import LEVELS_TOPIC, RETRY_PREFIX, WHEEL_GROUP
from popmq_common.records.record import Record


class Levels:
    def __init__(
        self,
        runtime: Runtime,
        catalog_state: CatalogState,
        topics: Topics,
        offsets: dict[int, int],
    ) -> None:
        """`offsets`, by level: the next to deliver. Raises `BadRequest` for delays that cannot be
        read."""
        self.delays_ms = timer_levels.parse(runtime.config.delay_levels)
        self.offsets = offsets
        self._next_known = False
        self._next_due_ms: int | None = None
        self._runtime = runtime
        self._catalog_state = catalog_state
        self._topics = topics

    def park(self, draft: Draft, now_ms: int) -> Draft:
        """The same to wait for the level that its property DELAY names, or as it is without one.

        It must be appended at once, with this `now_ms`. Raises `PropertiesTooLarge`.
        """
        level = timer_levels.level_of(draft.properties, self.delays_ms)
        if not level:
            return draft
        self._topics.ensure_system_copy_target(LEVELS_TOPIC, queues=len(self.delays_ms))
        named = names.decode(draft.properties)
        for name in (names.DELIVER_MS, "TIMER_DELAY_SEC"):  # a level wins over a time
            named.pop(name, None)
        named[names.DELAY_LEVEL] = str(level)
        named[names.REAL_TOPIC] = draft.topic
        named[names.REAL_QUEUE_ID] = str(draft.queue_id)
        stored_ms = max(now_ms, self._runtime.store.last_store_ms)
        return draft._replace(
            topic=LEVELS_TOPIC,
            queue_id=level - 1,
            properties=names.encode(named),
            tags_code=stored_ms + self.delays_ms[level - 1],
        )

    def deliver_due(self, now_ms: int, count: int) -> bool:
        """At most `count` of each level. Raises `DiskFull`, `TooManyRequests`: they wait on."""
        next_ms = self.next_due_ms()
        if next_ms is None or next_ms > now_ms:
            return False
        self.look_again()
        return any([self._deliver(level, now_ms, count) for level in self._levels()])

    def _levels(self) -> range:
        return range(1, len(self.delays_ms) + 1)

    def _deliver(self, level: int, now_ms: int, count: int) -> bool:
        drafts = []
        offset = first = self._next(level)
        for entry in self._runtime.store.entries(LEVELS_TOPIC, level - 1, offset, count):
            if self._due_ms(level, entry, now_ms) > now_ms:
                break
            try:
                draft = self._draft(level, offset, entry)
            except Corrupt as wrong:
                if not self._runtime.damage.look(passer(level), offset, wrong):
                    break
                self._tell_bad(level, offset, str(wrong))
                draft = None
            if draft is not None:
                drafts.append(draft)
            offset += 1
        if drafts:
            self._runtime.store.append(drafts, now_ms)
        self.offsets[level] = offset
        for draft in drafts:
            self._runtime.stats.sent[draft.topic] += 1
            self._runtime.stats.timed[draft.topic, "delivered"] += 1
        return offset > first

    def _next(self, level: int) -> int:
        first = self._runtime.store.min_offset(LEVELS_TOPIC, level - 1)
        return max(first, self.offsets.get(level, first))

    def _due_ms(self, level: int, entry: QueueEntry, now_ms: int) -> int:
        """What lies farther ahead than the level's delay was parked when it was longer."""
        due_ms = entry.tags_code
        return now_ms if due_ms > now_ms + self.delays_ms[level - 1] else due_ms

    def _draft(self, level: int, offset: int, entry: QueueEntry) -> Draft | None:
        """Raises `Corrupt`."""
        record = self._runtime.store.read(entry.log_offset, entry.size_bytes)
        draft = self._made(level, offset, record)
        if draft is None:
            self._tell_bad(level, offset, "its record is gone, or its topic")
        return draft

    def _made(self, level: int, offset: int, record: Record | None) -> Draft | None:
        """None: the record is gone or another one, or its topic is gone."""
        named = {} if record is None else names.decode(record.properties)
        place = self._place(record, named, level, offset)
        if record is None or place is None:
            return None
        topic, queue_id = place
        properties = timer.delivered(named, f"{level}@{offset}")
        return copy_of(record, topic, queue_id, properties)

    def _place(
        self, record: Record | None, named: Mapping[str, str], level: int, offset: int
    ) -> tuple[str, int] | None:
        if record is None or (record.topic, record.queue_id, record.queue_offset) != (
            LEVELS_TOPIC,
            level - 1,
            offset,
        ):
            return None
        place = timer.real_place(named)
        if place is not None:
            self._open_retries(place[0])
        if place is None or self._catalog_state.is_of_deleted(place[0], record.log_offset):
            return None
        return place[0], place[1] % self._catalog_state.topic(place[0]).write_queues

    def _open_retries(self, topic: str) -> None:
        """A group's topic of what it sent back: a crash may have kept it out of the table."""
        group = topic.removeprefix(RETRY_PREFIX)
        if group != topic and group in self._catalog_state.groups:
            self._topics.ensure_system_copy_target(topic)

    def _tell_bad(self, level: int, offset: int, reason: str) -> None:
        self._runtime.stats.timed["", "damaged"] += 1
        self._runtime.log.error("level.damaged", level=level, offset=offset, reason=reason)

    def missed(self, record: Record) -> tuple[Draft, int] | None:
        """Of one that could not be read, and now can: what was to be delivered, and when. None:
        its topic is gone."""
        level, offset = record.queue_id + 1, record.queue_offset
        draft = self._made(level, offset, record)
        if draft is None or level > len(self.delays_ms):
            return None
        return draft, record.store_timestamp_ms + self.delays_ms[level - 1]

    def look_again(self) -> None:
        """What is due next is not known any more."""
        self._next_known = False

    def next_due_ms(self) -> int | None:
        """When the first of all levels is due; None: nothing waits."""
        if not self._next_known:
            now_ms = self._runtime.clock.now_ms()
            times = [self._due_ms(level, entry, now_ms) for level, entry in self._heads()]
            self._next_due_ms, self._next_known = min(times, default=None), True
        return self._next_due_ms

    def _heads(self) -> Iterator[tuple[int, QueueEntry]]:
        """What is delivered next of each level where something waits."""
        for level in self._levels():
            start = self._next(level)
            for entry in self._runtime.store.entries(LEVELS_TOPIC, level - 1, start, 1):
                yield level, entry

    def pending(self) -> dict[int, int]:
        """Messages that wait, by level."""
        end = self._runtime.store.max_offset
        return {level: end(LEVELS_TOPIC, level - 1) - self._next(level) for level in self._levels()}

    def needed_from(self) -> int | None:
        """The lowest log offset of what waits; None: nothing does."""
        start = self._runtime.store.log_start
        heads = [start if entry is DAMAGED else entry.log_offset for _, entry in self._heads()]
        return min(heads, default=None)


def passer(level: int) -> Passer:
    """A level, as who goes over what cannot be read."""
    return Passer(WHEEL_GROUP, LEVELS_TOPIC, level - 1)
