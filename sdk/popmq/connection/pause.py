"""The pause before another try: one that failed again waits longer."""

import asyncio
import random
from typing import Final

from popmq._core.backoff import Backoff

CALL_BACKOFF: Final = Backoff(first_s=0.1, longest_s=1.0)
"""Between tries of one call."""
RECEIVE_BACKOFF: Final = Backoff(first_s=0.2, longest_s=5.0)
"""Between receives, which go on for ever."""


def pause_s(failures: int, backoff: Backoff = CALL_BACKOFF) -> float:
    """`failures`: so far, from 1."""
    return backoff.after(failures, random.random())


async def pause(failures: int, backoff: Backoff = CALL_BACKOFF) -> None:
    await asyncio.sleep(pause_s(failures, backoff))
