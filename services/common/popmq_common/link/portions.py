"""How many bytes of messages are read or copied in one turn of the event loop.

Megabytes take milliseconds: a hundred large answers at once would hold up everybody else. Who comes
when the turn's portion is used waits for a later turn, one in each.
"""

import asyncio
from collections import deque
from typing import Final

from popmq_common.link.coalescer import Coalescer
from popmq_common.units import KiB

TURN_BYTES: Final = 512 * KiB


class Portions:
    def __init__(self) -> None:
        self._left_bytes = TURN_BYTES
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._ending: deque[asyncio.Future[None]] = deque()
        """Those that hold what they have read: they come first."""
        self._coalescer = Coalescer(self._next)

    async def wait(self, *, holds: bool = False) -> bool:
        """Until there is something left; whether that took a while. Who `holds` what it has read
        before comes first, so that little is held at a time."""
        if self._left_bytes > 0:
            return False
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        (self._ending if holds else self._waiting).append(turn)
        await turn
        return True

    def use(self, size_bytes: int) -> None:
        """So much was read or copied in this turn."""
        self._left_bytes -= size_bytes
        if self._left_bytes <= 0:
            self._coalescer.soon()

    def _next(self) -> None:
        while waiting := self._ending or self._waiting:
            turn = waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                self._coalescer.soon()
                return
        self._left_bytes = TURN_BYTES
