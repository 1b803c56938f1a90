"""The flusher: one thread, natural batches, failure, ending."""

import asyncio
import threading

import pytest

from popmq_broker.store.log.flush import Flusher, Position


class Log:
    """A log whose fdatasync waits for the test."""

    def __init__(self) -> None:
        self.end = 100
        self.calls: list[tuple[int, int]] = []
        self.started = threading.Semaphore(0)
        self.go_on = threading.Semaphore(0)
        self.error: OSError | None = None

    def sync(self, start: int, end: int) -> None:
        self.calls.append((start, end))
        self.started.release()
        assert self.go_on.acquire(timeout=10)
        if self.error is not None:
            raise self.error


class Rig:
    def __init__(self) -> None:
        self.log = Log()
        self.done: list[Position] = []
        self.failures: list[BaseException] = []
        self.changed = asyncio.Event()
        self.flusher = Flusher(self.log, self._done, self._failed)  # type: ignore[arg-type]

    def _done(self, position: Position, seconds: float) -> None:
        assert seconds >= 0
        self.done.append(position)
        self.changed.set()

    def _failed(self, failed: BaseException) -> None:
        self.failures.append(failed)
        self.changed.set()

    async def change(self) -> None:
        async with asyncio.timeout(10):
            await self.changed.wait()
        self.changed.clear()


async def test_what_is_asked_during_a_sync_is_the_next_batch() -> None:
    rig = Rig()
    rig.flusher.request(Position(110, 1, 1))
    await asyncio.to_thread(rig.log.started.acquire)
    assert rig.flusher.busy_seconds() > 0
    rig.flusher.request(Position(120, 2, 2))
    rig.flusher.request(Position(130, 3, 3))
    rig.flusher.request(Position(105, 0, 0))  # done already, or about to be
    rig.log.go_on.release()
    await rig.change()
    assert rig.done == [Position(110, 1, 1)]
    rig.log.go_on.release()
    await rig.change()
    assert rig.done == [Position(110, 1, 1), Position(130, 3, 3)]
    assert rig.log.calls == [(100, 110), (110, 130)]
    rig.flusher.close(10)
    assert rig.flusher.busy_seconds() == 0


async def test_closing_finishes_what_was_asked() -> None:
    rig = Rig()
    rig.log.go_on.release()
    rig.flusher.request(Position(110, 1, 1))
    await asyncio.to_thread(rig.flusher.close, 10)
    await asyncio.sleep(0)
    assert rig.done == [Position(110, 1, 1)]


async def test_closing_an_idle_one_syncs_nothing() -> None:
    rig = Rig()
    rig.flusher.request(Position(100, 1, 1))
    rig.flusher.close(10)
    assert rig.log.calls == []


async def test_a_failed_sync_is_told_once_and_is_the_last() -> None:
    rig = Rig()
    rig.log.error = OSError("bad")
    rig.flusher.request(Position(110, 1, 1))
    rig.log.go_on.release()
    await rig.change()
    rig.flusher.request(Position(120, 1, 1))
    rig.flusher.close(10)
    assert rig.failures == [rig.log.error]
    assert rig.done == []
    assert rig.log.calls == [(100, 110)]


async def test_a_sync_that_hangs_does_not_hold_up_the_end_for_ever() -> None:
    rig = Rig()
    rig.flusher.request(Position(110, 1, 1))
    await asyncio.to_thread(rig.log.started.acquire)
    with pytest.raises(TimeoutError, match="fdatasync"):
        rig.flusher.close(0.01)
    rig.log.go_on.release()
    rig.flusher.close(10)


async def test_abandoning_drops_what_was_asked() -> None:
    rig = Rig()
    rig.flusher.request(Position(110, 1, 1))
    await asyncio.to_thread(rig.log.started.acquire)
    rig.flusher.request(Position(120, 1, 1))
    rig.flusher.abandon()
    rig.log.go_on.release()
    rig.flusher.close(10)
    assert rig.log.calls == [(100, 110)]
