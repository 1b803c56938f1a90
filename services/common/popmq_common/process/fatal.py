"""The end of a process that cannot go on: half a server must not look alive."""

import asyncio
import os
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

from popmq_common.process.logs import Log

EXIT_BUG: Final = 70
"""Exit code when a task that must run for ever ended with an error (EX_SOFTWARE)."""


def exit_on_error(log: Log, event: str, task: "asyncio.Task[None]") -> None:
    """For `add_done_callback`. `event`: what the log calls it."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error(event, exc_info=error)
        os._exit(EXIT_BUG)


@asynccontextmanager
async def running(work: Coroutine[Any, Any, None], log: Log, event: str) -> AsyncIterator[None]:
    """Done beside what is inside; its error ends the process."""
    task = asyncio.create_task(work)
    task.add_done_callback(partial(exit_on_error, log, event))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
