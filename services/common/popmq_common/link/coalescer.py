"""Coalesced work: done in a turn of the loop of its own, soon, or with what comes until then.

Once for all who ask for it in the meantime; those that give it time all give it as much.
"""

import asyncio
from collections.abc import Callable


class Coalescer:
    def __init__(self, run: Callable[[], None]) -> None:
        self._run = run
        self._due: asyncio.Handle | None = None
        self._is_soon = False

    def soon(self) -> None:
        """In the loop's next turn."""
        if not self._is_soon:
            self.cancel()
            self._is_soon = True
            self._due = asyncio.get_running_loop().call_soon(self._go)

    def within(self, seconds: float) -> None:
        """Then, unless it is due before."""
        if self._due is None:
            self._due = asyncio.get_running_loop().call_later(seconds, self._go)

    def cancel(self) -> None:
        if self._due is not None:
            self._due.cancel()
        self._due, self._is_soon = None, False

    def _go(self) -> None:
        self._due, self._is_soon = None, False
        self._run()
