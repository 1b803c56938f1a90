"""A follower's copy of the delayed messages that wait: its promotion need not read the log.

    load the snapshot, and the log up to here ──► each record behind it, as it is committed
      ▲                                              │
      └── too many wait to be applied: read the log ◄┘   now and then ► the snapshot is written

Only what is committed is applied. It may be dropped at any time: then a promotion reads the log
from the last snapshot on.
"""

import asyncio
from collections import deque
from contextlib import suppress
from typing import Final

from popmq_broker.core.timers import timer_snapshot
from popmq_broker.core.timers.timer_table import TimerTable
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.engine.timers import timer_load
from popmq_broker.engine.timers.timer_keeper import BYTES_PER_S
from popmq_broker.engine.timers.timer_load import TIMERS_FILE, TURN_RECORDS
from popmq_broker.engine.timers.timer_replay import TimerReplay
from popmq_broker.store.files.thread_work import waited_for
from popmq_broker.store.replica_store import ReplicaStore
from popmq_common.errors import Corrupt, DiskFull
from popmq_common.records.record import Record

RECORDS_MAX: Final = 20_000
"""Heard and not applied; above that the log is read again."""
LOOK_S: Final = 0.5
"""Between two looks at the time, and at what is committed."""
AGAIN_S: Final = 5.0
PAUSE_S: Final = 0.005
"""Between two turns of reading the log."""


class WarmTimers:
    def __init__(self, store: ReplicaStore, runtime: Runtime) -> None:
        self._store = store
        self._runtime = runtime
        self._replay: TimerReplay | None = None
        """Once the snapshot is read."""
        self._end = 0
        """All that the log has before it is applied."""
        self._begin: int | None = None
        """All that comes from there on is heard; None: nothing is."""
        self._heard: deque[Record] = deque()
        self._some_heard = asyncio.Event()
        self._is_written = False
        self._write_at_s = 0.0

    # --- following ---

    async def keep(self) -> None:
        """For ever; what it holds stays when it is cancelled, and is gone on with."""
        while True:
            try:
                replay = self._replay or await self._load()
                self._hear_on()
                await self._read_log(replay)
                await self._go_on(replay)
            except Corrupt as wrong:  # a promotion says it
                self._drop(str(wrong))
                self._replay = None
            await asyncio.sleep(AGAIN_S)

    async def _load(self) -> TimerReplay:
        store = self._store
        while store.committed_end < store.scanned_end:  # noqa: ASYNC110 - found by this start
            await asyncio.sleep(LOOK_S)
        table, end = TimerTable(), store.committed_end
        await timer_load.load(self._runtime, table, end, PAUSE_S)
        self._end, self._is_written = end, False
        self._replay = TimerReplay(self._runtime, table)
        return self._replay

    def _hear_on(self) -> None:
        if self._begin is None:
            self._begin = self._store.scanned_end
            self._store.hearers.append(self._hear)

    async def _read_log(self, replay: TimerReplay) -> None:
        """What came before records were heard, or while they were not."""
        end = self._store.log_end if self._begin is None else self._begin
        if self._end >= end:
            return
        for count, record in enumerate(self._store.walk(self._end)):
            if record is None:
                await asyncio.sleep(0)
                continue
            if record.log_offset >= end:
                break
            if count and count % TURN_RECORDS == 0:
                self._end = record.log_offset
                await asyncio.sleep(0)
            if replay.concerns(record):
                replay.apply(record)
        self._end = end

    def _hear(self, record: Record) -> None:
        if TimerReplay.concerns(record):
            self._heard.append(record)
            self._some_heard.set()
            if len(self._heard) > RECORDS_MAX:
                self._drop("too many records wait")

    def _drop(self, why: str) -> None:
        """What was heard is read from the log later."""
        self._runtime.log.warning("replica.timers_not_warm", reason=why)
        if self._heard and self._begin is not None and self._end >= self._begin:
            self._end = self._heard[0].log_offset
        self._hear_no_more()
        self._heard.clear()
        self._some_heard.set()

    def _hear_no_more(self) -> None:
        if self._begin is not None:
            self._begin = None
            self._store.hearers.remove(self._hear)

    async def _go_on(self, replay: TimerReplay) -> None:
        """Until it is dropped."""
        self._write_at_s = self._next_write_s(0)
        while self._begin is not None:
            self._some_heard.clear()
            self._apply(replay)
            replay.go_on()
            if self._heard:
                await asyncio.sleep(0)
                continue
            self._end = self._store.committed_end
            if not self._is_written and self._now_s() >= self._write_at_s:
                await self._write(replay)
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._some_heard.wait()

    def _apply(self, replay: TimerReplay) -> None:
        """Records that were heard; `store.commit` shows them in the same turn of the loop."""
        for _ in range(min(TURN_RECORDS, len(self._heard))):
            replay.apply(self._heard.popleft())
            self._is_written = False

    def _now_s(self) -> float:
        return asyncio.get_running_loop().time()

    def _next_write_s(self, last_bytes: int) -> float:
        interval_s = self._runtime.config.timer_snapshot_interval_ms / 1000
        return self._now_s() + max(interval_s, last_bytes / BYTES_PER_S)

    async def _write(self, replay: TimerReplay) -> None:
        """So that a start need not read the log either. All that is committed was applied, and is
        on disk here."""
        replay.settle()
        table = replay.table
        data = timer_snapshot.encode(table.wheel, self._end, table.loaded_to, table.level_offsets)
        self._is_written = True
        try:
            await waited_for(self._store.save_derived(TIMERS_FILE, data))
        except DiskFull as full:
            self._is_written = False
            self._runtime.log.warning("timers.not_written", reason=str(full))
        self._write_at_s = self._next_write_s(len(data))

    # --- leading ---

    async def take(self) -> TimerTable | None:
        """What waits, as the log says to its end, all of which is to be committed; None: nothing is
        known of it, or something could not be read, which a promotion notes down."""
        replay = self._replay if self._runtime.damage.is_saved else None
        try:
            if replay is not None:
                await self._read_log(replay)
            while replay is not None and self._heard:
                self._apply(replay)
                await asyncio.sleep(0)
        except Corrupt as wrong:  # who reads the log says it
            self._drop(str(wrong))
            replay = None
        self._hear_no_more()
        if replay is None:
            return None
        replay.settle()
        replay.table.is_loaded = True
        return replay.table
