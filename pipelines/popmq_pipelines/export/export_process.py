"""One export in a process of its own, for a broker: python -m popmq_pipelines.export.export_process

It runs beside the broker with a low priority, reads the files up to the watermark that the
broker tells, and asks it nothing. When the broker dies it ends too. In, on stdin, a JSON document:

    {"dataDir", "into", "snapshotId", "whole": true|false, "rowsPerS", "bytesPerS", "chainMax",
     "keep", "watermarks": see `watermarks`}

Out, on stdout, JSON documents one a line: {"rows": so far} now and then, and at the end either

    {"snapshotId", "place", "whole", "why", "rows", "bytes", "logFrom", "logEnd", "seconds",
     "problems": […], "removed": [snapshot ids]}     exit code 0
    {"failed": text}                                 exit code 2
"""

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from popmq_common.errors import Corrupt
from popmq_pipelines.export import watermarks
from popmq_pipelines.export.log_reader import LogScan
from popmq_pipelines.export.watermarks import Watermarks
from popmq_pipelines.snapshot import manifest as manifests
from popmq_pipelines.snapshot import seal, snapshots
from popmq_pipelines.snapshot.destination import Destination, NoDestination, open_destination
from popmq_pipelines.snapshot.snapshots import Choice, KeptSnapshot

FAILED: Final = 2
PRIORITY: Final = 10
"""Of nice: a tenth of what others get who want the CPU; the lowest would get none for minutes."""
TOLD_EVERY_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRequest:
    """What a broker asks for."""

    data_dir: Path
    into: str
    """A folder of this broker alone."""
    snapshot_id: str
    whole: bool
    rows_per_s: int
    bytes_per_s: int
    chain_max: int
    keep: int
    marks: Watermarks


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    kept: KeptSnapshot
    place: str
    why_whole: str
    removed: list[str] = field(default_factory=list)


def read_request(text: str) -> ExportRequest:
    """Raises `ValueError`, `KeyError`, `TypeError`, `Corrupt`."""
    fields = json.loads(text)
    return ExportRequest(
        data_dir=Path(fields["dataDir"]),
        into=str(fields["into"]),
        snapshot_id=str(fields["snapshotId"]),
        whole=bool(fields["whole"]),
        rows_per_s=int(fields["rowsPerS"]),
        bytes_per_s=int(fields["bytesPerS"]),
        chain_max=int(fields["chainMax"]),
        keep=int(fields["keep"]),
        marks=watermarks.told(fields["watermarks"]),
    )


def run(request: ExportRequest, tell: Callable[[int], None] = lambda _: None) -> Done:
    """Raises `CannotExport`, `NoDestination`, `BadKey`, `OSError`."""
    from popmq_pipelines.export import snapshot_writer
    from popmq_pipelines.export.rate_limit import RateLimit

    destination = open_destination(request.into)
    marks = request.marks
    local = None if "://" in request.into else Path(request.into)
    snapshot_writer.check(request.data_dir, local, request.snapshot_id)
    for name in snapshots.unfinished(destination, marks.broker):
        destination.remove(name)
    found = snapshots.kept(destination)
    choice = _choose(request, found)
    name = request.snapshot_id
    if any(one.folder == name for one in found):
        raise snapshot_writer.CannotExport(f"{destination.at(name)} is there already")
    before = choice.previous
    previous = None
    if before is not None:
        previous = snapshot_writer.Previous(
            manifest=before.manifest, manifest_sha256=before.manifest_sha256
        )
    snapshot_writer.write(
        request.data_dir,
        destination,
        name,
        marks,
        snapshot_id=name,
        previous=previous,
        rate_limit=RateLimit(request.rows_per_s, request.bytes_per_s, _log_growth(before, marks)),
        tell=tell,
        key=seal.key_of(os.environ),
    )
    return _tidied(request, destination, name, choice.why_whole)


def _tidied(request: ExportRequest, destination: Destination, name: str, why_whole: str) -> Done:
    """Snapshots that are not kept any more go, now that there is a newer one."""
    found = snapshots.kept(destination)
    removed = snapshots.surplus(found, request.marks.broker, request.keep)
    for one in removed:
        destination.remove(one.folder)
    (done,) = [one for one in found if one.folder == name]
    ids = [one.manifest.snapshot_id for one in removed]
    return Done(kept=done, place=destination.at(name), why_whole=why_whole, removed=ids)


def _choose(request: ExportRequest, found: list[KeptSnapshot]) -> Choice:
    if request.whole:
        return Choice(None, "it was asked for")
    marks = request.marks
    assert marks.log_start is not None
    assert marks.log_end is not None
    choice = snapshots.choose(
        found,
        marks.broker,
        log_start=marks.log_start,
        log_end=marks.log_end,
        chain_max=request.chain_max,
    )
    if choice.previous and not _is_same_log(request.data_dir, choice.previous.manifest):
        return Choice(None, "the log is not the one that the last one was made of")
    return choice


def _log_growth(before: KeptSnapshot | None, marks: Watermarks) -> float:
    """Bytes a second since the snapshot that this one goes on from; 0 for a whole one: how long it
    may take is not bound by when the next one is due."""
    if before is None or marks.log_end is None:
        return 0.0
    seconds = (marks.as_of_ms - before.manifest.as_of_ms) / 1_000
    return (marks.log_end - before.manifest.log_end) / seconds if seconds > 0 else 0.0


def _is_same_log(data_dir: Path, manifest: manifests.Manifest) -> bool:
    """The last record of the snapshot lies where it did, with the same bytes."""
    if manifest.log_last < 0:
        return manifest.log_end == manifest.log_start
    scan = LogScan(data_dir / "commitlog", start_from=manifest.log_last, until=manifest.log_end)
    data = [stored.data for stored in scan]
    return len(data) == 1 and sha256(data[0]).hexdigest() == manifest.log_last_sha256


def result(done: Done) -> dict[str, Any]:
    """What is told of an export that has ended well."""
    manifest = done.kept.manifest
    return {
        "snapshotId": manifest.snapshot_id,
        "place": done.place,
        "whole": manifest.is_whole,
        "why": done.why_whole,
        "rows": done.kept.rows,
        "bytes": done.kept.size_bytes,
        "logFrom": manifest.log_from,
        "logEnd": manifest.log_end,
        "problems": manifest.problems,
        "removed": done.removed,
    }


def _say(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


def main() -> int:
    os.nice(PRIORITY)
    began_s = told_s = time.monotonic()
    broker_pid = os.getppid()

    def tell(rows: int) -> None:
        nonlocal told_s
        if os.getppid() != broker_pid:  # nobody keeps the log's files for it any more
            sys.exit(FAILED)
        if time.monotonic() - told_s >= TOLD_EVERY_S:
            told_s = time.monotonic()
            _say(rows=rows)

    try:
        from popmq_pipelines.export.snapshot_writer import CannotExport
    except ModuleNotFoundError as missing:
        _say(failed=f"{missing.name} is not installed: pip install 'popmq[export]'")
        return FAILED
    try:
        done = run(read_request(sys.stdin.read()), tell)
    except (CannotExport, NoDestination, seal.BadKey, OSError, Corrupt) as wrong:
        _say(failed=str(wrong))
        return FAILED
    _say(**result(done), seconds=round(time.monotonic() - began_s, 3))
    return 0


if __name__ == "__main__":
    sys.exit(main())
