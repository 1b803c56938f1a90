"""Where a snapshot's tables lie, and whether it is whole. What an audit writes: `results`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from popmq_common.records.names import PASSES_GROUP
from popmq_pipelines.frames.partitioning import together
from popmq_pipelines.snapshot import chain as chains
from popmq_pipelines.snapshot import manifest as manifests
from popmq_pipelines.snapshot import proof, seal
from popmq_pipelines.snapshot.columns import SNAPSHOT_TABLES
from popmq_pipelines.snapshot.manifest import MANIFEST, Manifest, NoSnapshot
from popmq_pipelines.snapshot.schemas import struct


@dataclass(frozen=True, slots=True)
class OpenedSnapshot:
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


def open_snapshot(folder: Path, key: bytes | None = None) -> OpenedSnapshot:
    """Checks every file against the manifest, and those it goes on from; never raises for what is
    missing or changed. With a `key` each must be sealed with it."""
    try:
        chain = chains.follow(folder)
    except NoSnapshot as wrong:
        return OpenedSnapshot(folder, None, None, (str(wrong),))
    sha256 = manifests.digest(folder / MANIFEST)
    unproven = [text for one in chain.folders for text in _unproven(one, key)]
    return OpenedSnapshot(folder, chain.manifest, sha256, (*chain.problems, *unproven), chain)


def _unproven(folder: Path, key: bytes | None) -> list[str]:
    """What a manifest says and its files do not, and whether it is sealed."""
    manifest = manifests.load(folder)
    sealed = seal.problems(folder, (folder / MANIFEST).read_bytes(), key)
    return [f"{manifest.snapshot_id}: {text}" for text in (*sealed, *_false(folder, manifest))]


def _false(folder: Path, manifest: Manifest) -> list[str]:
    if manifests.own_problems(folder, manifest):  # told already
        return []
    return proof.problems(folder, manifest)


def read_tables(spark: SparkSession, snapshot: OpenedSnapshot) -> dict[str, DataFrame]:
    return {table: read_table(spark, snapshot, table) for table in SNAPSHOT_TABLES}


def read_table(spark: SparkSession, snapshot: OpenedSnapshot, table: str) -> DataFrame:
    assert snapshot.chain is not None  # only a whole snapshot is read
    return _read(spark, table, snapshot.chain.files(table))


def _read(spark: SparkSession, table: str, files: Sequence[Path]) -> DataFrame:
    if not files:  # an older version did not write it
        return spark.createDataFrame([], struct(table))
    return together(spark.read.schema(struct(table)).parquet(*map(str, files)))


def open_next(folder: Path, audited: Mapping[str, str], key: bytes | None = None) -> OpenedSnapshot:
    """As `open_snapshot`; but of one that goes on from a snapshot that was audited, only its own
    files count. `audited`: snapshot id → SHA-256 of the manifest that was audited."""
    try:
        manifest = manifests.load(folder)
    except NoSnapshot:
        return open_snapshot(folder, key)
    before = audited.get(manifest.previous_snapshot_id)
    if manifest.is_whole or before != manifest.previous_manifest_sha256:
        return open_snapshot(folder, key)
    problems = (*manifests.own_problems(folder, manifest), *_unproven(folder, key))
    alone = chains.Chain([folder], manifest, problems)
    return OpenedSnapshot(folder, manifest, manifests.digest(folder / MANIFEST), problems, alone)


def files(snapshot: OpenedSnapshot, table: str) -> list[Path]:
    """Of a whole snapshot, in the order of the log."""
    assert snapshot.chain is not None
    return snapshot.chain.files(table)


def record_at(snapshot: OpenedSnapshot, log_offset: int) -> dict[str, Any] | None:
    """The row of commitlog_index, or None: the snapshot has no record that begins there."""
    for file in files(snapshot, "commitlog_index"):
        found = pq.read_table(file, filters=[("log_offset", "==", log_offset)], partitioning=None)
        if found.num_rows:
            row: dict[str, Any] = found.slice(0, 1).to_pylist()[0]
            return row
    return None


def told_from(snapshot: OpenedSnapshot) -> int | None:
    """The offset of revive queue 0 from which on it is told how groups go over messages; None: the
    broker does not tell it."""
    (file,) = files(snapshot, "consume_offsets")
    asked = [("consumer_group", "==", PASSES_GROUP)]
    found = pq.read_table(file, filters=asked, columns=["next_offset"], partitioning=None)
    return min(found.column("next_offset").to_pylist(), default=None)


def journal_ms(snapshot: OpenedSnapshot, revive_offset: int) -> int | None:
    """When the record at this offset of revive queue 0 was stored, or the first one behind it."""
    asked = [("revive_queue_id", "==", 0), ("revive_offset", ">=", revive_offset)]
    for file in files(snapshot, "revive_log"):
        columns = ["store_timestamp_ms"]
        found = pq.read_table(file, filters=asked, columns=columns, partitioning=None)
        if found.num_rows:
            return int(found.column("store_timestamp_ms")[0].as_py())
    return None


def kept_from(snapshot: OpenedSnapshot) -> int:
    """The log offset that the broker had deleted everything before."""
    return manifests.load(snapshot.folder).log_start
