"""A snapshot of a broker's data directory is written: Parquet per table, the manifest last.

Nothing in the directory is touched. A snapshot is whole, with all records of the log, or goes on
from an earlier one, with those behind it. docs/export.md tells the tables.
"""

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from popmq_broker.core.store.snapshot_id import make_id
from popmq_common.errors import Corrupt
from popmq_common.process.private_files import make_folder
from popmq_common.records.names import REVIVE_PREFIX
from popmq_common.records.record import is_queued
from popmq_pipelines.export import watermarks
from popmq_pipelines.export.log_reader import LogScan, Stored
from popmq_pipelines.export.parquet_table import TableWriter
from popmq_pipelines.export.queue_files import QueueFiles
from popmq_pipelines.export.rate_limit import RECORDS_PER_SLICE, RateLimit
from popmq_pipelines.export.record_rows import offset_rows, record_rows, watermark_rows
from popmq_pipelines.export.watermarks import Queues, Watermarks
from popmq_pipelines.snapshot import manifest as manifests
from popmq_pipelines.snapshot.columns import SCHEMA_VERSION, SNAPSHOT_TABLES
from popmq_pipelines.snapshot.destination import Destination, LocalFolder
from popmq_pipelines.snapshot.manifest import MANIFEST, Manifest
from popmq_pipelines.snapshot.seal import SEAL, seal

PROBLEMS_MAX: Final = 20
"""Of one kind; one is enough to make an audit incomplete."""


class CannotExport(Exception):
    """There is nothing to export, or the snapshot exists already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Previous:
    """The snapshot that this one goes on from."""

    manifest: Manifest
    manifest_sha256: str


@dataclass(slots=True)
class _Seen:
    """What the pass over the log finds out besides rows."""

    broker: str = ""
    cluster: str = ""
    first_ms: int = 0
    last_ms: int = 0
    last: int = -1
    last_data: bytes | None = None
    undecodable: list[str] = field(default_factory=list)
    queues: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    """First offset seen, and next one."""

    def note(self, stored: Stored) -> None:
        record = stored.record
        self.first_ms = self.first_ms or record.store_timestamp_ms
        self.last_ms = max(self.last_ms, record.store_timestamp_ms)
        self.last, self.last_data = record.log_offset, stored.data
        if is_queued(record):
            queue = (record.topic, record.queue_id)
            first = self.queues.get(queue, (record.queue_offset, 0))[0]
            self.queues[queue] = (first, record.queue_offset + 1)
        if record.topic.startswith(REVIVE_PREFIX):
            self.cluster = record.topic.removeprefix(REVIVE_PREFIX)


def export(
    data_dir: Path, into: Path, snapshot_id: str | None = None, key: bytes | None = None
) -> Manifest:
    """A whole one, in the folder `into`, sealed with `key` if there is one. Raises `CannotExport`,
    `OSError`. A snapshot that exists is never written over."""
    check(data_dir, into, snapshot_id)
    make_folder(into)
    found = watermarks.found(data_dir)
    destination = LocalFolder(into.parent)
    return write(data_dir, destination, into.name, found, snapshot_id=snapshot_id, key=key)


def check(data_dir: Path, into: Path | None, snapshot_id: str | None) -> None:
    """Raises `CannotExport`."""
    if snapshot_id is not None and not manifests.is_legal_id(snapshot_id):
        raise CannotExport(f"illegal snapshot id {snapshot_id!r}: letters, digits, . _ - only")
    if not (data_dir / "commitlog").is_dir():
        raise CannotExport(f"{data_dir} is no data directory: it has no commitlog/")
    if into is None:
        return
    if into.resolve().is_relative_to(data_dir.resolve()):
        raise CannotExport(f"{into} is inside the data directory; choose another place")
    if (into / MANIFEST).exists():
        raise CannotExport(f"{into} holds a snapshot already; choose another directory")


def write(
    data_dir: Path,
    destination: Destination,
    folder: str,
    marks: Watermarks,
    *,
    snapshot_id: str | None = None,
    previous: Previous | None = None,
    rate_limit: RateLimit | None = None,
    tell: Callable[[int], None] = lambda _: None,
    key: bytes | None = None,
) -> Manifest:
    """`previous`: this one goes on from there, and must join. `tell` gets the rows so far, now and
    then. `key`: the manifest is sealed with it. Raises `OSError`."""
    before = None if previous is None else previous.manifest
    scan = LogScan(
        data_dir / "commitlog",
        flushed=marks.flushed,
        start_from=None if before is None else before.log_end,
        until=marks.log_end,
    )
    seen = _Seen(last=-1 if before is None else before.log_last)
    stored = scan if rate_limit is None else _limited(scan, rate_limit, tell)
    running = bool(marks.running_since_ms)
    queue_files = QueueFiles(data_dir, running=running)
    files = _write_tables(iter(stored), marks, seen, queue_files, destination, folder)
    problems = [*marks.problems, *([scan.problem] if scan.problem else []), *seen.undecodable]
    problems += _disagreements(marks.queues, seen.queues)
    as_of_ms = marks.as_of_ms or seen.last_ms or (before.as_of_ms if before else 0)
    broker = marks.broker or seen.broker or (before.broker if before else "")
    manifest = Manifest(
        schema_version=SCHEMA_VERSION,
        code_version=manifests.code_version(),
        snapshot_id=snapshot_id or make_id(broker, as_of_ms, scan.end),
        broker=broker,
        cluster=marks.cluster or seen.cluster or (before.cluster if before else ""),
        previous_snapshot_id=before.snapshot_id if before else "",
        previous_manifest_sha256=previous.manifest_sha256 if previous else "",
        log_start=scan.log_start if marks.log_start is None else marks.log_start,
        log_from=scan.start,
        log_end=scan.end,
        log_last=seen.last,
        log_last_sha256=_last_sha256(seen, before),
        log_first_ms=seen.first_ms,
        offsets_log_end=marks.table.log_end,
        as_of_ms=as_of_ms,
        running_since_ms=marks.running_since_ms,
        taken_ms=marks.taken_ms,
        problems=problems,
        files=files,
    )
    data = manifests.encode(manifest)
    if key is not None:
        sink = destination.create(folder, SEAL)
        sink.write(f"{seal(data, key)}\n".encode())
        sink.sync()
        sink.close()
    destination.finish(folder, data)
    return manifest


def _write_tables(
    records: Iterator[Stored],
    marks: Watermarks,
    seen: _Seen,
    queue_files: QueueFiles,
    destination: Destination,
    folder: str,
) -> dict[str, dict[str, Any]]:
    with ExitStack() as stack:
        writers = {
            name: stack.enter_context(
                TableWriter(destination.create(folder, f"{name}.parquet"), name)
            )
            for name in SNAPSHOT_TABLES
        }
        for row in offset_rows(marks.table):
            writers["consume_offsets"].add(row)
        previous = seen.last if seen.last >= 0 else None
        for stored in records:
            seen.note(stored)
            if is_queued(stored.record):
                queue_files.check(stored.record, stored.size_bytes)
            try:
                found = record_rows(stored, previous)
            except Corrupt as wrong:
                if len(seen.undecodable) < PROBLEMS_MAX:
                    seen.undecodable.append(str(wrong))
            else:
                for name, row in found.rows:
                    writers[name].add(row)
                seen.broker = found.broker or seen.broker
            previous = stored.record.log_offset
        for row in watermark_rows(seen.queues if marks.queues is None else marks.queues):
            writers["queue_watermarks"].add(row)
        for fault in queue_files.faults():
            writers["queue_faults"].add(fault)
    return {name: writer.description() for name, writer in writers.items()}


def _limited(scan: LogScan, rate_limit: RateLimit, tell: Callable[[int], None]) -> Iterator[Stored]:
    """The same records, no faster than `rate_limit`."""
    rows = size_bytes = count = 0
    for stored in scan:
        yield stored
        rows += 1
        size_bytes += stored.size_bytes
        if rows == RECORDS_PER_SLICE:
            count += rows
            tell(count)
            delay_s = rate_limit.delay_s(time.monotonic(), rows, size_bytes)
            rows = size_bytes = 0
            if delay_s:
                time.sleep(delay_s)


def _disagreements(told: Queues | None, seen: Queues) -> list[str]:
    """Where the broker and its log say different things about where a queue ends."""
    if told is None:
        return []
    found = [
        f"{topic} queue {queue_id}: the broker says it ends at {told[topic, queue_id][1]}, the log "
        f"at {following}"
        for (topic, queue_id), (_, following) in sorted(seen.items())
        if told.get((topic, queue_id), (0, following))[1] != following
    ]
    return found[:PROBLEMS_MAX]


def _last_sha256(seen: _Seen, before: Manifest | None) -> str:
    if seen.last_data is not None:
        return hashlib.sha256(seen.last_data).hexdigest()
    return before.log_last_sha256 if before else ""
