"""The manifest of a snapshot: what was exported, from when and where to, and each file's hash.

    manifest.json   schema_version, code_version
                    snapshot_id, broker, cluster      the id: letters, digits, dot, dash, underscore
                    previous_snapshot_id, previous_manifest_sha256
                                                      the snapshot this one goes on from, in the
                                                      folder beside; empty: it is whole
                    log_start                         log offset where the broker's log began
                    log_from, log_end                 log offsets: all whole records between them
                    log_last, log_last_sha256         the last record: where it begins, its bytes
                    log_first_ms                      store time of the first record
                    offsets_log_end                   the log's end when the offsets were taken
                    as_of_ms, running_since_ms        see `export`; 0: no broker was running
                    taken_ms                          when the export began; 0: not told, by older
                                                      versions
                    problems                          texts; empty: nothing was left out
                    files                             table → file, rows, bytes, sha256,
                                                      log_offset_min/max, queue_offset_min/max

It is written last and put in place at once: without it there is no snapshot. `chain` puts together
what a snapshot and those it goes on from tell.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from popmq_pipelines.snapshot.columns import ADDED_TABLES, SCHEMA_VERSION, SNAPSHOT_TABLES

MANIFEST: Final = "manifest.json"
_LEGAL_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")


class NoSnapshot(Exception):
    """The folder holds no manifest that can be read: the export did not finish."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    schema_version: int
    code_version: str
    snapshot_id: str
    broker: str
    cluster: str
    previous_snapshot_id: str = ""
    previous_manifest_sha256: str = ""
    log_start: int
    log_from: int
    log_end: int
    log_last: int
    log_last_sha256: str
    log_first_ms: int
    offsets_log_end: int
    as_of_ms: int
    running_since_ms: int
    taken_ms: int = 0
    problems: list[str]
    files: Mapping[str, Mapping[str, Any]]

    @property
    def is_whole(self) -> bool:
        """It goes on from no other one."""
        return not self.previous_snapshot_id

    @property
    def row_count(self) -> int:
        """Of all tables."""
        return sum(int(told.get("rows") or 0) for told in self.files.values())

    @property
    def moment_ms(self) -> int:
        """When it was taken, as far as it is told: which of two snapshots is the later one."""
        return self.taken_ms or self.as_of_ms


@cache
def code_version() -> str:
    try:
        return version("popmq")
    except PackageNotFoundError:  # run from a source tree
        return "unknown"


def is_legal_id(snapshot_id: str) -> bool:
    return bool(_LEGAL_ID.fullmatch(snapshot_id)) and snapshot_id.strip(".") != ""


def encode(manifest: Manifest) -> bytes:
    """The same for the same manifest."""
    return (json.dumps(asdict(manifest), indent=1, sort_keys=True) + "\n").encode()


def decode(data: bytes, *, where: object) -> Manifest:
    """Raises `NoSnapshot` naming `where`."""
    try:
        manifest = Manifest(**json.loads(data))
    except (ValueError, TypeError) as wrong:
        raise NoSnapshot(f"{where} is no manifest: {wrong}") from wrong
    if not is_legal_id(manifest.snapshot_id):
        raise NoSnapshot(f"{where}: illegal snapshot id {manifest.snapshot_id!r}")
    if not manifest.is_whole and not is_legal_id(manifest.previous_snapshot_id):
        raise NoSnapshot(f"{where}: illegal snapshot id {manifest.previous_snapshot_id!r}")
    return manifest


def load(folder: Path) -> Manifest:
    """Raises `NoSnapshot`."""
    path = folder / MANIFEST
    try:
        return decode(path.read_bytes(), where=path)
    except FileNotFoundError:
        raise NoSnapshot(f"{path} is missing: the export did not finish") from None


def own_problems(folder: Path, manifest: Manifest) -> list[str]:
    """Why this folder alone says nothing; empty: all of it is there."""
    if manifest.schema_version != SCHEMA_VERSION:
        return [f"schema version {manifest.schema_version}, this code reads {SCHEMA_VERSION}"]
    found = list(manifest.problems)
    for table in SNAPSHOT_TABLES:
        if table in manifest.files or table not in ADDED_TABLES:
            found += _file_problems(folder, table, manifest.files.get(table))
    return found


def digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _file_problems(folder: Path, table: str, told: Mapping[str, Any] | None) -> list[str]:
    if told is None:
        return [f"the manifest does not name {table}"]
    name = f"{table}.parquet"
    if told.get("file") != name or not (folder / name).is_file():
        return [f"{name} is missing"]
    if digest(folder / name) != told.get("sha256"):
        return [f"{name} is not the file that was exported: its SHA-256 differs"]
    return []
