"""Work of threads that its caller does not leave alone."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def to_the_end(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """As `asyncio.to_thread`, but a caller that is cancelled still waits: the thread goes on, and
    whoever comes next must not meet it."""
    return await waited_for(asyncio.to_thread(work, *args, **kwargs))


async def waited_for(work: Coroutine[Any, Any, T]) -> T:
    """The same of a coroutine that works in threads."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise
