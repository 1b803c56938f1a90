"""The store: append, make durable, make visible, read.

    append ──► in the page cache ──fdatasync──► durable ──dispatch──► visible in its queue
                                                   └──► whoever waits is answered

With sync flush nothing is visible before it is durable: a consumer never sees what a crash could
take back. With async flush messages are visible at once and durable some time later.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from popmq_broker.core.store.queue_entry import pack as pack_entry
from popmq_broker.core.store.retention import DiskLimits, Oldest
from popmq_broker.store.files.checkpoint_file import Marks
from popmq_broker.store.files.disk_watch import DiskWatch
from popmq_broker.store.log.batch import Batch
from popmq_broker.store.log.flush import Flusher, Position
from popmq_broker.store.queues.drafts import Appended, Draft, Pending, Run, place
from popmq_broker.store.queues.queue_repair import QueueRepair
from popmq_broker.store.queues.queues import QueueId
from popmq_broker.store.reads import Reads
from popmq_broker.store.recovery.checkpoints import Checkpoints
from popmq_broker.store.retention import OldestFiles
from popmq_broker.store.store_parts import StoreParts
from popmq_broker.store.waiting import Awaited, WhenCommitted
from popmq_common.errors import DiskFull, StoreClosed, TooManyRequests
from popmq_common.records.record import SysFlag

__all__ = ["Appended", "Draft", "Run", "Store"]

MARK_INTERVAL_MS: Final = 1_000
_PREPARED: Final = SysFlag.PREPARED.value


class Store(Reads):
    """Made by `open_store`. All methods belong to the event loop it was opened on."""

    def __init__(self, parts: StoreParts) -> None:
        self.arrivals: Callable[[list[Run]], None] = lambda _: None
        """Called with the messages that became visible together."""
        self.synced: Callable[[float, int], None] = lambda _seconds, _records: None
        """Called after each fdatasync with its duration and the records it covered."""
        files, commit_log, queues = parts.files, parts.commit_log, parts.queues
        config, index = parts.config, parts.index
        super().__init__(files, config.data_dir, commit_log, queues, parts.config_files)
        self._config = config
        self._lock = parts.lock
        self._log = parts.log
        self.index = index
        """From keys to messages; None: this store has none."""
        self.repair = QueueRepair(commit_log, queues)
        self._fatal = parts.fatal
        self._checkpoints = Checkpoints(
            files=files,
            path=config.data_dir / "checkpoint",
            queues=queues,
            config_files=parts.config_files,
            marks=parts.marks,
            ends=parts.ends,
            log=parts.log,
        )
        self._last_store_ms = parts.marks.log_ms
        self._record_count = 0
        self._durable = Position(commit_log.end, parts.marks.log_ms, 0)
        self._committed_end = commit_log.end
        self._waiting = Awaited()
        self._pending: deque[Pending] = deque()
        self._closed = self._failed = False
        self._kick: asyncio.Handle | None = None
        self._flusher = Flusher(commit_log, self._on_synced, self._fail)
        limits = DiskLimits(
            clean_percent=config.disk_clean_percent,
            refuse_percent=config.disk_refuse_percent,
            reserve_bytes=config.disk_reserve_bytes,
        )
        self.disk = DiskWatch(files, config.data_dir, limits, parts.log)
        self.oldest = OldestFiles(files, commit_log, queues)
        if index is not None:
            self.oldest.drop_before.append(index.drop_before)
            index.go_on(commit_log.end)

    @property
    def last_store_ms(self) -> int:
        """What is appended now gets this store time, or a later one."""
        return self._last_store_ms

    @property
    def durable_end(self) -> int:
        """On disk here; with replicas it may not be committed yet."""
        return self._durable.log_end

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def committed_end(self) -> int:
        """What is before it can be answered and seen."""
        return self._committed_end

    def append(
        self, drafts: Sequence[Draft], now_ms: int, *, system: bool = False
    ) -> list[Appended]:
        """Append all drafts or none; they get consecutive offsets in their queues.

        Raises `DiskFull`, `TooManyRequests`, `BadRequest` for a record that no file can hold
        (nothing has changed then), `StoreClosed`. The disk's reserve is for `system` records:
        leases and acks, which must work when sends no longer do.
        """
        self._check_room(now_ms, system=system)
        now_ms = max(now_ms, self._last_store_ms)  # store times never go back
        batch, start_offset = self._commit_log.batch(), self._commit_log.end
        runs: dict[QueueId, Run] = {}
        appended: list[Appended] = []
        host = self._config.store_host
        for draft in drafts:
            if draft.sys_flag & _PREPARED:
                appended.append(place(batch, draft, 0, now_ms, host))
                continue
            queue = (draft.topic, draft.queue_id)
            run = runs.get(queue)
            if run is None:
                run = runs[queue] = Run(queue, self._queues.next_offset(queue))
            tags_codes, tags_code = run.tags_codes, draft.tags_code
            at = place(batch, draft, run.first_offset + len(tags_codes), now_ms, host)
            appended.append(at)
            log_offset, end_offset, _ = at
            run.entries += pack_entry(log_offset, end_offset - log_offset, tags_code)
            tags_codes.append(tags_code)
        self._write(batch)
        self._last_store_ms = now_ms
        self._record_count += len(appended)
        for run in runs.values():
            self._queues.on_appended(run.queue, run.next_offset)
        self._pending.append(
            Pending(start_offset, batch.end, list(runs.values()), drafts, appended, now_ms)
        )
        if self._kick is None:  # one flush per turn of the loop
            self._kick = asyncio.get_running_loop().call_soon(self._ask_flush)
        return appended

    def _write(self, batch: Batch) -> None:
        with self._or_ends():
            self._commit_log.append(batch)

    def _check_room(self, now_ms: int, *, system: bool) -> None:
        if self._closed:
            raise StoreClosed()
        if self._queues.full:
            raise DiskFull(path=self._config.data_dir)
        if system:
            return
        limit = self._config.unsynced_bytes_max
        if self._commit_log.end - self._committed_end > limit:
            raise TooManyRequests(what="bytes that wait for the disk or replicas", limit=limit)
        if not self.disk.takes_sends(now_ms):
            raise DiskFull(path=self._config.data_dir)

    def _ask_flush(self) -> None:
        self._kick = None
        if self._config.sync_flush:
            self._flusher.request(self._position())
        else:
            self._dispatch(self._commit_log.end)

    def _position(self) -> Position:
        return Position(self._commit_log.end, self._last_store_ms, self._record_count)

    def _on_synced(self, position: Position, seconds: float) -> None:
        if self._failed:
            return
        before, self._durable = self._durable, position
        self._on_disk_up_to(position.log_end)
        self.synced(seconds, position.record_count - before.record_count)

    def _on_disk_up_to(self, end_offset: int) -> None:
        """Here; without replicas nothing more is needed."""
        self._commit(end_offset)

    def _commit(self, end_offset: int) -> None:
        """What is before `end_offset` is on disk, here and wherever it must be."""
        self._committed_end = end_offset
        if self._config.sync_flush:
            self._dispatch(end_offset)
        self._waiting.wake(end_offset)

    def _dispatch(self, end_offset: int) -> None:
        """Messages up to `end_offset` become visible."""
        arrived: list[Run] = []
        pending = self._pending
        try:
            while pending and pending[0].end_offset <= end_offset:
                appeared = pending.popleft()
                for run in appeared.runs:
                    self._queues.dispatch(run.queue, run.first_offset, run.entries)
                arrived += appeared.runs
                if self.index is not None:
                    self.index.appeared(appeared)
            self._visible_end = end_offset
            if arrived:
                self.arrivals(arrived)
        except Exception as failed:  # stored, but not to be found: only a new start can help
            self._fail(failed)

    def _fail(self, failed: BaseException) -> None:
        """Nobody knows what the disk holds: nothing is answered any more."""
        if self._failed:
            return
        self._closed = self._failed = True
        self._waiting.fail()
        self._fatal(failed)

    @contextmanager
    def _or_ends(self) -> Iterator[None]:
        """`DiskFull` passes; any other error of the disk ends the store: raises `StoreClosed`."""
        if self._failed or self._commit_log.closed:  # the directory may be another store's by now
            raise StoreClosed()
        try:
            yield
        except OSError as failed:
            self._fail(failed)
            raise StoreClosed() from failed

    def look_at_oldest(self) -> Oldest | None:
        """The oldest file of the log; None while there is only one."""
        return self.oldest.look(self._checkpoints.marks.queues_end)

    async def remove_forgotten(self) -> None:
        """Files that `oldest` has forgotten leave the disk."""
        with self._or_ends():
            await self.oldest.remove()
            if await self.checkpoint():  # it says where the queues begin; a start misses no file
                await self.oldest.remove_of_queues()

    async def durable(self, end_offset: int) -> None:
        """Return when the log is committed up to `end_offset`; at once with async flush.
        Raises `StoreClosed` when the disk has failed."""
        if self._failed:
            raise StoreClosed()
        if end_offset <= self._committed_end or not self._config.sync_flush:
            return
        await self._waiting.until(end_offset)

    async def settled(self) -> None:
        """Return when all that was appended is durable and visible. Raises `StoreClosed`."""
        await self.durable(self.log_end)
        await asyncio.sleep(0)  # with async flush it is visible a turn of the loop later

    def when_durable(self, end_offset: int, then: WhenCommitted) -> None:
        """Call `then` when the log is committed up to `end_offset`, or with `StoreClosed` when it
        never will be; at once if it is, or with async flush."""
        if self._failed:
            then(StoreClosed())
        elif end_offset <= self._committed_end or not self._config.sync_flush:
            then(None)
        else:
            assert end_offset <= self._commit_log.end
            self._waiting.add(end_offset, then)

    async def save_derived(self, name: str, data: bytes) -> None:
        """The whole file at once. Raises `DiskFull`; then it is as it was."""
        with self._or_ends():
            await self._files.replace_async(self._config.data_dir / name, data)

    async def save_config(self, name: str, text: str) -> None:
        """Raises `DiskFull`, `StoreClosed`; then the file is as it was."""
        with self._or_ends():
            await self._config_files.save(name, text)

    async def run(self) -> None:
        """Marks and checkpoints, and with async flush the flushing, for ever.

        The first checkpoint at once: what this start had to read the next one need not, also
        when the process never lives long.
        """
        await self.checkpoint()
        config = self._config
        step_ms = min(MARK_INTERVAL_MS, config.checkpoint_interval_ms)
        if not config.sync_flush:
            step_ms = min(step_ms, config.async_flush_interval_ms)
        mark_ms = checkpoint_ms = 0
        while True:
            await asyncio.sleep(step_ms / 1000)
            mark_ms += step_ms
            checkpoint_ms += step_ms
            self._flusher.request(self._position())
            if self._flusher.busy_seconds() > config.sync_seconds_max:
                self._fail(TimeoutError(f"fdatasync runs for over {config.sync_seconds_max} s"))
            if checkpoint_ms >= config.checkpoint_interval_ms:
                mark_ms = checkpoint_ms = 0
                await self.checkpoint()
            elif self.index is not None and self.index.should_save:
                with self._or_ends():
                    await self.index.save()
            elif mark_ms >= MARK_INTERVAL_MS:
                mark_ms = 0
                with suppress(DiskFull):  # the next one tells
                    marks = self._checkpoints.marks
                    await self._mark(marks.queues_end, marks.queues_ms)

    async def checkpoint(self) -> bool:
        """Bring the queues to disk and write down how far they and the log are.

        False when the disk is full: the marks stay where they were.
        """
        async with self._checkpoints.turn:
            try:
                with self._or_ends():
                    return await self._checkpoint()
            except DiskFull as full:
                self._log.warning("checkpoint.postponed", reason=str(full))
                return False

    async def _checkpoint(self) -> bool:
        end = self._visible_end
        if not await self._checkpoints.take(self._commit_log.start, end, self._on_disk):
            return False
        if self.index is not None:
            self.index.go_on()
            await self.index.save()
        await self._mark(end, self._durable.log_ms)
        return True

    async def _on_disk(self, end_offset: int) -> None:
        """Also with async flush. Raises `StoreClosed` when the disk has failed."""
        if end_offset > self._durable.log_end:
            self._flusher.request(self._position())
            await self._waiting.until(end_offset)

    async def _mark(self, queues_end: int, queues_ms: int) -> None:
        end, ms, _ = self._durable
        marks = Marks(
            log_end=end,
            queues_end=queues_end,
            log_ms=ms,
            queues_ms=queues_ms,
            index_ms=self.index.safe_ms if self.index is not None else 0,
        )
        with self._or_ends():
            await self._checkpoints.mark(marks)

    async def close(self) -> None:
        """Everything to disk; the next start finds a clean stop."""
        if self._closed:
            return
        self._closed = True
        self._flusher.request(self._position())
        await asyncio.to_thread(self._flusher.close, self._config.sync_seconds_max)
        await asyncio.sleep(0)  # the flusher's last call runs before this goes on
        if self._failed:
            return
        self._dispatch(self._end_to_show())
        indexed = self.index is None or await self.index.close()
        if await self.checkpoint() and indexed:
            abort = self._config.data_dir / "abort"
            self._files.remove(abort)
            self._files.sync_folder(abort.parent)
        self._release()

    def _end_to_show(self) -> int:
        """At a clean stop."""
        return self._commit_log.end

    def abandon(self) -> None:
        """Let go of everything and bring nothing to disk, as a killed process does."""
        self._closed = self._failed = True
        if self._kick is not None:
            self._kick.cancel()
        self._flusher.abandon()
        self._flusher.close(self._config.sync_seconds_max)
        self._release()

    def _release(self) -> None:
        self._commit_log.close()
        self._queues.close()
        if self.index is not None:
            self.index.release()
        self._lock.release()
