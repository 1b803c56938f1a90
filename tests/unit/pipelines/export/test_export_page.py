"""docs/export.md tells every table with every column, in their order."""

from pathlib import Path

import pytest

from popmq_pipelines.snapshot.columns import SNAPSHOT_TABLES

PAGE = Path(__file__).parents[4] / "docs" / "export.md"


@pytest.mark.parametrize("table", SNAPSHOT_TABLES)
def test_the_page_has_the_table_as_it_is(table: str) -> None:
    columns = SNAPSHOT_TABLES[table]
    told = ", ".join(f"`{column.name}`" + "?" * column.nullable for column in columns)
    (row,) = [line for line in PAGE.read_text().splitlines() if line.startswith(f"| `{table}` |")]
    assert row.endswith(f"| {told} |")
