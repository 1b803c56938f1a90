"""Where effects are counted: a table without a unique key, so that nothing but the strategy keeps
duplicates away; and a hash in Redis."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from idempotence.plan import STEPS
from redis.asyncio import Redis
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Integer,
    MetaData,
    String,
    Table,
    event,
    func,
    insert,
    select,
)
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

STATES = ("created", "assigned", "departed", "arrived", "aboard", "delivered")
INSERTED_AT_ONCE = 500
POOL = 32
metadata = MetaData()
effect = Table(
    "effect",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("run", String(80), nullable=False, index=True),
    Column("message", String(120), nullable=False),
)
_ADD = insert(effect).inline()
entity = Table(
    "entity",
    metadata,
    Column("id", String(120), primary_key=True),
    Column("state", String(20), nullable=False),
    Column("version", Integer, nullable=False),
    Column("paid", Boolean, nullable=False),
    Column("fence", BigInteger, nullable=False),
)


def connect(url: str) -> AsyncEngine:
    """`url`: as the servers of this folder give it, or sqlite+aiosqlite."""
    if not url.startswith("sqlite"):
        return create_async_engine(url, pool_size=POOL)
    engine = create_async_engine(url, connect_args={"timeout": 20})

    @event.listens_for(engine.sync_engine, "connect")
    def fast(raw: Any, record: Any) -> None:
        cursor = raw.cursor()
        cursor.execute("PRAGMA journal_mode = WAL")
        cursor.execute("PRAGMA synchronous = OFF")  # no power failures here
        cursor.close()

    return engine


async def prepare(engine: AsyncEngine) -> None:
    async with engine.begin() as connection:
        await connection.run_sync(metadata.create_all)


async def add_entities(engine: AsyncEngine, run: str, messages: int, *, per_message: bool) -> None:
    """`per_message`: one row for each message; otherwise one for STEPS of them."""
    count = messages if per_message else -(-messages // STEPS)
    rows = [
        {"id": f"{run}:{i}", "state": STATES[0], "version": 0, "paid": False, "fence": 0}
        for i in range(count)
    ]
    async with engine.begin() as connection:
        for start in range(0, count, INSERTED_AT_ONCE):
            await connection.execute(insert(entity), rows[start : start + INSERTED_AT_ONCE])


async def add_effect(connection: AsyncConnection, key: str) -> None:
    run = key.rpartition(":")[0]
    await connection.execute(_ADD, {"run": run, "message": key})


async def effects_in_sql(engine: AsyncEngine, run: str) -> Counter[str]:
    wanted = select(effect.c.message, func.count()).where(effect.c.run == run)
    async with engine.connect() as connection:
        found: Sequence[Any] = (await connection.execute(wanted.group_by(effect.c.message))).all()
    return Counter({message: int(count) for message, count in found})


async def effects_in_redis(redis: Redis, run: str) -> Counter[str]:
    found: Mapping[Any, Any] = await redis.hgetall(f"effect:{run}")
    return Counter({key.decode(): int(count) for key, count in found.items()})
