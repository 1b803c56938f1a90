"""All findings of all brokers as a CSV file, for spreadsheets."""

import csv
import os
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from popmq_pipelines.cluster.owners import Owners

COLUMNS: Final = (
    "broker",
    "kind",
    "topic",
    "consumer_group",
    "owner",
    "queue_id",
    "queue_offset",
    "offset_count",
    "generation",
    "pop_time_ms",
    "due",
    "log_offset",
)
_FORMULA: Final = ("=", "+", "-", "@")


def write(path: Path, findings: Iterable[tuple[str, Mapping[str, Any]]], owners: Owners) -> int:
    """`findings`: broker and finding. In place at once; returns how many there are."""
    fresh = path.with_name(f".{path.name}.tmp")
    count = 0
    with open(fresh, "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(COLUMNS)
        for broker, found in findings:
            rows.writerow(map(_cell, _row(broker, found, owners)))
            count += 1
    os.replace(fresh, path)
    return count


def _row(broker: str, found: Mapping[str, Any], owners: Owners) -> list[Any]:
    topic, group = found["topic"] or "", found["consumer_group"] or ""
    whose = {"broker": broker, "owner": owners.of_taken(topic, group), "due": _due(found)}
    return [whose[name] if name in whose else found.get(name) for name in COLUMNS]


def _due(found: Mapping[str, Any]) -> str | None:
    due_ms = found.get("due_ms")
    if due_ms is None:
        return None
    try:
        return datetime.fromtimestamp(due_ms / 1_000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):  # a lease of a thousand years is possible
        return f"{due_ms} ms"


def _cell(value: object) -> object:
    """A spreadsheet takes a text that begins like a formula for one."""
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return "" if value is None else value
