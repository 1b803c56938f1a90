"""The only place that knows where tables lie and in which format."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from popmq_pipelines import chain as chains
from popmq_pipelines import manifest as manifests
from popmq_pipelines.columns import AUDIT_TABLES, SNAPSHOT_TABLES
from popmq_pipelines.manifest import MANIFEST, Manifest, NoSnapshot
from popmq_pipelines.schemas import struct

LARGE: Final = frozenset({"recon_message_state"})
"""Grows with the log; the others fit into one file."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    folder: Path
    manifest: Manifest | None
    manifest_sha256: str | None
    problems: tuple[str, ...]
    """Why it is not whole; empty: it is."""
    chain: chains.Chain | None = None
    """The snapshots it goes on from, and itself."""

    @property
    def id(self) -> str:
        return (
            self.manifest.snapshot_id if self.manifest is not None else self.folder.resolve().name
        )

    @property
    def whole(self) -> Manifest:
        """The manifest of a snapshot without problems."""
        assert self.manifest is not None
        assert not self.problems
        return self.manifest


def open_snapshot(folder: Path) -> Snapshot:
    """Checks every file against the manifest, and those it goes on from; never raises for what is
    missing or changed."""
    try:
        chain = chains.follow(folder)
    except NoSnapshot as wrong:
        return Snapshot(folder, None, None, (str(wrong),))
    sha256 = manifests.digest(folder / MANIFEST)
    return Snapshot(folder, chain.manifest, sha256, tuple(chain.problems), chain)


def read_tables(spark: SparkSession, snapshot: Snapshot) -> dict[str, DataFrame]:
    chain = snapshot.chain
    assert chain is not None  # only a whole snapshot is read
    return {
        table: spark.read.schema(struct(table)).parquet(*map(str, chain.files(table)))
        for table in SNAPSHOT_TABLES
    }


def clear_audit(out: Path | None, snapshot_id: str) -> None:
    """Remove the results of an earlier run on the snapshot, its verdict first."""
    if out is None:
        return
    for table in sorted(AUDIT_TABLES, key=lambda name: name != "recon_run"):
        shutil.rmtree(_partition(out, table, snapshot_id), ignore_errors=True)


def write_audit(out: Path | None, snapshot_id: str, tables: dict[str, DataFrame]) -> None:
    """One partition per snapshot and table; `recon_run` last, it says that the rest is there."""
    if out is None:
        return
    for table in sorted(tables, key=lambda name: name == "recon_run"):
        frame = tables[table] if table in LARGE else tables[table].coalesce(1)
        frame.write.mode("overwrite").parquet(str(_partition(out, table, snapshot_id)))


def run_frame(spark: SparkSession, row: dict[str, Any]) -> DataFrame:
    return spark.createDataFrame([row], schema=struct("recon_run"))


def collect(frame: DataFrame) -> list[dict[str, Any]]:
    """For results that are known to be small."""
    return [row.asDict() for row in frame.collect()]


def _partition(out: Path, table: str, snapshot_id: str) -> Path:
    return out / table / f"snapshot_id={snapshot_id}"
