"""Recall: a delayed message that shall not come after all.

Recalled or delivered is decided in one step without a wait: what is in the wheel can be recalled,
what has left it was delivered. The mark that says so is in the log before the answer, names the
parked record, and stays in the wheel until its time, so that a repeated recall finds it.

Source: RocketMQ RecallMessageProcessor. Differs: there a mark is stored unseen, and OK means no
more than that.
"""

from popmq_broker.core.timers import timer
from popmq_broker.core.timers.timer import TimerRecord
from popmq_broker.core.timers.timer_wheel import MARK, WheelEntry
from popmq_broker.engine.journal.catalog_state import CatalogState
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.engine.timers.timer import Timers
from popmq_broker.engine.timers.timer_drafts import mark_draft
from popmq_common.errors import NothingToRecall, RecallTooLate
from popmq_internal.v1 import link_pb2 as link


class Recall:
    def __init__(self, runtime: Runtime, catalog_state: CatalogState, timers: Timers) -> None:
        self._runtime = runtime
        self._catalog_state = catalog_state
        self._timers = timers

    async def recall(self, request: link.Recall) -> link.Done:
        """Answered when the mark is on disk; a repeated one is done too.

        Raises `TopicNotFound`, `RecallTooLate`, `NothingToRecall`, `TooManyRequests`, `DiskFull`.
        """
        runtime = self._runtime
        self._catalog_state.topic(request.topic)
        found = self._found(request, mark=False)
        if not found and not self._found(request, mark=True):
            # It may be on its way to the disk, written again, and so may the mark of a recall.
            await runtime.store.durable(runtime.store.log_end)
            found = self._found(request, mark=False)
        if found:
            self._end(request, found)
        elif not self._found(request, mark=True):
            if request.due_ms <= runtime.clock.now_ms():
                raise RecallTooLate()
            raise NothingToRecall()
        await runtime.store.durable(runtime.store.log_end)
        return link.Done()

    def _found(self, request: link.Recall, *, mark: bool) -> list[WheelEntry]:
        """What waits under this name: one message, unless its send was repeated."""
        code = timer.code_of(request.topic, request.message_id) | (MARK if mark else 0)
        offsets = self._timers.wheel.find(request.due_ms, code)
        entries = [WheelEntry(request.due_ms, offset, code) for offset in offsets]
        return [
            entry
            for entry, parked in self._timers.records.read(entries)
            if _is_meant(parked, request)
        ]

    def _end(self, request: link.Recall, found: list[WheelEntry]) -> None:
        runtime = self._runtime
        timers = self._timers
        now_ms = runtime.clock.now_ms()
        offsets = [entry.offset for entry in found]
        draft = mark_draft(request.topic, request.message_id, request.due_ms, offsets, now_ms)
        places = runtime.store.append([draft], now_ms, system=True)
        for entry in found:
            timers.wheel.remove(entry)
        timers.on_appended([draft], places)
        timers.version += 1
        runtime.stats.timed[request.topic, "recalled"] += len(found)


def _is_meant(parked: TimerRecord, request: link.Recall) -> bool:
    place = timer.real_place(parked.named)
    same_id = parked.message_id == request.message_id
    return same_id and place is not None and place[0] == request.topic
