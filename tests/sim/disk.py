"""The disk of the simulation: the one in memory, without limits, and a flusher without a thread."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import ClassVar

from harness.memory_files import MemoryFiles

from popmq_broker.store.log.commit_log import CommitLog
from popmq_broker.store.log.flush import Position


class SimFiles(MemoryFiles):
    @property
    def used_bytes(self) -> int:
        """Counting would cost more than everything else."""
        return 0


class SimFlusher:
    """As `Flusher`; the fdatasync takes virtual time."""

    random: ClassVar[Random]
    slow: ClassVar[float] = 0.02
    """How often an fdatasync takes long."""

    def __init__(
        self,
        log: CommitLog,
        done: Callable[[Position, float], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._log = log
        self._done = done
        self._loop = asyncio.get_running_loop()
        self._flushed = log.end
        self._wanted = Position(log.end, 0, 0)
        self._timer: asyncio.TimerHandle | None = None

    def request(self, position: Position) -> None:
        if position.log_end > self._wanted.log_end:
            self._wanted = position
            self._begin()

    def _begin(self) -> None:
        if self._timer is None and self._wanted.log_end > self._flushed:
            slow = self.random.random() < self.slow
            seconds = self.random.uniform(0.05, 0.5) if slow else self.random.uniform(0, 0.004)
            self._timer = self._loop.call_later(seconds, self._sync, self._wanted)

    def _sync(self, wanted: Position) -> None:
        self._timer = None
        self._log.sync(self._flushed, wanted.log_end)
        self._flushed = wanted.log_end
        self._done(wanted, 0.0)
        self._begin()

    def busy_seconds(self) -> float:
        return 0.0

    def close(self, timeout_seconds: float = 30.0) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._wanted.log_end > self._flushed:
            self._log.sync(self._flushed, self._wanted.log_end)
            self._flushed = self._wanted.log_end
            self._loop.call_soon(self._done, self._wanted, 0.0)

    def abandon(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._wanted = Position(self._flushed, 0, 0)
