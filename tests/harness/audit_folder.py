"""What an audit leaves on disk, written without Spark: tables and ledger."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from popmq_pipelines.snapshot.columns import AUDIT_TABLES, Column
from popmq_pipelines.tables import ledger as ledgers
from popmq_pipelines.tables.ledger import Epoch, Ledger

FIRST_MS = 1_767_225_600_000
"""2026-01-01 00:00 UTC."""
HOUR_MS = 3_600_000
_ARROW = {"string": pa.string(), "int": pa.int32(), "bigint": pa.int64()}
_PLAIN: Mapping[str, Any] = {"string": "", "int": 0, "bigint": 0}


def row(table: str, **values: Any) -> dict[str, Any]:
    """The columns that are not named have a plain value."""
    return {**{one.name: _plain(one) for one in AUDIT_TABLES[table]}, **values}


def _plain(column: Column) -> Any:
    return None if column.nullable else _PLAIN[column.kind]


@dataclass
class AuditFolder:
    out: Path
    broker: str = "broker-a"
    epochs: list[Epoch] = field(default_factory=list)

    def run(self, tables: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
        """The next snapshot's epoch, an hour after the last one; its id."""
        number = len(self.epochs) + 1
        name, as_of_ms = f"{self.broker}-{number}", FIRST_MS + number * HOUR_MS
        for table in AUDIT_TABLES:
            self.put(table, name, tables.get(table, ()))
        told = row("recon_run", verdict="PASS", broker=self.broker, as_of_ms=as_of_ms)
        self.put("recon_run", name, [told])
        self.epochs.append(
            Epoch(
                number=number,
                snapshot_id=name,
                manifest_sha256="",
                log_from=0,
                log_end=number,
                log_first_ms=FIRST_MS,
                latest_ms=as_of_ms,
                last_row=None,
                lease_count=0,
                as_of_ms=as_of_ms,
            )
        )
        self._save()
        return name

    def put(self, table: str, snapshot_id: str, rows: Sequence[Mapping[str, Any]]) -> None:
        folder = self.out / table / f"snapshot_id={snapshot_id}"
        folder.mkdir(parents=True, exist_ok=True)
        schema = pa.schema([(one.name, _ARROW[one.kind]) for one in AUDIT_TABLES[table]])
        found = pa.Table.from_pylist([dict(one) for one in rows], schema=schema)
        pq.write_table(found, folder / "part-00000.parquet")

    def forget_first(self) -> None:
        """As `compact` does."""
        gone = self.epochs.pop(0)
        self._save()
        for table in AUDIT_TABLES:
            for file in (self.out / table / f"snapshot_id={gone.snapshot_id}").glob("*"):
                file.unlink()

    def _save(self) -> None:
        ledgers.save(self.out / "ledger", Ledger(self.broker, tuple(self.epochs)))
