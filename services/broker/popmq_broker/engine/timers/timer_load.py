"""Start: what still waits, from the snapshot and the log.

The snapshot has everything up to a place in the log. From there on the log says what was parked
(the timer topic's queue has it) and what has come to an end (`__TIMER_OF`). Without a snapshot
that place is the log's beginning, and nothing else changes.

A snapshot that knows of more than the log holds is older than a truncation: it is not used, and
must be written anew before anything is appended.
"""

import asyncio
from collections.abc import Iterator
from typing import Final

from popmq_broker.core.timers import timer, timer_levels, timer_snapshot
from popmq_broker.core.timers.bits import Bits
from popmq_broker.core.timers.timer_snapshot import TimerSnapshot
from popmq_broker.core.timers.timer_table import TimerTable
from popmq_broker.core.timers.timer_wheel import MARK, WheelEntry
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.engine.timers.timer_records import PASSER
from popmq_common.errors import Corrupt
from popmq_common.records.names import LEVELS_TOPIC, TIMER_TOPIC

TIMERS_FILE = "popmqTimers"
LEVELS_FILE = "delayOffset.json"
CHUNK_ENTRIES = 1_024
TURN_RECORDS: Final = 128
"""Read before other work gets its turn, such as a replica's heartbeats: some 3 ms."""


async def load(
    runtime: Runtime, table: TimerTable, log_end: int | None = None, pause_s: float = 0.0
) -> bool:
    """Fill the empty `table` with what the log says before `log_end`, all of which is visible;
    None: all of the log. False: the snapshot must be written now. `pause_s`: between two turns, so
    that what a replica does meanwhile is not held up."""
    store = runtime.store
    if log_end is None:
        log_end = store.log_end
    end = table.loaded_to = store.max_offset(TIMER_TOPIC, 0)
    saved, is_good = _saved(runtime, log_end, end)
    offsets = table.level_offsets
    offsets.update(saved.levels if saved is not None else {})
    level_count = len(timer_levels.parse(runtime.config.delay_levels))
    for level, offset in _levels_of_rocketmq(runtime, level_count).items():
        offsets[level] = max(offset, offsets.get(level, 0))  # it has gone on since
    if not end and not _some_wait(runtime, offsets, level_count):
        return is_good
    first = store.min_offset(TIMER_TOPIC, 0)
    ended = Bits(first, end)
    reading = _ReadLog(runtime, offsets, ended, pause_s)
    await reading.read(saved.log_end if saved else 0, log_end)
    now_ms = runtime.clock.now_ms()
    for entry in saved.entries() if saved else ():
        is_there = entry.offset >= first and entry.offset not in ended
        if is_there and not timer.is_over(entry, now_ms):
            table.wheel.add(entry)
    start = max(first, saved.loaded_to if saved else first)
    await _load_parked(runtime, table, range(start, end), ended, pause_s)
    wheel = table.wheel
    for due_ms, before, code in reading.done:
        for offset in [offset for offset in wheel.find(due_ms, code) if offset < before]:
            wheel.remove(WheelEntry(due_ms, offset, code))
    runtime.log.info("timers.loaded", waiting=wheel.message_count, log_records=reading.count)
    return is_good


def _some_wait(runtime: Runtime, offsets: dict[int, int], level_count: int) -> bool:
    """At a delay level."""
    ends = [runtime.store.max_offset(LEVELS_TOPIC, level) for level in range(level_count)]
    firsts = [runtime.store.min_offset(LEVELS_TOPIC, level) for level in range(level_count)]
    return any(
        end > max(first, offsets.get(level, first))
        for level, (first, end) in enumerate(zip(firsts, ends, strict=True), 1)
    )


def _saved(runtime: Runtime, log_end: int, end: int) -> tuple[TimerSnapshot | None, bool]:
    """The snapshot, if it can be used; and whether it may stay as it is."""
    data = runtime.store.load_derived(TIMERS_FILE)
    if data is None:
        return None, True
    try:
        saved = timer_snapshot.decode(data, where=TIMERS_FILE)
    except Corrupt as wrong:
        runtime.log.warning("timers.rebuilt", reason=str(wrong))
        return None, False
    if saved.log_end > log_end or saved.loaded_to > end:
        runtime.log.warning("timers.rebuilt", reason="the log was truncated")
        return None, False
    return saved, True


def _levels_of_rocketmq(runtime: Runtime, count: int) -> dict[int, int]:
    """Offsets that RocketMQ, or we, left in its file; no farther than the queues go."""
    found = runtime.store.load_config(
        LEVELS_FILE, lambda text: timer_levels.decode_offsets(text, where=LEVELS_FILE)
    )
    return {
        level: min(offset, runtime.store.max_offset(LEVELS_TOPIC, level - 1))
        for level, offset in (found or {}).items()
        if 1 <= level <= count
    }


class _ReadLog:
    """What has come to an end; damage is passed over, for what lies behind it counts as well."""

    def __init__(
        self, runtime: Runtime, offsets: dict[int, int], ended: Bits, pause_s: float
    ) -> None:
        self.count = 0
        self.done: list[WheelEntry] = []
        """By RocketMQ."""
        self._runtime = runtime
        self._offsets = offsets
        self._ended = ended
        self._pause_s = pause_s

    async def read(self, start: int, end: int) -> None:
        for record in self._runtime.store.walk(start):
            self.count += 1
            if record is None or self.count % TURN_RECORDS == 0:
                await asyncio.sleep(self._pause_s)
            if record is None:
                continue
            if record.log_offset >= end:
                break
            of = timer.ended_by(record.properties)
            if of is not None:
                for offset in timer.ends(of):
                    self._ended.add(offset)
                note_level(self._offsets, of)
            elif dealt_with := timer.done_by_rocketmq(record, TIMER_TOPIC):
                self.done.append(dealt_with)


def note_level(offsets: dict[int, int], of: str) -> None:
    """If it is a delay level's message that has come to its end, the level is that far."""
    if (place := timer.level_end(of)) is not None:
        level, offset = place
        offsets[level] = max(offsets.get(level, 0), offset + 1)


async def _load_parked(
    runtime: Runtime, table: TimerTable, offsets: range, ended: Bits, pause_s: float
) -> None:
    now_ms = runtime.clock.now_ms()
    marks: list[tuple[WheelEntry, int]] = []
    parked = _parked(runtime, offsets.start, offsets.stop, ended)
    for count, (entry, deliver_ms) in enumerate(parked, 1):
        if count % TURN_RECORDS == 0:
            await asyncio.sleep(pause_s)
        if entry.code & MARK:
            marks.append((entry, deliver_ms))
        if entry.offset not in ended and not timer.is_over(entry, now_ms):
            table.wheel.add(entry)
    for mark, deliver_ms in marks:  # those of RocketMQ name no offset
        code = mark.code & ~MARK
        for due_ms in {mark.due_ms, deliver_ms}:  # parked by RocketMQ, or by us
            for offset in table.wheel.find(due_ms, code):
                if offset < mark.offset:
                    table.wheel.remove(WheelEntry(due_ms, offset, code))


def _parked(
    runtime: Runtime, start: int, end: int, ended: Bits
) -> Iterator[tuple[WheelEntry, int]]:
    """With when their senders wanted them."""
    store = runtime.store
    at = start
    while at < end:
        for found in store.entries(TIMER_TOPIC, 0, at, min(CHUNK_ENTRIES, end - at)):
            try:
                record = store.read(found.log_offset, found.size_bytes)
            except Corrupt as wrong:  # the note is on disk before anything is served
                runtime.log.error("timer.damaged", offset=at, reason=str(wrong))
                if at not in ended:
                    runtime.damage.look(PASSER, at, wrong)
                record = None
            if record is not None and record.queue_offset == at:
                entry = timer.entry_in(record.properties, at)
                if entry is not None:
                    yield entry, timer.deliver_at_ms(record.properties) or entry.due_ms
            at += 1
