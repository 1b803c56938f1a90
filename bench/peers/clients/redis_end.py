"""redis-py: a stream and a consumer group."""

import asyncio
import os
from collections.abc import Sequence
from typing import Any

from redis.asyncio import BlockingConnectionPool, Redis

from peers.clients.end import GROUP, POLL_S, PREFETCH, Take

FIELD = b"body"
CONNECTIONS_MAX, POOL_S = 256, 30.0
"""Each call under way has a connection, or waits for one; the default pool refuses the call."""


class RedisEnd:
    def __init__(self, port: int, kind: str) -> None:
        pool = BlockingConnectionPool(
            host="127.0.0.1", port=port, max_connections=CONNECTIONS_MAX, timeout=POOL_S
        )
        self._redis: Any = Redis.from_pool(pool)
        self._place = ""

    async def create(self, place: str) -> None:
        await self._redis.xgroup_create(place, GROUP, id="0", mkstream=True)

    async def open(self, place: str) -> None:
        self._place = place

    async def send(self, body: bytes) -> None:
        await self._redis.xadd(self._place, {FIELD: body})

    async def send_many(self, bodies: Sequence[bytes]) -> None:
        pipeline = self._redis.pipeline(transaction=False)
        for body in bodies:
            pipeline.xadd(self._place, {FIELD: body})
        await pipeline.execute()

    async def receive(self, take: Take, over: asyncio.Event, *, steady: bool) -> None:
        me = f"consumer-{os.getpid()}"
        where, wait_ms = {self._place: ">"}, int(POLL_S * 1000)
        while not over.is_set():
            found = await self._redis.xreadgroup(GROUP, me, where, count=PREFETCH, block=wait_ms)
            entries = _entries(found)
            for _, fields in entries:
                take(fields[FIELD])
            if entries:
                await self._redis.xack(self._place, GROUP, *(name for name, _ in entries))

    async def close(self) -> None:
        await self._redis.aclose()


def _entries(found: Any) -> list[tuple[bytes, dict[bytes, bytes]]]:
    """Of the one stream. RESP3 answers with a map, RESP2 with a list of pairs."""
    if isinstance(found, dict):
        return [entry for batches in found.values() for batch in batches for entry in batch]
    return [entry for _, batch in found or () for entry in batch]
