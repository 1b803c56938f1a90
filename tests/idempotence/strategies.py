"""Each strategy as an application would use it, with places where it may die."""

import json
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass
from enum import Enum

from idempotence.death import Fate
from idempotence.ledger import (
    STATES,
    add_effect,
    add_entities,
    effect,
    effects_in_redis,
    effects_in_sql,
    entity,
)
from redis.asyncio import Redis
from sqlalchemy import bindparam, update
from sqlalchemy.ext.asyncio import AsyncEngine

from popmq import ReceivedMessage
from popmq.idempotence import MemoryInbox
from popmq.idempotence.fenced_rows import FencedRows
from popmq.idempotence.redis_flag import RedisInbox
from popmq.idempotence.redis_lock import RedisLock
from popmq.idempotence.row_lock import RowLock
from popmq.idempotence.sql import SqlInbox
from popmq.idempotence.state_machine import StateMachine
from popmq.idempotence.version import OptimisticVersion

PROGRESS_S = 0.4  # of claims and locks in Redis; a crashed holder's key waits so long
PAUSE_S = 0.6  # longer than a claim or lock in Redis lasts
RETRY_DELAY_S = 0.05
PAY = update(entity).where(entity.c.id == bindparam("row")).values(paid=True)


class Promise(Enum):
    NOTHING = "nothing"
    ONCE = "exactly once"
    ONCE_WHILE_ALIVE = "once, while the process lives"
    AT_LEAST_ONCE = "at least once"
    ALONE_IF_QUICK = "nothing once it runs out"
    """Shown, not judged: how often a pause doubles an effect is chance."""


@dataclass(frozen=True, slots=True)
class Stores:
    sql: AsyncEngine
    redis: Redis


class Strategy(ABC):
    name: str
    promise = Promise.ONCE
    store = "sql"
    """Where the effect is: sql or redis."""
    per_message = True
    """One entity for each message, not for several in order."""
    pause_s = 0.0
    survives = True
    """What it knows is not lost with the process."""

    def __init__(self, stores: Stores, run: str) -> None:
        self.engine, self.redis, self.run = stores.sql, stores.redis, run
        self.make()

    async def prepare(self, messages: int) -> None:
        """Once, before the first delivery."""
        if self.store == "sql":
            await add_entities(self.engine, self.run, messages, per_message=self.per_message)

    def make(self) -> None:  # noqa: B027 - not all have any
        """The objects of the application; also in each process, and again after a death that
        memory does not survive."""

    @abstractmethod
    async def handle(self, message: ReceivedMessage, fate: Fate) -> bool:
        """True: handled now; False: a duplicate. Raises `Retry`, `Fenced`, `Died`."""

    async def effects(self) -> Counter[str]:
        return await effects_in_sql(self.engine, self.run)

    async def commit_effect(self, message: ReceivedMessage) -> None:
        async with self.engine.begin() as connection:
            await add_effect(connection, message.keys[0])


class WithoutSql(Strategy):
    name, promise = "none", Promise.NOTHING

    async def handle(self, message: ReceivedMessage, fate: Fate) -> bool:
        await fate.before()
        await self.commit_effect(message)
        await fate.inside()
        return True


class WithoutRedis(Strategy):
    name, promise, store = "none", Promise.NOTHING, "redis"

    async def handle(self, message: ReceivedMessage, fate: Fate) -> bool:
        await fate.before()
        await self.redis.hincrby(f"effect:{self.run}", message.keys[0])
        await fate.inside()
        return True

    async def effects(self) -> Counter[str]:
        return await effects_in_redis(self.redis, self.run)


class InMemory(Strategy):
    name, promise, survives = "memory", Promise.ONCE_WHILE_ALIVE, False

    def make(self) -> None:
        self.inbox = MemoryInbox(retry_delay_s=RETRY_DELAY_S)

    async def handle(self, message: ReceivedMessage, fate: Fate) -> bool:
        async def work(message: ReceivedMessage) -> None:
            await fate.before()
            await self.commit_effect(message)
            await fate.inside()

        return await self.inbox.run(message, work)


class InSql(Strategy):
    name = "inbox"

    def make(self) -> None:
        self.inbox = SqlInbox(self.engine, retry_delay_s=RETRY_DELAY_S)

    async def prepare(self, messages: int) -> None:
        await self.inbox.create_table()
        await self.inbox.start(48 * 3600)

    async def handle(self, message: ReceivedMessage, fate: Fate) -> bool:
        async def work(message: ReceivedMessage) -> None:
            await fate.before()
            await add_effect(self.inbox.connection, message.keys[0])
            await fate.inside()

        return await self.inbox.run(message, work)


class Flag(Strategy):
    name, store, pause_s = "redis flag, effects in MULTI", "redis", PAUSE_S

    def make(self) -> None:
        self.inbox = RedisInbox(
            self.redis, progress_s=PROGRESS_S, retry_delay_s=RETRY_DELAY_S, scope=self.run
        )

    async def handle(self, message: ReceivedMessage, fate: Fate) -> bool:
        async def work(message: ReceivedMessage) -> None:
            await fate.before()
            effects = await self.inbox.turn.effects()
            effects.hincrby(f"effect:{self.run}", message.keys[0])
            await fate.inside()

        return await self.inbox.run(message, work)

    async def effects(self) -> Counter[str]:
        return await effects_in_redis(self.redis, self.run)


class FlagElsewhere(Strategy):
    name, promise, pause_s = "redis flag, effect in SQL", Promise.AT_LEAST_ONCE, PAUSE_S
    make = Flag.make

    async def handle(self, message: ReceivedMessage, fate: Fate) -> bool:
        async def work(message: ReceivedMessage) -> None:
            await fate.before()
            await self.commit_effect(message)
            await fate.inside()

        return await self.inbox.run(message, work)

    inbox: RedisInbox


class States(Strategy):
    name, per_message = "state machine", False

    def make(self) -> None:
        allowed = {state: [STATES[i + 1]] for i, state in enumerate(STATES[:-1])}
        self.guard = StateMachine(entity, key=entity.c.id, state=entity.c.state, allowed=allowed)

    async def handle(self, message: ReceivedMessage, fate: Fate) -> bool:
        order = json.loads(message.body)
        async with self.engine.begin() as connection:
            await fate.before()
            to = STATES[order["step"] + 1]
            moved = await self.guard.move(connection, order["entity"], to)
            if moved:
                await add_effect(connection, message.keys[0])
                await fate.inside()
        return moved


class Versions(Strategy):
    name, per_message = "optimistic version", False

    def make(self) -> None:
        self.guard = OptimisticVersion(entity, key=entity.c.id, version=entity.c.version)

    async def handle(self, message: ReceivedMessage, fate: Fate) -> bool:
        order = json.loads(message.body)
        async with self.engine.begin() as connection:
            await fate.before()
            changed = await self.guard.update(
                connection, order["entity"], expected=order["step"], values={"paid": True}
            )
            if changed:
                await add_effect(connection, message.keys[0])
                await fate.inside()
        return changed


class Locked(Strategy):
    name = "pessimistic lock"

    def make(self) -> None:
        self.guard = RowLock(self.engine, entity, key=entity.c.id)

    async def handle(self, message: ReceivedMessage, fate: Fate) -> bool:
        key = message.keys[0]
        async with self.guard.hold(key) as held:
            await fate.before()
            if held.row.paid:
                return False
            await add_effect(held.connection, key)
            await fate.inside()
            await held.connection.execute(PAY, {"row": key})
        return True


class Fenced(Strategy):
    name, pause_s = "redis lock, fenced", PAUSE_S

    def make(self) -> None:
        self.lock = RedisLock(self.redis, hold_s=PROGRESS_S)
        self.rows = FencedRows(entity, key=entity.c.id, fence=entity.c.fence)

    async def handle(self, message: ReceivedMessage, fate: Fate) -> bool:
        key = message.keys[0]
        async with self.lock.hold(key) as held:
            async with self.engine.begin() as connection:
                row = await self.rows.claim(connection, key, held.token)
            await fate.before()
            if row.paid:
                return False
            await fate.inside()  # the lock may run out here
            async with self.engine.begin() as connection:
                await add_effect(connection, key)
                await self.rows.write(connection, key, held.token, {"paid": True})
        return True


class Unfenced(Fenced):
    """What the article shows: a lock that expires, and a store that believes whoever writes."""

    name, promise = "redis lock, not fenced", Promise.ALONE_IF_QUICK

    async def handle(self, message: ReceivedMessage, fate: Fate) -> bool:
        key = message.keys[0]
        async with self.lock.hold(key) as held:
            async with self.engine.begin() as connection:
                row = await self.rows.claim(connection, key, held.token)
            await fate.before()
            if row.paid:
                return False
            await fate.inside()
            async with self.engine.begin() as connection:
                await add_effect(connection, key)
                await connection.execute(PAY, {"row": key})
        return True


SQL: list[type[Strategy]] = [WithoutSql, InSql, States, Versions, Locked]
"""In each database."""
ONCE: list[type[Strategy]] = [InMemory, FlagElsewhere, Fenced, Unfenced]
"""With the first database alone: it adds nothing to them."""
REDIS: list[type[Strategy]] = [WithoutRedis, Flag]
BY_NAME = {(kind.name, kind.store): kind for kind in [*SQL, *ONCE, *REDIS]}
__all__ = ["BY_NAME", "ONCE", "REDIS", "SQL", "Promise", "Stores", "Strategy", "effect"]
