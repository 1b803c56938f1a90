"""Read a snapshot: the only place that knows where tables lie. Checks it against its manifest."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from popmq_pipelines.export import MANIFEST
from popmq_pipelines.tables import SCHEMA_VERSION, TABLES, ddl


@dataclass(frozen=True, slots=True)
class Snapshot:
    folder: Path
    manifest: dict[str, Any]
    problems: tuple[str, ...]
    """Why it is not whole; empty: it is."""

    @property
    def as_of_ms(self) -> int:
        return int(self.manifest["asOfMs"])

    def table(self, spark: SparkSession, name: str) -> DataFrame:
        path = str(self.folder / f"{name}.parquet")
        return spark.read.schema(ddl(name)).parquet(path)


def open_snapshot(folder: Path) -> Snapshot:
    path = folder / MANIFEST
    if not path.exists():
        return Snapshot(folder, {}, (f"{MANIFEST} is missing: the export did not finish",))
    manifest = json.loads(path.read_text())
    problems = []
    if manifest.get("schemaVersion") != SCHEMA_VERSION:
        problems.append(f"schema version {manifest.get('schemaVersion')}, not {SCHEMA_VERSION}")
    if not manifest.get("records"):
        problems.append("the log holds no record: nothing was audited")
    for name in TABLES:
        problems += _file_problems(folder, name, manifest.get("files", {}).get(name))
    return Snapshot(folder, manifest, tuple(problems))


def _file_problems(folder: Path, name: str, told: dict[str, Any] | None) -> list[str]:
    if told is None:
        return [f"the manifest does not name {name}"]
    path = folder / told["file"]
    if not path.exists():
        return [f"{path.name} is missing"]
    if hashlib.sha256(path.read_bytes()).hexdigest() != told["sha256"]:
        return [f"{path.name} is not the file that was exported"]
    return []
