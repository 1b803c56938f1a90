"""The manifest of a snapshot: what was exported, from when and where to, and each file's hash.

    manifest.json   schema_version, code_version
                    snapshot_id, broker, cluster      the id: letters, digits, dot, dash, underscore
                    log_start, log_end                log offsets: all whole records between them
                    log_first_ms                      store time of the first record
                    offsets_log_end                   the log's end when the offsets were taken
                    as_of_ms, running_since_ms        see `export`; 0: no broker was running
                    problems                          texts; empty: nothing was left out
                    files                             table → file, rows, sha256, log_offset_min/max

It is written last and put in place at once: without it there is no snapshot.
"""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from popmq_pipelines.columns import SCHEMA_VERSION, SNAPSHOT_TABLES

MANIFEST: Final = "manifest.json"
NEVER_EMPTY: Final = ("commitlog_index", "pop_checkpoints", "pop_acks", "consume_offsets")
"""Without rows in these nothing was audited. Positions need not ever have been moved."""
_LEGAL_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
_HINTS: Final = {
    "consume_offsets": "the broker writes it every few seconds: export again",
    "pop_checkpoints": "nothing was handed out yet",
    "pop_acks": "nothing was acknowledged yet",
}


class NoSnapshot(Exception):
    """The folder holds no manifest that can be read: the export did not finish."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    schema_version: int
    code_version: str
    snapshot_id: str
    broker: str
    cluster: str
    log_start: int
    log_end: int
    log_first_ms: int
    offsets_log_end: int
    as_of_ms: int
    running_since_ms: int
    problems: list[str]
    files: Mapping[str, Mapping[str, Any]]


@cache
def code_version() -> str:
    try:
        return version("popmq")
    except PackageNotFoundError:  # run from a source tree
        return "unknown"


def is_legal_id(snapshot_id: str) -> bool:
    return bool(_LEGAL_ID.fullmatch(snapshot_id)) and snapshot_id.strip(".") != ""


def make_id(broker: str, as_of_ms: int, log_end: int) -> str:
    """The same for the same log at the same time."""
    legal = re.sub(r"[^A-Za-z0-9_-]", "_", broker)[:64]
    return f"{legal or 'broker'}-{as_of_ms}-{log_end}"


def write(folder: Path, manifest: Manifest) -> None:
    fresh = folder / f"{MANIFEST}.tmp"
    fresh.write_text(json.dumps(asdict(manifest), indent=1, sort_keys=True) + "\n")
    os.replace(fresh, folder / MANIFEST)


def load(folder: Path) -> Manifest:
    """Raises `NoSnapshot`."""
    path = folder / MANIFEST
    try:
        fields = json.loads(path.read_text())
        manifest = Manifest(**fields)
    except FileNotFoundError:
        raise NoSnapshot(f"{path} is missing: the export did not finish") from None
    except (ValueError, TypeError) as wrong:
        raise NoSnapshot(f"{path} is no manifest: {wrong}") from wrong
    if not is_legal_id(manifest.snapshot_id):
        raise NoSnapshot(f"{path}: illegal snapshot id {manifest.snapshot_id!r}")
    return manifest


def problems(folder: Path, manifest: Manifest) -> list[str]:
    """Why the snapshot says nothing; empty: it is whole."""
    if manifest.schema_version != SCHEMA_VERSION:
        return [f"schema version {manifest.schema_version}, this code reads {SCHEMA_VERSION}"]
    found = list(manifest.problems)
    for table in SNAPSHOT_TABLES:
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
    if table in NEVER_EMPTY and not told.get("rows"):
        hint = _HINTS.get(table, "the log holds no record")
        return [f"{name} is empty: {hint}"]
    return []
