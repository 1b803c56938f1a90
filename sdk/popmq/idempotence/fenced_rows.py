"""The store's half of a lock with fencing tokens: it refuses whoever holds an older token.

    locks = RedisLock(redis)
    orders = FencedRows(order, key=order.c.id, fence=order.c.fence)

    async with locks.hold("order-7") as held:
        async with engine.begin() as connection:
            row = await orders.claim(connection, "order-7", held.token)
        if not row.paid:
            ...                            # slow work, no transaction open
            async with engine.begin() as connection:
                await orders.write(connection, "order-7", held.token, {"paid": True})

`claim` must be committed before the work: from then on a holder with an older token, who may have
looked at the row before, can write no more. Without it both would have seen `paid` false.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Column, Row, Table, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from popmq.idempotence.counts import IdempotenceCounts
from popmq.idempotence.errors import Fenced, RowMissing
from popmq.idempotence.sql_dialect import contention_is_retry


class FencedRows:
    def __init__(self, table: Table, *, key: Column[Any], fence: Column[Any]) -> None:
        """`fence`: BIGINT NOT NULL DEFAULT 0, changed by this guard alone."""
        self.counts = IdempotenceCounts()
        self._table, self._key, self._fence = table, key, fence

    async def claim(self, connection: AsyncConnection, row: object, token: int) -> Row[Any]:
        """The row as it is now; older tokens are shut out. Raises `Fenced`, `RowMissing`."""
        mine = (
            update(self._table)
            .where(self._key == row, self._fence <= token)
            .values({self._fence.name: token})
        )
        await self._changed(connection, mine, row, token)
        return (await connection.execute(select(self._table).where(self._key == row))).one()

    async def write(
        self, connection: AsyncConnection, row: object, token: int, values: Mapping[str, Any]
    ) -> None:
        """Change the row that was claimed with this token. Raises `Fenced`, and nothing of the
        transaction may be kept then: let the error leave the block."""
        change = (
            update(self._table)
            .where(self._key == row, self._fence == token)
            .values({**values, self._fence.name: token})
        )
        await self._changed(connection, change, row, token)
        self.counts.handled += 1

    async def _changed(
        self, connection: AsyncConnection, change: Any, row: object, token: int
    ) -> None:
        async with contention_is_retry(self.counts, f"{self._table.name} {row!r}"):
            if (await connection.execute(change)).rowcount == 1:
                return
            there = await connection.execute(select(self._fence).where(self._key == row))
        if there.scalar_one_or_none() is None:
            raise RowMissing(self._table.name, row)
        self.counts.late += 1
        raise Fenced(self._table.name, row, token)
