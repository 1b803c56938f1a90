"""Delayed messages that wait, those that are due first first; a page of them at a time.

The wheel knows when something is due, not of which topic it is. So the records of the entries that
are due first are read and held against what is asked for, at most `SCANNED_MAX` by one call. The
answer tells how far it came, so that the next call goes on from there.

Source: RocketMQ has no such list.
"""

import asyncio
import time
from typing import Final

from popmq_broker.core.timers import timer
from popmq_broker.core.timers.earliest import BEFORE_ALL, Earliest
from popmq_broker.core.timers.timer import TimerRecord
from popmq_broker.core.timers.timer_wheel import WheelEntry
from popmq_broker.engine.journal.catalog_state import CatalogState
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.engine.timers.timer import Timers
from popmq_common.errors import BadRequest, Corrupt
from popmq_common.records import properties as names
from popmq_common.records.names import TIMER_TOPIC
from popmq_internal.v1 import link_pb2 as link

COUNT_MAX: Final = 200
SCANNED_MAX: Final = 2_000
TRIES_MAX: Final = 3
"""While entries are moved; then the last look is made at once, without letting others in between:
it takes 0.4 s for a million entries."""
TURN_RECORDS: Final = 32
"""Read before other work gets its turn."""
SECONDS_MAX: Final = 2.0
"""Of reading; then the call says how far it came."""


class DelayedList:
    def __init__(self, runtime: Runtime, catalog_state: CatalogState, timers: Timers) -> None:
        self._runtime = runtime
        self._catalog_state = catalog_state
        self._timers = timers

    async def list_delayed(self, request: link.ListDelayed) -> link.ListDelayedReply:
        """Raises `TopicNotFound`, `BadRequest`."""
        if not 1 <= request.count_max <= COUNT_MAX:
            reason = f"{request.count_max} messages, 1 to {COUNT_MAX} can be listed by one request"
            raise BadRequest(reason=reason)
        if request.topic:
            self._catalog_state.topic(request.topic)
        after = BEFORE_ALL
        if request.HasField("after"):
            after = request.after.due_ms, request.after.offset
        earliest = await self._earliest(after)
        reply = link.ListDelayedReply(
            waiting=self._timers.wheel.message_count,
            by_level=sum(self._timers.levels.pending().values()),
        )
        until_s = time.monotonic() + SECONDS_MAX
        entries = earliest.entries
        for entry in entries:
            if reply.scanned % TURN_RECORDS == 0:
                await asyncio.sleep(0)
            is_full = len(reply.messages) >= request.count_max
            if is_full or (reply.scanned and time.monotonic() > until_s):
                break
            reply.scanned += 1
            reply.scanned_to.CopyFrom(link.DelayedPlace(due_ms=entry.due_ms, offset=entry.offset))
            found = self._message(entry)
            if found is not None and request.topic in ("", found.topic):
                reply.messages.append(found)
        reply.more = reply.scanned < len(entries) or earliest.is_full
        return reply

    async def _earliest(self, after: tuple[int, int]) -> Earliest:
        for left in reversed(range(TRIES_MAX)):
            earliest = Earliest(self._timers.wheel, after, SCANNED_MAX)
            for _ in earliest.steps():
                if left:
                    await asyncio.sleep(0)
            if not earliest.is_torn:
                break
        return earliest

    def _message(self, entry: WheelEntry) -> link.DelayedMessage | None:
        """None: its record cannot be read, which the timers tell at its time; or it is of a topic
        that was deleted."""
        parked = self._read(entry)
        place = None if parked is None else timer.real_place(parked.named)
        if parked is None or place is None:
            return None
        record, named = parked
        topic, _ = place
        if self._catalog_state.is_of_deleted(topic, record.log_offset):
            return None
        return link.DelayedMessage(
            topic=topic,
            message_id=parked.message_id,
            place=link.DelayedPlace(due_ms=entry.due_ms, offset=entry.offset),
            stored_ms=record.store_timestamp_ms,
            born_ms=record.born_timestamp_ms,
            keys=named.get(names.KEYS, ""),
            tag=named.get(names.TAGS, ""),
            message_group=named.get(names.SHARDING_KEY, ""),
            body_bytes=len(record.body),
        )

    def _read(self, entry: WheelEntry) -> TimerRecord | None:
        store = self._runtime.store
        try:
            for found in store.entries(TIMER_TOPIC, 0, entry.offset, 1):
                record = store.read(found.log_offset, found.size_bytes)
                return None if record is None else timer.parked_as(record, entry, TIMER_TOPIC)
        except Corrupt:
            return None
        return None
