"""The inbox in the database of the effect: one transaction holds both.

    engine = create_async_engine("postgresql+asyncpg://…")
    inbox = SqlInbox(engine, key=message_property("order"))
    await inbox.create_table()                # once; or `inbox.table` in your migrations

    async def credit(message):                # the handler
        await inbox.connection.execute(insert(points).values(…))

Promise: each key's effect is committed once, whatever crashes, wherever duplicates come from,
however they overlap, as long as the key is remembered (`window_s`). A second consumer of the same
key waits up to `wait_s` for the first one's transaction, then gets `Retry`. Limits: the effect must
be made through `connection` (or `session`); what leaves the database, like a mail, is not covered.

    column            what
    scope, message_key    the primary key, compared byte by byte
    payload           SHA-256 of the payload, hexadecimal
    message_id        of the delivery that was handled, for people
    handled_at_ms     since 1970; older than the window is deleted, a batch at a time
"""

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Unpack

from sqlalchemy import (
    BigInteger,
    Column,
    Delete,
    MetaData,
    String,
    Table,
    bindparam,
    delete,
    select,
)
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession

from popmq.idempotence.errors import InboxTableMissing
from popmq.idempotence.inbox import Inbox, InboxOptions, KeyClaim, KeyTurn
from popmq.idempotence.sql_dialect import (
    WAIT_S,
    bound_lock_wait,
    exact_text,
    insert_new,
    is_contention,
)
from popmq.log_fields import fields

log = logging.getLogger("popmq.idempotence")
TABLE = "popmq_inbox"
SQL_WINDOW_S = 7 * 86_400.0
SCOPE_CHARS_MAX = 255
KEY_CHARS_MAX = 255
CLEAN_BATCH = 500  # rows deleted in one transaction
CLEAN_BATCHES_MAX = 200  # by one call of `forget_old`
CLEAN_EACH = 250  # handled messages between two batches: deletes twice what is added


def inbox_table(metadata: MetaData, name: str = TABLE) -> Table:
    """The table, for migrations."""
    return Table(
        name,
        metadata,
        Column("scope", exact_text(SCOPE_CHARS_MAX), primary_key=True),
        Column("message_key", exact_text(KEY_CHARS_MAX), primary_key=True),
        Column("payload", String(64), nullable=False),
        Column("message_id", String(255), nullable=False),
        Column("handled_at_ms", BigInteger, nullable=False, index=True),
    )


@dataclass(slots=True)
class SqlTurn(KeyTurn):
    connection: AsyncConnection
    """In the transaction of the inbox; do not commit it."""
    _session: AsyncSession | None = field(default=None, repr=False)

    @property
    def session(self) -> AsyncSession:
        """An ORM session in the same transaction; flushed at the end. Its commit() does not."""
        if self._session is None:
            self._session = AsyncSession(self.connection, expire_on_commit=False)
        return self._session

    async def flush(self) -> None:
        if self._session is not None:
            await self._session.flush()

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()


class SqlInbox(Inbox[SqlTurn]):
    def __init__(
        self,
        engine: AsyncEngine,
        *,
        table: str = TABLE,
        window_s: float = SQL_WINDOW_S,
        wait_s: float = WAIT_S,
        **options: Unpack[InboxOptions],
    ) -> None:
        super().__init__(window_s=window_s, **options)
        self.table = inbox_table(MetaData(), table)
        self._known_payload = select(self.table.c.payload).where(
            self.table.c.scope == bindparam("of"), self.table.c.message_key == bindparam("key")
        )
        self._engine = engine
        self._wait_s = wait_s
        self._since_cleaned = 0

    @property
    def connection(self) -> AsyncConnection:
        """For the handler: the transaction of its message. Raises `OutsideTurn`."""
        return self.turn.connection

    @property
    def session(self) -> AsyncSession:
        """For the handler: an ORM session in that transaction. Raises `OutsideTurn`."""
        return self.turn.session

    async def create_table(self) -> None:
        """Make it unless it is there."""
        async with self._engine.begin() as connection:
            await connection.run_sync(self.table.metadata.create_all)

    async def start(self, retention_s: float | None) -> None:
        """Also raises `InboxTableMissing`, and deletes one batch of what is too old."""
        await super().start(retention_s)
        async with self._engine.connect() as connection:
            there = await connection.run_sync(
                lambda sync: sync.dialect.has_table(sync, self.table.name)
            )
        if not there:
            raise InboxTableMissing(self.table.name)
        await self.forget_old(batches_max=1)

    async def forget_old(self, *, batches_max: int = CLEAN_BATCHES_MAX) -> int:
        """Delete keys older than the window, `CLEAN_BATCH` in a transaction; how many. The inbox
        does it by itself, one batch for every `CLEAN_EACH` messages."""
        oldest_ms = int((self._clock() - self.window_s) * 1000)
        deleted = 0
        for _ in range(batches_max):
            count = await self._forget_batch(oldest_ms)
            deleted += count
            if count < CLEAN_BATCH:
                break
        return deleted

    async def _forget_batch(self, oldest_ms: int) -> int:
        table = self.table
        old = (
            select(table.c.scope, table.c.message_key)
            .where(table.c.handled_at_ms < oldest_ms)
            .order_by(table.c.handled_at_ms)
            .limit(CLEAN_BATCH)
        )
        async with self._engine.begin() as connection:
            await bound_lock_wait(connection, self._wait_s)
            by_scope: dict[str, list[str]] = {}
            for scope, key in await connection.execute(old):
                by_scope.setdefault(scope, []).append(key)
            for scope, keys in by_scope.items():
                await connection.execute(_these(table, scope, keys, oldest_ms))
        return sum(map(len, by_scope.values()))

    @asynccontextmanager
    async def _turn(self, claim: KeyClaim) -> AsyncIterator[SqlTurn]:
        try:
            async with self._engine.begin() as connection:
                await bound_lock_wait(connection, self._wait_s)
                turn = SqlTurn(await self._claimed(connection, claim), connection)
                try:
                    yield turn
                    await turn.flush()
                finally:
                    await turn.close()
        except DBAPIError as failed:
            if is_contention(failed):
                raise self._busy(claim) from failed
            raise
        if turn.first and claim.key is not None:
            await self._clean_now_and_then()

    async def _claimed(self, connection: AsyncConnection, claim: KeyClaim) -> bool:
        """True: the key is new, and this transaction's."""
        if claim.key is None:
            return True
        row = {
            "scope": claim.scope,
            "message_key": claim.key,
            "payload": claim.payload,
            "message_id": claim.message.message_id[:255],
            "handled_at_ms": int(self._clock() * 1000),
        }
        if await insert_new(connection, self.table, row):
            return True
        place = {"of": claim.scope, "key": claim.key}
        payload = (await connection.execute(self._known_payload, place)).scalar_one_or_none()
        if payload is None:  # deleted meanwhile, or not visible to this transaction yet
            raise self._busy(claim)
        self._known(claim, payload)
        return False

    async def _clean_now_and_then(self) -> None:
        self._since_cleaned += 1
        if self._since_cleaned < CLEAN_EACH:
            return
        self._since_cleaned = 0
        try:
            await self.forget_old(batches_max=1)
        except DBAPIError as failed:  # the message is handled; another turn will clean
            more = fields(None, failed)
            log.warning("%s: old keys were not deleted: %s", self.table.name, failed, extra=more)


def _these(table: Table, scope: str, keys: Sequence[str], oldest_ms: int) -> Delete:
    return delete(table).where(
        table.c.scope == scope,
        table.c.message_key.in_(keys),
        table.c.handled_at_ms < oldest_ms,
    )
