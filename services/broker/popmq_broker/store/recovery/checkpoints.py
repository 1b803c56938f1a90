"""Checkpoints: bring the queues to disk, then write down how far they and the log are.

    queue files ──sync──► the log up to there ──► config/queueEnds.json ──► the page `checkpoint`

In this order: whatever a crash cuts off, nothing is claimed that is not on disk.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from popmq_broker.store.files import checkpoint_file
from popmq_broker.store.files.checkpoint_file import Marks
from popmq_broker.store.files.config_files import ConfigFiles
from popmq_broker.store.files.files import Files, disk_full
from popmq_broker.store.files.thread_work import to_the_end
from popmq_broker.store.queues import queue_ends
from popmq_broker.store.queues.queue_ends import QUEUE_ENDS_FILE, QueueEnds
from popmq_broker.store.queues.queues import Queues, sync_files
from popmq_common.errors import DiskFull
from popmq_common.process.logs import Log


class Checkpoints:
    def __init__(
        self,
        *,
        files: Files,
        path: Path,
        queues: Queues,
        config_files: ConfigFiles,
        marks: Marks,
        ends: QueueEnds | None,
        log: Log,
    ) -> None:
        """`marks` and `ends`: what is on disk."""
        self._files = files
        self._path = path
        self._queues = queues
        self._config_files = config_files
        self.marks = marks
        self.ends = ends
        self._log = log
        self.turn = asyncio.Lock()
        """One checkpoint after the other: each speaks for files the one before it has synced."""

    async def take(
        self, log_start: int, end: int, on_disk: Callable[[int], Awaitable[None]]
    ) -> bool:
        """The queues hold all records before `end`; `on_disk` returns when the log is, up to there.

        False when the disk is full: what was on disk still counts.
        """
        try:
            touched = self._queues.flush()
        except DiskFull as full:
            return self._postponed(full)
        ends = self._queues.ends(log_start, end)
        try:
            await to_the_end(sync_files, self._files, touched)
            await on_disk(end)
            if ends != self.ends:
                await self._config_files.save(QUEUE_ENDS_FILE, queue_ends.encode(ends))
        except DiskFull as full:
            self._queues.not_synced(touched)
            return self._postponed(full)
        except BaseException:
            self._queues.not_synced(touched)
            raise
        self.ends = ends
        return True

    def _postponed(self, full: DiskFull) -> bool:
        self._log.warning("checkpoint.postponed", reason=str(full))
        return False

    async def mark(self, marks: Marks) -> None:
        """Write how far the log is on disk, if it has changed. Raises `DiskFull`."""
        if marks != self.marks:
            try:
                await to_the_end(checkpoint_file.save, self._files, self._path, marks)
            except OSError as wrong:
                raise disk_full(wrong, self._path) or wrong from wrong
            self.marks = marks
