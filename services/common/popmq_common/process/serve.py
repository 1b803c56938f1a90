"""Run one service until it is told to stop: signals, drain, and a clear exit."""

import asyncio
import gc
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

import uvloop

from popmq_common.process.logs import log_unhandled
from popmq_common.process.memory import keep_little


def run_until_stopped(
    start: Callable[[], AbstractAsyncContextManager[object]],
    ready: Callable[[object], Awaitable[None] | None] | None = None,
) -> None:
    """Enter the service's context, wait for SIGTERM or SIGINT, leave it.

    Leaving the context is the drain: the service stops accepting, finishes, flushes. A second
    signal changes nothing; kill -9 does not wait.
    """
    keep_little()
    uvloop.run(_serve(start, ready))


def spare_collector() -> None:
    """Look for garbage in cycles rarely, and never among what was there at start.

    Messages make no cycles; the default looks after every 700 objects, which took 9 % of a busy
    proxy's time. It looks at 10,000 new objects, and three times that once more, so that a look
    takes some milliseconds also where thousands of polls wait, which are a million objects.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 2, 5_000)


async def _serve(
    start: Callable[[], AbstractAsyncContextManager[object]],
    ready: Callable[[object], Awaitable[None] | None] | None,
) -> None:
    log_unhandled()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def asked() -> None:
        if stop.is_set():
            text = "popmq: it is stopping already, and finishes what is under way"
            print(text, file=sys.stderr, flush=True)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked)
    async with start() as service:
        spare_collector()
        if ready is not None:
            waiting = ready(service)
            if waiting is not None:
                await waiting
        await stop.wait()
