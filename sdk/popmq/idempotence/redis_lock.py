"""Guard: a lock in Redis whose every holder has a higher token than the one before.

    async with RedisLock(redis).hold("order-7") as held:
        held.token

Promise: a holder is alone, however long it works: the lock is renewed (`redis_renewal.py`). Limits:
a process that stops for longer than `hold_s` (a pause of the machine, code without an `await`) goes
on when another holds the lock; no lock that expires can prevent that. Therefore the store of the
effect must check the token: `FencedRows`. And the lock does not know duplicates: the row must tell
what is done.

The token is the server's clock in µs or the last token + 1, whichever is higher: it grows also when
Redis has lost its data. Needs Redis 5 or newer.
"""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from redis.asyncio import Redis

from popmq.idempotence.counts import IdempotenceCounts
from popmq.idempotence.inbox import RETRY_DELAY_S
from popmq.idempotence.redis_renewal import LONGEST_S, RENEW, renewed
from popmq.log_fields import fields
from popmq.outcome import Retry

log = logging.getLogger("popmq.idempotence")
HOLD_S = 30.0
PREFIX = "popmq:lock:"

_TAKE = """
if redis.call('EXISTS', KEYS[1]) == 1 then return '' end
local now = redis.call('TIME')
local token = tonumber(now[1]) * 1000000 + tonumber(now[2])
local last = tonumber(redis.call('GET', KEYS[2]) or '0')
if token <= last then token = last + 1 end
local text = string.format('%.0f', token)
redis.call('SET', KEYS[2], text)
redis.call('SET', KEYS[1], text, 'PX', ARGV[1])
return text
"""  # lock, last token; milliseconds → the token, or nothing when it is held

_LEAVE = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
return 1
"""  # lock; token → 1 when it was still held


@dataclass(frozen=True, slots=True)
class HeldLock:
    token: int
    """Higher than any holder's before; below 2**63."""


class RedisLock:
    def __init__(
        self,
        redis: Redis,
        *,
        hold_s: float = HOLD_S,
        hold_longest_s: float = LONGEST_S,
        prefix: str = PREFIX,
    ) -> None:
        """`hold_s`: so long after its holder died others may take it. `hold_longest_s`: it is
        renewed for so long."""
        self.counts = IdempotenceCounts()
        self._hold_s, self._longest_s = hold_s, hold_longest_s
        self._hold_ms = int(hold_s * 1000)
        self._prefix = prefix
        self._take = redis.register_script(_TAKE)
        self._leave = redis.register_script(_LEAVE)
        self._renew = redis.register_script(RENEW)

    @asynccontextmanager
    async def hold(self, name: str) -> AsyncIterator[HeldLock]:
        """Raises `Retry` when somebody else holds it."""
        lock, last = f"{self._prefix}{name}", f"{self._prefix}:last-token"
        token = int(await self._take(keys=[lock, last], args=[self._hold_ms]) or 0)
        if not token:
            self.counts.in_progress += 1
            raise Retry(RETRY_DELAY_S, f"{lock} is held by another consumer", counted=False)
        try:
            async with renewed(
                lambda: self._renew(keys=[lock], args=[token, self._hold_ms]),
                lock,
                self._hold_s,
                self._longest_s,
            ):
                yield HeldLock(token)
        finally:
            if not await self._leave(keys=[lock], args=[token]):
                self.counts.late += 1
                reason = f"{lock} ran out before its holder was done"
                log.warning(reason, extra=fields(None, reason))
        self.counts.handled += 1
