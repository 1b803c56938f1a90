"""An event loop without a wall clock: when nothing can run, time jumps to the next timer.

Threads would end the repeatability, so what asks for one runs at once, on the loop.
"""

import asyncio
import selectors
from collections.abc import Callable
from typing import Any

from sim.violation import Violation

BEGIN_MS = 1_700_000_000_000
RESOLUTION_S = 1e-6


class _JumpingSelector(selectors.SelectSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise Violation("I12", "everything waits, and nothing will ever happen")
        if timeout > 0:
            self.now_s += max(timeout, RESOLUTION_S)
        return []


class SimLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)
        self._clock_resolution = RESOLUTION_S

    def time(self) -> float:
        return self._jumping.now_s

    def run_in_executor(  # type: ignore[override]
        self, executor: object, func: Callable[..., Any], *args: Any
    ) -> "asyncio.Future[Any]":
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as failed:
            done.set_exception(failed)
        return done


class SimClock:
    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop

    def now_ms(self) -> int:
        return BEGIN_MS + int(self._loop.time() * 1000)
