"""Long polls end when their client says goodbye or wants them ended, or the proxy drains."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from popmq_proxy.sessions import Session

T = TypeVar("T")


async def while_it_lives(
    session: Session,
    poll: Coroutine[Any, Any, T],
    attempt_id: str = "",
    unseen: Callable[[T], Awaitable[None]] | None = None,
) -> T | None:
    """What the poll brings; None: its client said goodbye or ended it, or the proxy drains.
    `unseen` gets what it brought in the very moment in which the client went."""
    task = asyncio.ensure_future(poll)
    session.polls[task] = attempt_id
    try:
        return await task
    except asyncio.CancelledError:
        if _cancelled_from_outside():
            task.cancel()
            if unseen is not None and _brought(task):
                await unseen(task.result())
            raise
        return None
    finally:
        session.polls.pop(task, None)
        if not session.polls:
            session.polls.clear()  # a table for thousands would stay as large as it was


def _brought(task: "asyncio.Task[Any]") -> bool:
    return task.done() and not task.cancelled() and task.exception() is None


def _cancelled_from_outside() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
