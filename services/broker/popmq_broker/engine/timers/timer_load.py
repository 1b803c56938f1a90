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
from popmq_broker.core.timers.timer_wheel import MARK, WheelEntry
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.engine.timers.timer import Timers
from popmq_broker.engine.timers.timer_records import PASSER
from popmq_common.errors import Corrupt
from popmq_common.records.names import LEVELS_TOPIC, TIMER_TOPIC

TIMERS_FILE = "popmqTimers"
LEVELS_FILE = "delayOffset.json"
CHUNK_ENTRIES = 1_024
TURN_RECORDS: Final = 1_024
"""Read before other work gets its turn, such as a replica's heartbeats: some 20 ms."""


async def load(runtime: Runtime, timers: Timers) -> bool:
    """Fill the wheel and the levels' offsets. False: the snapshot must be written now."""
    end = runtime.store.max_offset(TIMER_TOPIC, 0)
    saved, is_good = _saved(runtime, end)
    levels = timers.levels
    levels.offsets.update(saved.levels if saved is not None else {})
    for level, offset in _levels_of_rocketmq(runtime, len(levels.delays_ms)).items():
        levels.offsets[level] = max(offset, levels.offsets.get(level, 0))  # it has gone on since
    timers.loaded_to = end
    if not end and not any(levels.pending().values()):
        return is_good
    first = runtime.store.min_offset(TIMER_TOPIC, 0)
    ended = Bits(first, end)
    done: list[WheelEntry] = []
    records = await _read_log(runtime, timers, saved.log_end if saved else 0, ended, done)
    now_ms = runtime.clock.now_ms()
    for entry in saved.entries() if saved else ():
        is_over = entry.code & MARK and entry.due_ms <= now_ms
        if entry.offset >= first and entry.offset not in ended and not is_over:
            timers.wheel.add(entry)
    start = max(first, saved.loaded_to if saved else first)
    await _load_parked(runtime, timers, start, end, ended)
    wheel = timers.wheel
    for due_ms, before, code in done:
        for offset in [offset for offset in wheel.find(due_ms, code) if offset < before]:
            wheel.remove(WheelEntry(due_ms, offset, code))
    runtime.log.info("timers.loaded", waiting=wheel.message_count, log_records=records)
    return is_good


def _saved(runtime: Runtime, end: int) -> tuple[TimerSnapshot | None, bool]:
    """The snapshot, if it can be used; and whether it may stay as it is."""
    data = runtime.store.load_derived(TIMERS_FILE)
    if data is None:
        return None, True
    try:
        saved = timer_snapshot.decode(data, where=TIMERS_FILE)
    except Corrupt as wrong:
        runtime.log.warning("timers.rebuilt", reason=str(wrong))
        return None, False
    if saved.log_end > runtime.store.log_end or saved.loaded_to > end:
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


async def _read_log(
    runtime: Runtime, timers: Timers, start: int, ended: Bits, done: list[WheelEntry]
) -> int:
    """What has come to an end since, `done` by RocketMQ; returns how many records were read."""
    count = 0
    offsets = timers.levels.offsets
    for record in runtime.store.scan(start):
        count += 1
        if count % TURN_RECORDS == 0:
            await asyncio.sleep(0)
        of = timer.ended_by(record.properties)
        if of is None:
            dealt_with = timer.done_by_rocketmq(record, TIMER_TOPIC)
            if dealt_with is not None:
                done.append(dealt_with)
            continue
        for offset in timer.ends(of):
            ended.add(offset)
        place = timer.level_end(of)
        if place is not None:
            level, offset = place
            offsets[level] = max(offsets.get(level, 0), offset + 1)
    return count


async def _load_parked(runtime: Runtime, timers: Timers, start: int, end: int, ended: Bits) -> None:
    now_ms = runtime.clock.now_ms()
    marks: list[tuple[WheelEntry, int]] = []
    for count, (entry, deliver_ms) in enumerate(_parked(runtime, start, end, ended), 1):
        if count % TURN_RECORDS == 0:
            await asyncio.sleep(0)
        if entry.code & MARK:
            if entry.due_ms > now_ms:
                timers.wheel.add(entry)
            marks.append((entry, deliver_ms))
        elif entry.offset not in ended:
            timers.wheel.add(entry)
    for mark, deliver_ms in marks:  # those of RocketMQ name no offset
        code = mark.code & ~MARK
        for due_ms in {mark.due_ms, deliver_ms}:  # parked by RocketMQ, or by us
            for offset in timers.wheel.find(due_ms, code):
                if offset < mark.offset:
                    timers.wheel.remove(WheelEntry(due_ms, offset, code))


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
