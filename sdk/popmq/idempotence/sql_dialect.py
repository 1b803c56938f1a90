"""What PostgreSQL, MySQL, MariaDB and SQLite say differently."""

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Any

from sqlalchemy import Insert, String, Table
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.types import TypeEngine

from popmq.idempotence.counts import IdempotenceCounts
from popmq.idempotence.inbox import RETRY_DELAY_S
from popmq.outcome import Retry

WAIT_S = 5.0  # for a row that another transaction holds
_CONTENTION_SQLSTATES = {"55P03", "40P01", "40001"}  # lock time-out, deadlock, serialization
_CONTENTION_MYSQL = {1205, 1213, 1020, 3572}  # lock time-out, deadlock, changed since read, NOWAIT
_CONTENTION_SQLITE = {"database is locked", "database table is locked"}
_MYSQL = ("mysql", "mariadb")
_PASSES_OVER: dict[str, Any] = {"postgresql": postgresql.insert, "sqlite": sqlite.insert}
"""Databases that can insert a row unless it is there."""
STATEMENTS_MAX = 64


def exact_text(chars: int) -> TypeEngine[str]:
    """Compared byte by byte. MySQL's default takes "A" for "a", and even this one "a " for "a":
    keys that end with a space are stored as hashes (`key.bounded`)."""
    binary = mysql.VARCHAR(chars, charset="utf8mb4", collation="utf8mb4_bin")
    return String(chars).with_variant(binary, *_MYSQL)


async def insert_new(connection: AsyncConnection, table: Table, row: dict[str, Any]) -> bool:
    """False: a row with this primary key is there; one of a transaction that is under way was
    waited for. The transaction goes on in either case."""
    name = connection.dialect.name
    new = _new_row(table, name)
    if name in _PASSES_OVER:
        return (await connection.execute(new, row)).rowcount == 1
    try:
        if name in _MYSQL:  # it takes back the statement alone; a deadlock all, savepoints too
            await connection.execute(new, row)
        else:
            async with connection.begin_nested():
                await connection.execute(new, row)
    except IntegrityError:
        return False
    return True


@lru_cache(STATEMENTS_MAX)
def _new_row(table: Table, dialect: str) -> Insert:
    """Made once: SQLAlchemy takes longer to look at a new statement than to find one it knows."""
    insert = _PASSES_OVER.get(dialect)
    if insert is None:
        return table.insert()
    keys = [column.name for column in table.primary_key]
    passes_over: Insert = insert(table).on_conflict_do_nothing(index_elements=keys)
    return passes_over


async def bound_lock_wait(connection: AsyncConnection, wait_s: float) -> None:
    """No statement of this transaction waits longer for a lock. MySQL (whole seconds) and SQLite
    keep it for the connection's life in its pool."""
    name = connection.dialect.name
    if name == "postgresql":
        await connection.exec_driver_sql(f"SET LOCAL lock_timeout = {int(wait_s * 1000)}")
        return
    raw = await connection.get_raw_connection()
    if raw.info.get("popmq_wait_s") == wait_s:
        return
    if name in _MYSQL:
        await connection.exec_driver_sql(
            f"SET SESSION innodb_lock_wait_timeout = {max(1, math.ceil(wait_s))}"
        )
    elif name == "sqlite":
        await connection.exec_driver_sql(f"PRAGMA busy_timeout = {int(wait_s * 1000)}")
    raw.info["popmq_wait_s"] = wait_s


def is_contention(failed: DBAPIError) -> bool:
    """Another transaction was in the way; the same one may succeed a little later."""
    cause = failed.orig
    if getattr(cause, "sqlstate", None) in _CONTENTION_SQLSTATES:
        return True
    arguments = getattr(cause, "args", ())
    first = arguments[0] if arguments else None
    return first in _CONTENTION_MYSQL or first in _CONTENTION_SQLITE


@asynccontextmanager
async def contention_is_retry(counts: IdempotenceCounts, what: str) -> AsyncIterator[None]:
    """A lock time-out or a deadlock inside becomes `Retry`, uncounted."""
    try:
        yield
    except DBAPIError as failed:
        if not is_contention(failed):
            raise
        counts.in_progress += 1
        raise Retry(
            RETRY_DELAY_S, f"{what} is held by another transaction", counted=False
        ) from failed
