"""Long polls end when their client says goodbye or wants them ended, or the proxy drains."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from popmq_proxy.sessions import Session

T = TypeVar("T")


async def while_it_lives(
    session: Session, poll: Coroutine[Any, Any, T], attempt_id: str = ""
) -> T | None:
    """What the poll brings; None: its client said goodbye or ended it, or the proxy drains."""
    task = asyncio.ensure_future(poll)
    session.polls[task] = attempt_id
    try:
        return await task
    except asyncio.CancelledError:
        if _cancelled_from_outside():
            task.cancel()
            raise
        return None
    finally:
        session.polls.pop(task, None)


def _cancelled_from_outside() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
