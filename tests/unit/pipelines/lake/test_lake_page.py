"""docs/lake.md: its columns are those of the lake; its queries run in DuckDB and find something."""

import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from harness.audit_folder import FIRST_MS, AuditFolder, row

from popmq_pipelines.__main__ import main
from popmq_pipelines.lake import lake_rows
from popmq_pipelines.snapshot.columns import AUDIT_TABLES

PAGE = (Path(__file__).parents[4] / "docs/lake.md").read_text()
QUERIES = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
READ, AS_OF = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
TAKEN = {"topic": "orders", "consumer_group": "billing"}


def columns() -> str:
    """As the page has them."""
    lines = ["| table | columns |", "| --- | --- |"]
    in_front = {name for name, _ in lake_rows.WHOSE}
    for table in AUDIT_TABLES:
        own = [name for name in lake_rows.schema(table).names if name not in in_front]
        lines.append(f"| `{table}` | {', '.join(f'`{name}`' for name in own)} |")
    return "\n".join(lines)


def test_the_page_has_each_column() -> None:
    told = PAGE.partition("<!-- columns: begin -->\n")[2].partition("\n<!-- columns: end -->")[0]
    assert told == columns()


def audited(folder: AuditFolder) -> None:
    held = {"state": "in_flight", "until_ms": FIRST_MS + 1, "lease_count": 3}
    slow = {"span": "store to ack", "p99_ms": 2_000, "minute_ms": FIRST_MS}
    folder.run(
        {
            "recon_message_state": [row("recon_message_state", **TAKEN, **held)],
            "recon_gaps": [row("recon_gaps", kind="skipped", **TAKEN, offset_count=2)],
            "recon_balance": [row("recon_balance", **TAKEN, minute_ms=FIRST_MS, dead=4)],
            "recon_traffic": [row("recon_traffic", topic="orders", minute_ms=FIRST_MS, stored=9)],
            "recon_latency": [row("recon_latency", **TAKEN, **slow)],
            "recon_revive": [row("recon_revive", queue_id=1, lag_count=5)],
        }
    )
    folder.run({"recon_revive": [row("recon_revive", queue_id=1, lag_count=7)]})


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The names that the page's first program leaves."""
    monkeypatch.chdir(tmp_path)
    folder = AuditFolder(tmp_path / "audit")
    audited(folder)
    assert main(["lake", "--out", "audit", "--into", "lake"]) == 0
    names: dict[str, Any] = {}
    exec(READ, names)
    yield names
    names["con"].close()


def test_there_are_ten_queries() -> None:
    assert len(QUERIES) >= 10


@pytest.mark.parametrize("query", QUERIES, ids=[query.split("\n")[0] for query in QUERIES])
def test_a_query_runs_and_finds_something(lake: dict[str, Any], query: str) -> None:
    con: duckdb.DuckDBPyConnection = lake["con"]
    assert con.execute(query).fetchall()


def test_what_queries_say(lake: dict[str, Any]) -> None:
    (revive,) = [query for query in QUERIES if "recon_revive" in query]
    assert lake["con"].execute(revive).fetchall() == [("broker-a", 1, 7, 0)]
    (dead,) = [query for query in QUERIES if "dead_letters" in query]
    assert [found[1:] for found in lake["con"].execute(dead).fetchall()] == [("billing", 4)]


def test_findings_as_they_were_after_the_first_run(lake: dict[str, Any], tmp_path: Path) -> None:
    folder = AuditFolder(tmp_path / "later", broker="broker-b")
    folder.run({"recon_gaps": [row("recon_gaps", kind="message missing", topic="new")]})
    assert main(["lake", "--out", "later", "--into", "lake"]) == 0
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(AS_OF, {})
    assert "skipped" in printed.getvalue()
    assert "message missing" not in printed.getvalue()
