"""The flag and the lock in a real Redis."""

import asyncio
import uuid
from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis
from unit.sdk.idempotence.made import message

from popmq import ReceivedMessage
from popmq.idempotence import PayloadMismatch, WhenMismatch
from popmq.idempotence.redis_flag import RedisInbox
from popmq.idempotence.redis_lock import RedisLock
from popmq.outcome import Retry


@pytest.fixture(params=[False, True], ids=["bytes", "decoded"])
async def redis(redis_url: str, request: pytest.FixtureRequest) -> AsyncIterator[Redis]:
    async with Redis.from_url(redis_url, decode_responses=request.param) as connected:
        await connected.flushdb()
        yield connected


async def nothing(message: ReceivedMessage) -> None:
    pass


async def fail(message: ReceivedMessage) -> None:
    raise OSError("no connection")


async def test_a_flag_suppresses_and_is_kept_three_days(redis: Redis) -> None:
    inbox = RedisInbox(redis)
    assert [await inbox.run(message(), nothing) for _ in range(2)] == [True, False]
    left_ms = await redis.pttl("popmq:inbox:billing:order-1")
    assert 71 * 3_600_000 < left_ms <= 72 * 3_600_000
    assert (inbox.counts.handled, inbox.counts.suppressed) == (1, 1)


async def test_a_failed_handler_leaves_its_key_free(redis: Redis) -> None:
    inbox = RedisInbox(redis)
    with pytest.raises(OSError, match="no connection"):
        await inbox.run(message(), fail)
    assert await inbox.run(message(), nothing) is True


async def test_in_progress_until_it_expires(redis: Redis) -> None:
    inbox = RedisInbox(redis, progress_s=0.2, progress_longest_s=0.0)
    async with inbox.once(message()) as turn:
        assert turn.first
        with pytest.raises(Retry, match="another consumer works on 'order-1'"):
            await inbox.run(message(), nothing)
        for _ in range(200):  # as after a crash
            if await _handled(inbox):
                break
            await asyncio.sleep(0.05)
    assert inbox.counts.late == 1
    assert await inbox.run(message(), nothing) is False


async def _handled(inbox: RedisInbox) -> bool:
    try:
        return await inbox.run(message(), nothing)
    except Retry:
        return False


async def test_claim_and_lock_are_renewed_while_their_holder_works(redis: Redis) -> None:
    inbox, lock = RedisInbox(redis, progress_s=6), RedisLock(redis, hold_s=6)
    flag, name = "popmq:inbox:billing:order-1", "popmq:lock:order-1"
    async with inbox.once(message()) as turn, lock.hold("order-1"):
        (await turn.effects()).hincrby("points", "a", 30)
        least_ms = {key: await redis.pttl(key) for key in (flag, name)}
        while least_ms:  # until it has grown
            await asyncio.sleep(0.1)
            for key in list(least_ms):
                left_ms = await redis.pttl(key)
                assert left_ms > 0, f"{key} ran out"
                if left_ms > least_ms[key]:
                    del least_ms[key]
                else:
                    least_ms[key] = left_ms
    assert (inbox.counts.late, lock.counts.late) == (0, 0)
    assert int(await redis.hget("points", "a") or 0) == 30


async def test_a_slow_handler_does_not_free_the_next_ones_claim(redis: Redis) -> None:
    inbox = RedisInbox(redis, progress_s=60)
    flag = "popmq:inbox:billing:order-1"

    async def lose_and_fail(message: ReceivedMessage) -> None:
        await redis.set(flag, "p:other:owner")
        raise OSError("too slow")

    with pytest.raises(OSError, match="too slow"):
        await inbox.run(message(), lose_and_fail)
    assert await redis.get(flag) in (b"p:other:owner", "p:other:owner")


async def test_effects_come_with_the_mark_or_not_at_all(redis: Redis) -> None:
    inbox = RedisInbox(redis)

    async def credit(message: ReceivedMessage) -> None:
        (await inbox.turn.effects()).hincrby("points", "a", 30)

    async def credit_and_fail(message: ReceivedMessage) -> None:
        await credit(message)
        raise OSError("afterwards")

    with pytest.raises(OSError, match="afterwards"):
        await inbox.run(message(), credit_and_fail)
    assert await redis.hget("points", "a") is None
    assert [await inbox.run(message(), credit) for _ in range(3)] == [True, False, False]
    assert int(await redis.hget("points", "a") or 0) == 30


@pytest.mark.parametrize("taken_over", [False, True])
async def test_effects_of_a_claim_that_ran_out_are_not_made(redis: Redis, taken_over: bool) -> None:
    inbox = RedisInbox(redis, progress_s=60)
    flag = "popmq:inbox:billing:order-1"

    async def too_slow(message: ReceivedMessage) -> None:
        (await inbox.turn.effects()).hincrby("points", "a", 30)
        await redis.set(flag, "p:x:y") if taken_over else await redis.delete(flag)

    with pytest.raises(Retry, match="its effects were not made") as raised:
        await inbox.run(message(), too_slow)
    assert raised.value.counted is False
    assert await redis.hget("points", "a") is None
    assert inbox.counts.late == 1


async def test_another_payload(redis: Redis) -> None:
    inbox = RedisInbox(redis)
    await inbox.run(message(body=b"1"), nothing)
    with pytest.raises(PayloadMismatch):
        await inbox.run(message(body=b"2"), nothing)
    trusting = RedisInbox(redis, when_mismatch=WhenMismatch.SUPPRESS)
    assert await trusting.run(message(body=b"2"), nothing) is False
    async with trusting.once(message("order-2", b"1")):
        with pytest.raises(Retry):  # it is not done: to suppress would lose it
            await trusting.run(message("order-2", b"2"), nothing)


async def test_a_lock_is_held_by_one_and_tokens_grow(redis: Redis) -> None:
    lock = RedisLock(redis)
    tokens = []
    for _ in range(3):
        async with lock.hold("order-1") as held:
            tokens.append(held.token)
            with pytest.raises(Retry, match="order-1 is held by another consumer"):
                async with lock.hold("order-1"):
                    pass
            async with lock.hold("order-2") as other:
                tokens.append(other.token)
    assert tokens == sorted(set(tokens))
    assert (lock.counts.handled, lock.counts.in_progress, lock.counts.late) == (6, 3, 0)


async def test_tokens_grow_when_redis_has_lost_its_data(redis: Redis) -> None:
    lock = RedisLock(redis)
    async with lock.hold("a") as before:
        await redis.flushdb()
        async with lock.hold("a") as after:
            assert after.token > before.token
    await redis.set("popmq:lock::last-token", after.token + 10**12)  # the clock went back
    async with lock.hold("a") as last:
        assert last.token == after.token + 10**12 + 1
    assert lock.counts.late == 1  # the first holder's


async def test_who_was_too_slow_does_not_unlock_the_next(redis: Redis) -> None:
    lock = RedisLock(redis, prefix=f"{uuid.uuid4().hex}:")
    async with lock.hold("a"):
        await redis.flushdb()
        next_one = lock.hold("a")
        await next_one.__aenter__()
    with pytest.raises(Retry):
        async with lock.hold("a"):
            pass
    await next_one.__aexit__(None, None, None)
    async with lock.hold("a"):
        pass
