"""Guard: pessimistic lock. The row is locked before it is looked at.

    orders = RowLock(engine, order, key=order.c.id)
    async with orders.hold("order-7") as held:
        if held.row.paid:
            ...                            # a duplicate
        else:
            await held.connection.execute(update(order).where(order.c.id == "order-7")…)

Promise: between the look and the commit nobody else changes the row; others wait up to `wait_s`,
then get `Retry`. Limits: it makes one wait for the other, it does not know duplicates: the row must
tell (paid or not), and the change be made through `connection`. SQLite has no locks of rows: BEGIN
IMMEDIATE locks the database for writers.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, Row, Table, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from popmq.idempotence.counts import IdempotenceCounts
from popmq.idempotence.errors import RowMissing
from popmq.idempotence.sql_dialect import WAIT_S, bound_lock_wait, contention_is_retry


@dataclass(frozen=True, slots=True)
class HeldRow:
    connection: AsyncConnection
    """In the transaction that holds the lock; committed when the block is left."""
    row: Row[Any]
    """As it is now, by column names."""


class RowLock:
    def __init__(
        self, engine: AsyncEngine, table: Table, *, key: Column[Any], wait_s: float = WAIT_S
    ) -> None:
        self.counts = IdempotenceCounts()
        self._engine, self._table, self._key, self._wait_s = engine, table, key, wait_s

    @asynccontextmanager
    async def hold(self, row: object) -> AsyncIterator[HeldRow]:
        """The transaction is committed at the end, rolled back after an error. Raises `Retry` when
        somebody else holds the row for too long, `RowMissing`."""
        async with (
            contention_is_retry(self.counts, f"{self._table.name} {row!r}"),
            self._engine.begin() as connection,
        ):
            await bound_lock_wait(connection, self._wait_s)
            if connection.dialect.name == "sqlite":
                await connection.exec_driver_sql("BEGIN IMMEDIATE")
            wanted = select(self._table).where(self._key == row).with_for_update()
            found = (await connection.execute(wanted)).one_or_none()
            if found is None:
                raise RowMissing(self._table.name, row)
            yield HeldRow(connection, found)
        self.counts.handled += 1
