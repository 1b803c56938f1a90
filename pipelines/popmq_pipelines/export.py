"""Write a snapshot of a broker's data directory: Parquet per table, the manifest last.

Nothing in the directory is touched. Of a live broker it takes first the marks and the committed
offsets, then the log: so the log tells at least what the marks do.

`as_of_ms` is the time at which leases are judged. A broker that runs has revived what was due, so
it is now, taken before the log is read; one that is stopped revives nothing, so it is the time of
its last record. `running_since_ms` lets the audit give a broker that has just started its time.
"""

import fcntl
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from popmq_broker.core import offsets
from popmq_common.errors import Corrupt
from popmq_common.names import REVIVE_PREFIX
from popmq_pipelines import manifest as manifests
from popmq_pipelines.columns import SCHEMA_VERSION, SNAPSHOT_TABLES
from popmq_pipelines.log_reader import LogScan, flushed_mark
from popmq_pipelines.manifest import MANIFEST, Manifest
from popmq_pipelines.parquet_table import TableWriter
from popmq_pipelines.rows import entry, offset_rows

PROBLEMS_MAX: Final = 20  # of one kind; one is enough to make an audit incomplete


class CannotExport(Exception):
    """There is nothing to export, or the snapshot exists already."""


@dataclass(slots=True)
class _Seen:
    """What the pass over the log finds out besides rows."""

    broker: str = ""
    cluster: str = ""
    first_ms: int = 0
    last_ms: int = 0
    undecodable: list[str] = field(default_factory=list)


def export(data_dir: Path, into: Path, snapshot_id: str | None = None) -> Manifest:
    """Raises `CannotExport`. A snapshot that exists is never written over."""
    _check(data_dir, into, snapshot_id)
    now_ms = time.time_ns() // 1_000_000
    running_since_ms = _running_since_ms(data_dir)
    flushed = flushed_mark(data_dir)
    table, problems = _load_offsets(data_dir)
    scan = LogScan(data_dir / "commitlog", flushed=max(flushed, table.log_end))
    into.mkdir(parents=True, exist_ok=True)
    seen, files = _write_tables(scan, table, into)
    if scan.problem is not None:
        problems.append(scan.problem)
    as_of_ms = now_ms if running_since_ms else seen.last_ms
    manifest = Manifest(
        schema_version=SCHEMA_VERSION,
        code_version=manifests.code_version(),
        snapshot_id=snapshot_id or manifests.make_id(seen.broker, as_of_ms, scan.end),
        broker=seen.broker,
        cluster=seen.cluster,
        log_start=scan.start,
        log_end=scan.end,
        log_first_ms=seen.first_ms,
        offsets_log_end=table.log_end,
        as_of_ms=as_of_ms,
        running_since_ms=running_since_ms,
        problems=problems + seen.undecodable,
        files=files,
    )
    manifests.write(into, manifest)
    return manifest


def _check(data_dir: Path, into: Path, snapshot_id: str | None) -> None:
    if snapshot_id is not None and not manifests.is_legal_id(snapshot_id):
        raise CannotExport(f"illegal snapshot id {snapshot_id!r}: letters, digits, . _ - only")
    if not (data_dir / "commitlog").is_dir():
        raise CannotExport(f"{data_dir} is no data directory: it has no commitlog/")
    if into.resolve().is_relative_to(data_dir.resolve()):
        raise CannotExport(f"{into} is inside the data directory; choose another place")
    if (into / MANIFEST).exists():
        raise CannotExport(f"{into} holds a snapshot already; choose another directory")


def _write_tables(
    scan: LogScan, table: offsets.OffsetTable, into: Path
) -> tuple[_Seen, dict[str, dict[str, Any]]]:
    seen = _Seen()
    with ExitStack() as stack:
        writers = {name: stack.enter_context(TableWriter(into, name)) for name in SNAPSHOT_TABLES}
        for row in offset_rows(table):
            writers["consume_offsets"].add(row)
        previous: int | None = None
        for stored in scan:
            record = stored.record
            seen.first_ms = seen.first_ms or record.store_timestamp_ms
            seen.last_ms = max(seen.last_ms, record.store_timestamp_ms)
            try:
                found = entry(stored, previous)
            except Corrupt as wrong:
                if len(seen.undecodable) < PROBLEMS_MAX:
                    seen.undecodable.append(str(wrong))
            else:
                for name, row in found.rows:
                    writers[name].add(row)
                seen.broker = found.broker or seen.broker
            if record.topic.startswith(REVIVE_PREFIX):
                seen.cluster = record.topic.removeprefix(REVIVE_PREFIX)
            previous = record.log_offset
    return seen, {name: writer.description() for name, writer in writers.items()}


def _load_offsets(data_dir: Path) -> tuple[offsets.OffsetTable, list[str]]:
    path = data_dir / "config" / "consumerOffset.json"
    try:
        return offsets.decode(path.read_text(), where=str(path)), []
    except FileNotFoundError:
        return offsets.OffsetTable(0, {}), []  # an empty table makes the audit incomplete
    except (Corrupt, UnicodeDecodeError) as wrong:
        return offsets.OffsetTable(0, {}), [str(wrong)]


def _running_since_ms(data_dir: Path) -> int:
    """When the broker that holds the directory was started; 0: none does.

    A cleanly stopped broker has removed `abort`. Whether a killed one left it can only be seen by
    trying the lock, shared and for a moment.
    """
    if not (data_dir / "abort").exists():
        return 0
    try:
        with open(data_dir / "lock", "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:  # held; the holder wrote its id into it when it started
                return (data_dir / "lock").stat().st_mtime_ns // 1_000_000
    except FileNotFoundError:
        return 0
    return 0
