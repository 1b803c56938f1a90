"""Deadlines of calls that end soon anyway: one timer for all of them.

A timer per call costs a send 2 µs. Here the timer is set to the earliest deadline there was; when
it fires, what is still waiting is looked through once, and it is set to the earliest of that.
"""

import asyncio
from collections.abc import Callable
from time import monotonic


class Deadlines:
    def __init__(self, passed: Callable[[int, int], None]) -> None:
        """`passed` is called with a call's number and its time-out in ms when that is over."""
        self._passed = passed
        self._due: dict[int, tuple[float, int]] = {}
        self._fires_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, number: int, timeout_ms: int) -> None:
        due_s = monotonic() + timeout_ms / 1000
        self._due[number] = due_s, timeout_ms
        if self._timer is None or due_s < self._fires_s:
            self._set(due_s)

    def end(self, number: int) -> None:
        self._due.pop(number, None)

    def close(self) -> None:
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set(self, due_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._fires_s = due_s
        delay_s = due_s - monotonic()
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._fire)

    def _fire(self) -> None:
        self._timer = None
        now_s = max(monotonic(), self._fires_s)  # a loop may be early by its resolution
        over = [(number, ms) for number, (due_s, ms) in self._due.items() if due_s <= now_s]
        for number, _ in over:
            del self._due[number]
        if self._due:
            self._set(min(self._due.values())[0])
        for number, timeout_ms in over:
            self._passed(number, timeout_ms)
