"""Guard: optimistic version. The message says which version of the row it changes.

    accounts = OptimisticVersion(account, key=account.c.id, version=account.c.version)
    async with engine.begin() as connection:
        if await accounts.update(connection, "a-7", expected=41, values={"balance": 10}):
            ...                            # what follows from it, in the same transaction

Promise: of all messages that expect version 41 one changes the row, and it has version 42 then. A
duplicate finds a newer version. Nobody waits for a lock. Limits: the message must carry the version
(its sender read it, or counts its messages). A handler that reads the version itself and then
updates is safe against another that does so at the same time, but a duplicate that comes later
reads the new version and does it again: take an inbox for that.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Column, Table, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from popmq.idempotence.counts import IdempotenceCounts
from popmq.idempotence.errors import RowMissing
from popmq.idempotence.inbox import RETRY_DELAY_S
from popmq.idempotence.sql_dialect import contention_is_retry
from popmq.outcome import Retry


class OptimisticVersion:
    def __init__(self, table: Table, *, key: Column[Any], version: Column[Any]) -> None:
        """`version`: a whole number that only this guard changes."""
        self.counts = IdempotenceCounts()
        self._table, self._key, self._version = table, key, version

    async def update(
        self, connection: AsyncConnection, row: object, *, expected: int, values: Mapping[str, Any]
    ) -> bool:
        """True: changed now, and its version is `expected` + 1. False: a duplicate, the row is
        further. Raises `Retry` when it is not that far yet, `RowMissing`."""
        change = (
            update(self._table)
            .where(self._key == row, self._version == expected)
            .values({**values, self._version.name: expected + 1})
        )
        async with contention_is_retry(self.counts, f"{self._table.name} {row!r}"):
            if (await connection.execute(change)).rowcount == 1:
                self.counts.handled += 1
                return True
            found = await connection.execute(select(self._version).where(self._key == row))
        current = found.scalar_one_or_none()
        if current is None:
            raise RowMissing(self._table.name, row)
        if current > expected:
            self.counts.suppressed += 1
            return False
        self.counts.in_progress += 1
        reason = f"{self._table.name} {row!r} has version {current}, {expected} is to be changed"
        raise Retry(RETRY_DELAY_S, reason, counted=False)
