"""The records of what waits: found, held against their entries, and what is delivered of them.

One bad record harms no other: what cannot be read, or is another one, is told and left out.

Nearly all are parked records as this broker writes them, and go from bytes to a draft in one step
(core/timers/timer_bytes.py): 12 µs, where decoding and encoding took 30. Whatever is unusual about
one, it is looked at again in the careful way, which decides.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from popmq_broker.core.store.damage import Passer
from popmq_broker.core.store.queue_entry import QueueEntry, tags_code_of
from popmq_broker.core.timers import timer, timer_bytes
from popmq_broker.core.timers.timer import TimerRecord
from popmq_broker.core.timers.timer_wheel import WheelEntry
from popmq_broker.engine.journal.catalog_state import CatalogState
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.engine.timers.timer_drafts import mark_draft
from popmq_broker.store.queues.drafts import copy_of
from popmq_broker.store.store import Draft
from popmq_common.errors import Corrupt
from popmq_common.records import record as rec
from popmq_common.records.names import TIMER_TOPIC, WHEEL_GROUP

NEAR: Final = 16
"""Entries of the queue between two that are wanted, which are read along."""
_TIMER_TOPIC: Final = TIMER_TOPIC.encode()


PASSER: Final = Passer(WHEEL_GROUP, TIMER_TOPIC, 0)
"""The timers, as who goes over what cannot be read."""


class ParkedRecords:
    def __init__(self, runtime: Runtime, catalog_state: CatalogState) -> None:
        self._runtime = runtime
        self._catalog_state = catalog_state
        self._unread: list[WheelEntry] = []

    def drafts(self, entries: Sequence[WheelEntry], now_ms: int) -> list[tuple[WheelEntry, Draft]]:
        """What ends the waits of these messages, in their order."""
        offsets = [entry.offset for entry in entries]
        found = []
        for entry, place in zip(
            entries, self._runtime.store.entries_at(TIMER_TOPIC, 0, offsets), strict=True
        ):
            draft = None if place is None else self._copied(entry, place)
            if draft is None:
                for _, parked in self.read([entry]):
                    draft = self._made(entry, parked, now_ms)
            if draft is not None:
                found.append((entry, draft))
        return found

    def take_unread(self) -> list[WheelEntry]:
        """Entries whose records could not be read, which is not noted yet: they wait on."""
        unread, self._unread = self._unread, []
        return unread

    def _copied(self, entry: WheelEntry, place: QueueEntry) -> Draft | None:
        """None: something about it is unusual."""
        catalog_state = self._catalog_state
        log_offset, size_bytes, _ = place
        try:
            data = self._runtime.store.read_bytes(log_offset, size_bytes)
        except Corrupt:
            return None
        parts = None if data is None else rec.parts(data)
        if parts is None:
            return None
        parked_in, _, offset, body, properties, sys_flag, flag, born_ms, born_host, tries = parts
        end = timer_bytes.end_of(properties)
        if end is None or parked_in != _TIMER_TOPIC:
            return None
        due_ms, topic, queue_id, code, _, _ = end
        if (due_ms, offset, code) != entry or catalog_state.is_of_deleted(topic, log_offset):
            return None
        delivered = timer_bytes.delivered(properties, end, offset)
        if delivered is None:
            return None
        return Draft(
            topic,
            queue_id % catalog_state.topics[topic].write_queues,
            body,
            delivered,
            tags_code_of(delivered),
            sys_flag,
            flag,
            born_ms,
            born_host,
            tries,
        )

    def _made(self, entry: WheelEntry, parked: TimerRecord, now_ms: int) -> Draft:
        """What ends the wait: the message, or a mark when its topic is gone."""
        place = timer.real_place(parked.named)
        assert place is not None, "an entry was made of it"
        topic, queue_id = place
        catalog_state = self._catalog_state
        if catalog_state.is_of_deleted(topic, parked.record.log_offset):
            return mark_draft(topic, parked.message_id, entry.due_ms, [entry.offset], now_ms)
        properties = timer.delivered(parked.named, str(entry.offset))
        queue_id %= catalog_state.topic(topic).write_queues
        return copy_of(parked.record, topic, queue_id, properties)

    def read(self, entries: Sequence[WheelEntry]) -> Iterator[tuple[WheelEntry, TimerRecord]]:
        """The records of entries; what is another one, or cannot be read, is told and left out."""
        places = self._places([entry.offset for entry in entries])
        for entry in entries:
            place = places.get(entry.offset)
            try:
                record = None if place is None else self._runtime.store.read(*place[:2])
            except Corrupt as wrong:
                if self._runtime.damage.look(PASSER, entry.offset, wrong):
                    self.tell_bad(entry, str(wrong))
                else:
                    self._unread.append(entry)
                continue
            found = None if record is None else timer.parked_as(record, entry, TIMER_TOPIC)
            if found is not None:
                yield entry, found
            else:
                self.tell_bad(entry, "its record is gone, or another one")

    def _places(self, offsets: list[int]) -> dict[int, QueueEntry]:
        """Where the records lie; offsets near each other are looked up together."""
        places: dict[int, QueueEntry] = {}
        oldest = self._runtime.store.min_offset(
            TIMER_TOPIC, 0
        )  # below it a full disk has cost some
        offsets = sorted(offset for offset in offsets if offset >= oldest)
        at = 0
        while at < len(offsets):
            first, end = offsets[at], at + 1
            while end < len(offsets) and offsets[end] - offsets[end - 1] <= NEAR:
                end += 1
            count = offsets[end - 1] + 1 - first
            found = self._runtime.store.entries(TIMER_TOPIC, 0, first, count)
            places.update(enumerate(found, first))
            at = end
        return places

    def tell_bad(self, entry: WheelEntry, reason: str) -> None:
        self._runtime.stats.timed["", "damaged"] += 1
        self._runtime.log.error("timer.damaged", offset=entry.offset, reason=reason)
