"""The store: append, make durable, make visible, read.

    append ──► in the page cache ──fdatasync──► durable ──dispatch──► visible in its queue
                                                   └──► whoever waits is answered

With sync flush nothing is visible before it is durable: a consumer never sees what a crash could
take back. With async flush messages are visible at once and durable some time later.
"""

import asyncio
import os
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from popmq_broker.core import record as rec
from popmq_broker.core.queue_entry import QueueEntry
from popmq_broker.core.record import Record
from popmq_broker.store import checkpoint_file
from popmq_broker.store.checkpoint_file import CheckpointFile
from popmq_broker.store.commit_log import CommitLog
from popmq_broker.store.config import StoreConfig
from popmq_broker.store.config_files import ConfigFiles
from popmq_broker.store.flush import Flusher
from popmq_broker.store.lock_file import LockFile
from popmq_broker.store.queues import QueueId, Queues, sync_files
from popmq_common.errors import DiskFull, StoreClosed
from popmq_common.logs import Log
from popmq_common.units import LogOffset, QueueOffset

FREE_SPACE_CHECK_MS = 1_000
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A record before it has a place and a time."""

    topic: str
    queue_id: int
    body: bytes
    properties: bytes
    tags_code: int
    sys_flag: int
    flag: int
    born_timestamp_ms: int
    born_host: bytes
    reconsume_times: int = 0


class Appended(NamedTuple):
    log_offset: int
    end_offset: int
    queue_offset: int
    store_timestamp_ms: int


class Arrival(NamedTuple):
    """A message that has become visible."""

    topic: str
    queue_id: int
    queue_offset: int
    tags_code: int


class Pending(NamedTuple):
    """A record that is appended but not yet in its queue."""

    end_offset: int
    arrival: Arrival
    entry: QueueEntry


class Store:
    """Made by `open_store`. All methods belong to the event loop it was opened on."""

    def __init__(
        self,
        *,
        config: StoreConfig,
        lock: LockFile,
        commit_log: CommitLog,
        queues: Queues,
        config_files: ConfigFiles,
        log: Log,
        fatal: Callable[[BaseException], None],
    ) -> None:
        self.arrivals: Callable[[list[Arrival]], None] = lambda _: None
        """Called once per batch of messages that became visible."""
        self.synced: Callable[[float, int], None] = lambda _seconds, _records: None
        """Called after each fdatasync with its duration and the records it covered."""
        self._config = config
        self._lock = lock
        self._log = log
        self._commit_log = commit_log
        self._queues = queues
        self._config_files = config_files
        self._durable_end = commit_log.end
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._pending: deque[Pending] = deque()
        self._last_store_ms = 0
        self._space_checked_ms = 0
        self._space_left = True
        self._closed = False
        self._kick: asyncio.Handle | None = None
        self._flusher = Flusher(commit_log, self._on_synced, fatal)

    @property
    def log_end(self) -> int:
        return self._commit_log.end

    @property
    def log_start(self) -> int:
        return self._commit_log.start

    @property
    def durable_end(self) -> int:
        return self._durable_end

    def append(
        self, drafts: Sequence[Draft], now_ms: int, *, system: bool = False
    ) -> list[Appended]:
        """Append all drafts or none; they get consecutive offsets in their queues.

        Raises `DiskFull` (nothing has changed then), `StoreClosed`. The disk's reserve is for
        `system` records: leases and acks, which must work when sends no longer do.
        """
        if self._closed:
            raise StoreClosed()
        if not system:
            self._check_space(now_ms)
        now_ms = max(now_ms, self._last_store_ms)  # store times never go back
        sizes = [
            rec.size_bytes(d.topic, d.body, d.properties, d.born_host, self._config.store_host)
            for d in drafts
        ]
        places = self._commit_log.place(sizes)
        next_offsets: dict[QueueId, int] = {}
        data: list[bytes] = []
        appended: list[Appended] = []
        for draft, place, size in zip(drafts, places, sizes, strict=True):
            queue = (draft.topic, draft.queue_id)
            offset = next_offsets.get(queue)
            if offset is None:
                offset = self._queues.next_offset(queue)
            next_offsets[queue] = offset + 1
            data.append(self._encode(draft, place, offset, now_ms))
            appended.append(Appended(place, place + size, offset, now_ms))
        self._commit_log.append(places, data)
        self._last_store_ms = now_ms
        for queue, next_offset in next_offsets.items():
            self._queues.took(queue, next_offset)
        self._remember(drafts, appended, sizes)
        return appended

    def _encode(self, draft: Draft, place: int, queue_offset: int, now_ms: int) -> bytes:
        return rec.encode(
            Record(
                topic=draft.topic,
                queue_id=draft.queue_id,
                queue_offset=QueueOffset(queue_offset),
                log_offset=LogOffset(place),
                body=draft.body,
                properties=draft.properties,
                sys_flag=draft.sys_flag,
                flag=draft.flag,
                born_timestamp_ms=draft.born_timestamp_ms,
                born_host=draft.born_host,
                store_timestamp_ms=now_ms,
                store_host=self._config.store_host,
                reconsume_times=draft.reconsume_times,
            )
        )

    def _remember(
        self, drafts: Sequence[Draft], appended: Sequence[Appended], sizes: Sequence[int]
    ) -> None:
        """The records wait for their dispatch; one flush is asked for per turn of the loop."""
        for draft, at, size in zip(drafts, appended, sizes, strict=True):
            arrival = Arrival(draft.topic, draft.queue_id, at.queue_offset, draft.tags_code)
            entry = QueueEntry(LogOffset(at.log_offset), size, draft.tags_code)
            self._pending.append(Pending(at.end_offset, arrival, entry))
        if self._kick is None:
            self._kick = asyncio.get_running_loop().call_soon(self._ask_flush)

    def _ask_flush(self) -> None:
        self._kick = None
        if self._config.sync_flush:
            self._flusher.request(self._commit_log.end)
        else:
            self._dispatch(self._commit_log.end)

    def _on_synced(self, end_offset: int, seconds: float) -> None:
        before = len(self._pending)
        self._durable_end = end_offset
        if self._config.sync_flush:
            self._dispatch(end_offset)
        self.synced(seconds, before - len(self._pending))
        while self._waiting and self._waiting[0][0] <= end_offset:
            _, waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)

    def _dispatch(self, end_offset: int) -> None:
        arrivals: list[Arrival] = []
        pending = self._pending
        while pending and pending[0].end_offset <= end_offset:
            _, arrival, entry = pending.popleft()
            self._queues.dispatch(arrival.topic, arrival.queue_id, arrival.queue_offset, entry)
            arrivals.append(arrival)
        if arrivals:
            self.arrivals(arrivals)

    async def durable(self, end_offset: int) -> None:
        """Return when the log is on disk up to `end_offset`; at once with async flush."""
        if end_offset <= self._durable_end or not self._config.sync_flush:
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append((end_offset, waiter))
        await waiter

    def topics(self) -> set[str]:
        """Names of all topics that have a queue."""
        return {topic for topic, _ in self._queues}

    def min_offset(self, topic: str, queue_id: int) -> int:
        return self._queues.min_offset(topic, queue_id)

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Behind the last visible message; 0 for a queue that never had one."""
        return self._queues.max_offset(topic, queue_id)

    def entries(self, topic: str, queue_id: int, start: int, count: int) -> list[QueueEntry]:
        return self._queues.entries(topic, queue_id, start, count)

    def read(self, log_offset: int, size_bytes: int) -> Record | None:
        """None when retention has deleted it. Raises `Corrupt`."""
        return self._commit_log.read(log_offset, size_bytes)

    def load_config(self, name: str, decode: Callable[[str], T]) -> T | None:
        return self._config_files.load(name, decode)

    async def save_config(self, name: str, text: str) -> None:
        """Raises `DiskFull`; then the file is as it was."""
        await self._config_files.save(name, text)

    async def run(self) -> None:
        """Checkpoints, and with async flush the flushing, for ever."""
        interval_ms = self._config.checkpoint_interval_ms
        if not self._config.sync_flush:
            interval_ms = min(interval_ms, self._config.async_flush_interval_ms)
        waited_ms = 0
        while True:
            await asyncio.sleep(interval_ms / 1000)
            waited_ms += interval_ms
            self._flusher.request(self._commit_log.end)
            if waited_ms >= self._config.checkpoint_interval_ms:
                waited_ms = 0
                await self._checkpoint()

    async def _checkpoint(self) -> None:
        """Bring the queues to disk and write down how far they and the log are."""
        log_end = self._durable_end if self._config.sync_flush else self._commit_log.end
        try:
            touched = self._queues.flush()
            await asyncio.to_thread(sync_files, touched)
        except DiskFull as full:
            self._log.warning("checkpoint.postponed", reason=str(full))
            return
        flushed = min(log_end, self._durable_end)
        values = CheckpointFile(
            store_timestamp_ms=self._last_store_ms, flushed=flushed, queues_flushed=flushed
        )
        await asyncio.to_thread(checkpoint_file.save, self._config.data_dir / "checkpoint", values)

    async def close(self) -> None:
        """Everything to disk; the next start finds a clean stop."""
        if self._closed:
            return
        self._closed = True
        self._flusher.request(self._commit_log.end)
        await asyncio.to_thread(self._flusher.close)
        await asyncio.sleep(0)  # let the flusher's last call run
        self._dispatch(self._commit_log.end)
        await self._checkpoint()
        self._commit_log.close()
        (self._config.data_dir / "abort").unlink(missing_ok=True)
        self._lock.release()

    def _check_space(self, now_ms: int) -> None:
        if now_ms - self._space_checked_ms >= FREE_SPACE_CHECK_MS:
            self._space_checked_ms = now_ms
            disk = os.statvfs(self._config.data_dir)
            self._space_left = disk.f_bavail * disk.f_frsize > self._config.disk_reserve_bytes
        if not self._space_left:
            raise DiskFull(path=self._config.data_dir)
