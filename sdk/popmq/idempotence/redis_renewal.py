"""A claim or a lock in Redis lasts as long as its holder works, and ends soon after it has died.

While the holder's block runs, its time is begun anew every third of it. A holder that computes
without an `await` for longer than the whole time loses it, as one that is paused does: Redis cannot
tell it from a dead one.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from redis.exceptions import RedisError

from popmq.log_fields import fields

log = logging.getLogger("popmq.idempotence")
PARTS: Final = 3
"""Of its time: after one of them it is renewed, so two renewals may fail."""
LONGEST_S: Final = 3_600.0
"""A handler that hangs does not hold its key for ever."""

RENEW: Final = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
"""  # key; what its holder wrote, milliseconds → 1 when it was still held


@asynccontextmanager
async def renewed(
    renew: Callable[[], Awaitable[object]], what: str, lasts_s: float, longest_s: float
) -> AsyncIterator[None]:
    """Call `renew` while the block runs, for `longest_s` at most, until it says no. None is under
    way when the block has been left."""
    ended = asyncio.Event()
    renewing = asyncio.create_task(_renew(renew, what, lasts_s / PARTS, longest_s, ended))
    try:
        yield
    finally:
        ended.set()
        await renewing


async def _renew(
    renew: Callable[[], Awaitable[object]],
    what: str,
    every_s: float,
    longest_s: float,
    ended: asyncio.Event,
) -> None:
    last_s = time.monotonic() + longest_s
    while not await _comes_within(ended, every_s):
        if time.monotonic() >= last_s:
            reason = f"it has been held for {longest_s:g} s"
            log.warning("%s is renewed no more: %s", what, reason, extra=fields(None, reason))
            return
        try:
            if not await renew():
                return  # its holder hears of it at the end
        except RedisError as failed:
            log.info("%s was not renewed yet: %s", what, failed)


async def _comes_within(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False
