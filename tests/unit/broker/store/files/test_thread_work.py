"""Work in a thread, and a caller that is cancelled."""

import asyncio
import threading

import pytest

from popmq_broker.store.files.thread_work import to_the_end


async def test_what_the_work_returns_and_raises() -> None:
    assert await to_the_end(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await to_the_end(divmod, 7, 0)


async def test_a_cancelled_caller_waits_for_its_thread() -> None:
    began, may_end = threading.Event(), threading.Event()

    def work() -> None:
        began.set()
        assert may_end.wait(10)

    caller = asyncio.create_task(to_the_end(work))
    await asyncio.to_thread(began.wait)
    caller.cancel()
    for _ in range(5):
        await asyncio.sleep(0)
    assert not caller.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
