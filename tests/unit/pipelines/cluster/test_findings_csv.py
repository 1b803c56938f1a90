"""All findings as a file for spreadsheets."""

import csv
from pathlib import Path
from typing import Any

from popmq_pipelines.cluster import findings_csv
from popmq_pipelines.cluster.owners import GROUP, Owners
from popmq_pipelines.snapshot.columns import names


def finding(**told: Any) -> dict[str, Any]:
    return {**dict.fromkeys(names("recon_gaps")), "kind": "skipped", "topic": "orders", **told}


def written(path: Path, *found: dict[str, Any]) -> list[dict[str, str]]:
    owners = Owners({(GROUP, "billing"): "money"})
    count = findings_csv.write(path, [("broker-a", row) for row in found], owners)
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    assert count == len(rows)
    return rows


def test_a_finding_with_its_owner_and_time(tmp_path: Path) -> None:
    (row,) = written(
        tmp_path / "f.csv",
        finding(consumer_group="billing", queue_id=0, queue_offset=7, due_ms=1_700_000_000_123),
    )
    assert (row["broker"], row["owner"], row["queue_offset"]) == ("broker-a", "money", "7")
    assert row["due"] == "2023-11-14T22:13:20.123+00:00"
    assert row["generation"] == ""
    assert list(tmp_path.iterdir()) == [tmp_path / "f.csv"]


def test_what_a_spreadsheet_would_compute_is_a_text(tmp_path: Path) -> None:
    (row,) = written(tmp_path / "f.csv", finding(topic="-1"))
    assert row["topic"] == "'-1"


def test_a_time_beyond_all_calendars_is_told_as_it_is(tmp_path: Path) -> None:
    (row,) = written(tmp_path / "f.csv", finding(due_ms=1 << 62))
    assert row["due"] == f"{1 << 62} ms"
