"""The inbox and the guards in PostgreSQL and MariaDB, as in SQLite."""

import pytest
from idempotence.sql_checks import CHECKS, Check
from sqlalchemy.ext.asyncio import AsyncEngine


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_database(check: Check, engine: AsyncEngine) -> None:
    await check(engine)
