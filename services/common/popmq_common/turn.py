"""One call of a function for all who ask for it in the meantime."""

import asyncio
from collections.abc import Callable


class Turn:
    def __init__(self, act: Callable[[], None]) -> None:
        self._act = act
        self._handle: asyncio.Handle | None = None
        self._waits = False

    def within(self, wait_s: float) -> None:
        """Have it run no later than that; 0: when what runs now is done."""
        if self._handle is not None:
            if wait_s or not self._waits:
                return
            self._handle.cancel()
        self._waits = wait_s > 0
        loop = asyncio.get_running_loop()
        self._handle = loop.call_later(wait_s, self._run) if wait_s else loop.call_soon(self._run)

    def _run(self) -> None:
        self._handle = None
        self._act()
