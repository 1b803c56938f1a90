"""A flag in Redis for each key: in progress, then done.

    inbox = RedisInbox(Redis(), key=message_key())

    async def credit(message):             # the handler, with its effect in Redis
        effects = await inbox.turn.effects()
        effects.hincrby("points", "user-7", 30)

Promise with `effects`: they and the mark "done" are one MULTI … EXEC, and nothing happens if this
consumer's claim has run out: each key's effects come once as long as Redis keeps its data and the
key is remembered (72 hours). Promise without: deliveries that overlap, and those after the mark,
are kept from the handler. A crash between an effect elsewhere and the mark, or a pause longer than
`progress_s`, lets the effect happen again: at least once. For exactly once there, `SqlInbox`.

A claim is renewed while its handler runs (`redis_renewal.py`); a dead consumer's ends by itself.

Limits: Redis answers before its data is on disk unless it runs with `appendfsync always`, and a
failover may lose the last flags. A server that evicts keys (maxmemory-policy) forgets flags. MULTI
does not roll back commands that fail (wrong type). In a cluster, flag and effects need one hash
tag.

    key    popmq:inbox:<scope>:<key>
    value  p:<payload's SHA-256>:<owner>   in progress, expires after progress_s
           d:<payload's SHA-256>           done, expires after window_s
"""

import logging
import uuid
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Unpack

from redis.asyncio import Redis
from redis.asyncio.client import Pipeline
from redis.exceptions import WatchError

from popmq.idempotence.inbox import Inbox, InboxOptions, KeyClaim, KeyTurn
from popmq.idempotence.redis_renewal import LONGEST_S, RENEW, renewed
from popmq.idempotence.window import WINDOW_S
from popmq.log_fields import fields
from popmq.outcome import Retry

log = logging.getLogger("popmq.idempotence")
PREFIX = "popmq:inbox:"
PROGRESS_S = 60.0

_CLAIM = """
local there = redis.call('GET', KEYS[1])
if there then return there end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return ''
"""  # flag; in progress, milliseconds → what is there, or nothing when it is claimed now

_FINISH = """
local there = redis.call('GET', KEYS[1])
if there and there ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
if there then return 1 end
return 0
"""  # flag; in progress, done, milliseconds → 1 when the claim still stood

_RELEASE = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
return 1
"""  # flag; in progress


class ClaimLost(Exception):
    """Another consumer may have the key: nothing was done."""


@dataclass(slots=True)
class RedisTurn(KeyTurn):
    _redis: Redis = field(repr=False)
    flag: str = ""
    claimed: str = ""
    """The flag's value while it is this turn's; empty: no flag is kept."""
    _effects: Pipeline | None = field(default=None, repr=False)

    async def effects(self) -> Pipeline:
        """Commands for Redis that are done at the end, together with the mark, or not at all. Do
        not watch keys of your own with it."""
        if self._effects is None:
            self._effects = self._redis.pipeline(transaction=True)
        return self._effects

    async def finish(self, done: str, window_ms: int) -> bool:
        """False: there are no effects, so the mark is not made yet. Raises `ClaimLost`,
        `WatchError`: then none were made."""
        effects = self._effects
        if effects is None:
            return False
        if self.claimed:
            queued, effects.command_stack = effects.command_stack, []
            await effects.watch(self.flag)
            if _text(await effects.get(self.flag)) != self.claimed:
                raise ClaimLost
            effects.multi()
            effects.command_stack = queued
            effects.set(self.flag, done, px=window_ms)
        await effects.execute()
        return True

    async def close(self) -> None:
        if self._effects is not None:
            await self._effects.reset()


class RedisInbox(Inbox[RedisTurn]):
    def __init__(
        self,
        redis: Redis,
        *,
        window_s: float = WINDOW_S,
        progress_s: float = PROGRESS_S,
        progress_longest_s: float = LONGEST_S,
        prefix: str = PREFIX,
        **options: Unpack[InboxOptions],
    ) -> None:
        """`progress_s`: so long a crashed consumer's key waits; a handler may take longer, it is
        renewed, for `progress_longest_s` at most."""
        super().__init__(window_s=window_s, **options)
        self._redis = redis
        self._prefix = prefix
        self._progress_s, self._longest_s = progress_s, progress_longest_s
        self._window_ms, self._progress_ms = int(window_s * 1000), int(progress_s * 1000)
        self._claim_script = redis.register_script(_CLAIM)
        self._finish_script = redis.register_script(_FINISH)
        self._release_script = redis.register_script(_RELEASE)
        self._renew_script = redis.register_script(RENEW)

    @asynccontextmanager
    async def _turn(self, claim: KeyClaim) -> AsyncIterator[RedisTurn]:
        turn = await self._begin(claim)
        if not turn.first:
            yield turn
            return
        try:
            async with self._renewed(turn):
                yield turn
            await self._finish(turn, claim)
        except (ClaimLost, WatchError) as lost:
            self.counts.late += 1
            reason = f"the claim of {claim.key!r} ran out; its effects were not made"
            raise Retry(self._retry_delay_s, reason, counted=False) from lost
        except BaseException:
            if turn.claimed:
                await self._release_script(keys=[turn.flag], args=[turn.claimed])
            raise
        finally:
            await turn.close()

    def _renewed(self, turn: RedisTurn) -> AbstractAsyncContextManager[None]:
        if not turn.claimed:
            return nullcontext()
        return renewed(
            lambda: self._renew_script(keys=[turn.flag], args=[turn.claimed, self._progress_ms]),
            turn.flag,
            self._progress_s,
            self._longest_s,
        )

    async def _begin(self, claim: KeyClaim) -> RedisTurn:
        if claim.key is None:
            return RedisTurn(True, self._redis)
        flag = f"{self._prefix}{claim.scope}:{claim.key}"
        mine = f"p:{claim.payload}:{uuid.uuid4().hex}"
        there = _text(await self._claim_script(keys=[flag], args=[mine, self._progress_ms]))
        if not there:
            return RedisTurn(True, self._redis, flag, mine)
        state, payload, *_ = there.split(":")
        self._known(claim, payload)
        if state == "p":
            raise self._busy(claim)
        return RedisTurn(False, self._redis, flag)

    async def _finish(self, turn: RedisTurn, claim: KeyClaim) -> None:
        done = f"d:{claim.payload}"
        if await turn.finish(done, self._window_ms) or not turn.claimed:
            return
        arguments: list[str | int] = [turn.claimed, done, self._window_ms]
        if not await self._finish_script(keys=[turn.flag], args=arguments):
            self.counts.late += 1
            reason = f"it was held up for longer than progress_s={self._progress_s:g}"
            text = "the handler of %r: %s; another one may have worked on it too"
            log.warning(text, claim.key, reason, extra=fields(None, reason))


def _text(value: object) -> str:
    """What a client answers with or without decode_responses."""
    return value.decode() if isinstance(value, bytes) else str(value or "")
