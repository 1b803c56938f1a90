"""The inbox and the guards in SQLite; other databases: tests/idempotence."""

from pathlib import Path

import pytest
from idempotence.ledger import connect
from idempotence.sql_checks import CHECKS, Check


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_sqlite(check: Check, tmp_path: Path) -> None:
    engine = connect(f"sqlite+aiosqlite:///{tmp_path}/test.db")
    try:
        await check(engine)
    finally:
        await engine.dispose()
