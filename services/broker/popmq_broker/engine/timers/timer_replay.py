"""What waits, kept by a replica that follows: one record of the log after the other.

The table is filled first (engine/timers/timer_load.py), up to a place of the log; each record
behind it that says something about delayed messages is applied here, as it is committed. Time goes
on as well: what is due lies apart, for its end comes next. So the next primary need read nothing.
"""

from typing import Final

from popmq_broker.core.timers import timer
from popmq_broker.core.timers.timer_table import TimerTable
from popmq_broker.core.timers.timer_wheel import MARK, WheelEntry
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.engine.timers.timer_load import note_level
from popmq_common.records.names import TIMER_TOPIC
from popmq_common.records.record import Record

TURN_ENTRIES: Final = 1_024
"""Brought nearer to their time in a turn."""


class TimerReplay:
    def __init__(self, runtime: Runtime, table: TimerTable) -> None:
        self.table = table
        self._runtime = runtime
        self._due: dict[int, WheelEntry] = {}
        """By offset: their time has come, and no record says that they were delivered."""

    @staticmethod
    def concerns(record: Record) -> bool:
        return record.topic == TIMER_TOPIC or timer.may_end(record.properties)

    def apply(self, record: Record) -> None:
        """A record that is visible. Raises `Corrupt`: what it ends cannot be read."""
        of = timer.ended_by(record.properties)
        if of is not None:
            for offset in timer.ends(of):
                self._end(offset)
            note_level(self.table.level_offsets, of)
        if record.topic != TIMER_TOPIC:
            return
        entry = timer.entry_in(record.properties, record.queue_offset)
        if entry is not None and not timer.is_over(entry, self._now_ms()):
            self.table.wheel.add(entry)

    def _end(self, offset: int) -> None:
        if self._due.pop(offset, None) is not None:
            return
        for found in self._runtime.store.entries(TIMER_TOPIC, 0, offset, 1):
            record = self._runtime.store.read(found.log_offset, found.size_bytes)
            if record is not None and record.queue_offset == offset:
                entry = timer.entry_in(record.properties, offset)
                if entry is not None:
                    self.table.wheel.remove(entry)

    def go_on(self) -> None:
        """Time has passed."""
        wheel, now_ms = self.table.wheel, self._now_ms()
        wheel.open_near(now_ms, TURN_ENTRIES)
        for entry in wheel.take_due(now_ms, TURN_ENTRIES):
            if not entry.code & MARK:
                self._due[entry.offset] = entry

    def settle(self) -> None:
        """The table has everything, and knows all that is visible."""
        self.table.wheel.add_all(list(self._due.values()))
        self._due.clear()
        self.table.loaded_to = self._runtime.store.max_offset(TIMER_TOPIC, 0)

    def _now_ms(self) -> int:
        return self._runtime.clock.now_ms()
