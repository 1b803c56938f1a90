"""How a handler dies at a chosen point, as a process does: nothing is said any more."""

import asyncio
import os
import signal
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from idempotence.plan import Action
from redis.asyncio import Redis


class Died(BaseException):
    """A database rolls back what it held, as when the connection of a dead process ends."""


_fate: ContextVar["Fate | None"] = ContextVar("fate", default=None)


class MortalRedis(Redis):
    """Sends nothing for the dead: no clean-up that a dead process would not have done. What those
    that pause say leaves when they go on: nothing renews their claims meanwhile."""

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        fate = _fate.get()
        if fate is not None:
            await fate.awake.wait()
            if fate.dead:
                raise Died
        return await super().execute_command(*args, **options)  # type: ignore[no-untyped-call]


class Fate:
    """Of one delivery. Made in the task that handles it."""

    def __init__(
        self,
        action: Action,
        *,
        pause_s: float,
        killed: bool = False,
        dying: Callable[[], None] | None = None,
    ) -> None:
        """`dying`: called right before."""
        self.dead, self.awake = False, asyncio.Event()
        self.awake.set()
        _fate.set(self)
        self._action, self._pause_s, self._killed = action, pause_s, killed
        self._dying = dying

    async def before(self) -> None:
        """Nothing is done yet."""
        if self._action is Action.DIES_BEFORE:
            self._die()

    async def inside(self) -> None:
        """The effect is made, or about to be; it is not committed, or not marked."""
        if self._action is Action.DIES_INSIDE:
            self._die()
        if self._action is Action.SLOW:
            self.awake.clear()
            await asyncio.sleep(self._pause_s)
            self.awake.set()

    async def after(self) -> None:
        """All is done but the ack."""
        if self._action is Action.DIES_AFTER:
            self._die()

    def _die(self) -> None:
        if self._dying is not None:
            self._dying()
        if self._killed:
            os.kill(os.getpid(), signal.SIGKILL)
        self.dead = True
        raise Died
