"""Virtual time, in microseconds: an event queue, and coroutines that wait in it.

A coroutine waits by yielding a function that gets its wake-up call. Of several calls, as of an
answer and a timer, the first one counts.
"""

import random
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from heapq import heappop, heappush
from typing import Any

Wake = Callable[[Any], None]
Arm = Callable[[Wake], None]

MS = 1_000
SECOND = 1_000 * MS


class Loop:
    def __init__(self, rng: random.Random) -> None:
        self.now = 0
        self.steps = 0
        self._order = rng.random
        self._count = 0
        self._queue: list[tuple[int, float, int, Callable[..., None], tuple[Any, ...]]] = []

    def after(self, delay: int, call: Callable[..., None], *args: Any) -> None:
        """What is due at the same moment comes in any order."""
        self._count += 1
        heappush(self._queue, (self.now + delay, self._order(), self._count, call, args))

    def step(self) -> None:
        self.now, _, _, call, args = heappop(self._queue)
        self.steps += 1
        call(*args)


class Pause:
    def __init__(self, arm: Arm) -> None:
        self._arm = arm

    def __await__(self) -> Generator[Arm, Any, Any]:
        return (yield self._arm)


class Task:
    """A coroutine of a process; `run` lets it go on when the process runs."""

    def __init__(
        self, coroutine: Coroutine[Any, Any, None], run: Callable[..., None], loop: Loop
    ) -> None:
        self._coroutine = coroutine
        self._run = run
        self._loop = loop
        self._turn = 0
        self._closed = False
        self._go_on(0, None)

    def close(self) -> None:
        self._closed = True
        self._coroutine.close()

    def _go_on(self, turn: int, value: Any) -> None:
        if self._closed or turn != self._turn:
            return
        self._turn += 1
        try:
            arm = self._coroutine.send(value)
        except StopIteration:
            self._closed = True
        else:
            arm(partial(self._wake, self._turn))

    def _wake(self, turn: int, value: Any = None) -> None:
        if not self._closed and turn == self._turn:
            self._loop.after(0, self._run, self._go_on, turn, value)


class Signal:
    """Wakes all that wait for it."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._waiting: list[Wake] = []

    def set(self) -> None:
        waiting, self._waiting = self._waiting, []
        for wake in waiting:
            wake(None)

    def wait(self, timeout: int) -> Pause:
        def arm(wake: Wake) -> None:
            self._waiting.append(wake)
            self._loop.after(timeout, wake, None)

        return Pause(arm)
