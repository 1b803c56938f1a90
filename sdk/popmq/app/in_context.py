"""Coroutines of many messages in few tasks, each in a context of its own.

A task costs several microseconds, and most handlers are done without one. So a task runs one
coroutine after the other, and what is ready behind one that has to wait goes on in another task.
What a coroutine leaves in context variables is not seen by the next one, as with tasks of its own.
"""

import contextvars
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class InContext(Generic[T]):
    """Awaited once, in place of the coroutine itself."""

    __slots__ = ("_waits", "_work")

    def __init__(self, work: Coroutine[Any, Any, T], waits: Callable[[], None]) -> None:
        """`waits` is called when the coroutine has to wait for the first time, if it ever has."""
        self._work, self._waits = work, waits

    def __await__(self) -> Generator[Any, Any, T]:
        work, context = self._work, contextvars.copy_context()
        try:
            wanted = context.run(work.send, None)
            self._waits()
            while True:
                try:
                    came = yield wanted
                except GeneratorExit:
                    work.close()
                    raise
                except BaseException as thrown:
                    step = partial(work.throw, thrown)
                else:
                    step = partial(work.send, came)
                wanted = context.run(step)
        except StopIteration as done:
            result: T = done.value
            return result
