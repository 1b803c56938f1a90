"""A data directory that no broker runs on: looked at, dumped, cut."""

from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from popmq_broker.core.store.queue_entry import ENTRY_BYTES, QueueEntry, decode_all
from popmq_broker.store.check.check import Check, EntryWindows, Progress, open_log
from popmq_broker.store.check.check import Checked as Checked
from popmq_broker.store.files import checkpoint_file, segments
from popmq_broker.store.files.checkpoint_file import Marks
from popmq_broker.store.files.files import OsFiles, writing_to
from popmq_broker.store.files.segments import Segments
from popmq_broker.store.log.commit_log import CommitLog, ScanEnd
from popmq_broker.store.queues.queue_ends import QUEUE_ENDS_FILE, QueueEnds, QueueId, read_ends
from popmq_broker.store.queues.queues import folders
from popmq_common.errors import BadRequest, Corrupt
from popmq_common.records.record import Record

SET_ASIDE: Final = ".set-aside"
"""The end of the name of a file that is kept and not read."""


@contextmanager
def held(data_dir: Path) -> Iterator[OsFiles]:
    """The directory's lock, so that no broker starts meanwhile. Raises `DirectoryInUse`,
    `DirectoryNotWritable`, `BadRequest` for what is no data directory."""
    files = OsFiles()
    if not files.names(data_dir / "commitlog"):
        raise BadRequest(reason=f"{data_dir} has no commitlog folder with files in it")
    with writing_to(data_dir):
        lock = files.lock(data_dir / "lock")
    try:
        yield files
    finally:
        lock.release()


def check(data_dir: Path, progress: Progress) -> Checked:
    """Reads everything. Raises `DirectoryInUse`, `BadRequest`, `Corrupt`."""
    with held(data_dir) as files:
        return Check(files, data_dir, progress).run()


class Shown(NamedTuple):
    """A line of a dump: a record, or an entry whose record cannot be read."""

    record: Record | None
    size_bytes: int
    entry: QueueEntry | None
    wrong: str = ""


def checkpoints(data_dir: Path) -> tuple[Marks | None, QueueEnds | None]:
    """What the last checkpoint wrote. Raises as `held`; `Corrupt`."""
    with held(data_dir) as files:
        ends = read_ends(files, data_dir / "config" / QUEUE_ENDS_FILE)
        return checkpoint_file.load(files, data_dir / "checkpoint"), ends


def dump_log(data_dir: Path, start: int, topic: str, queue_id: int) -> Generator[Shown, None, None]:
    """Records from log offset `start` on, of one topic or queue (−1: all) if it is named."""
    with held(data_dir) as files:
        commit_log = open_log(files, data_dir)
        try:
            base = max(commit_log.start, commit_log.base(start))
            scan_end = ScanEnd(base)
            for record, size_bytes in commit_log.scan(base, scan_end):
                wanted = not topic or record.topic == topic
                if record.log_offset >= start and wanted and queue_id in (-1, record.queue_id):
                    yield Shown(record, size_bytes, None)
            if not commit_log.is_blank_from(scan_end.end):
                at = f"{commit_log.path(scan_end.end)} offset {scan_end.end}"
                yield Shown(None, 0, None, f"{at}: {scan_end.reason}")
        finally:
            commit_log.close()


def dump_queue(data_dir: Path, key: QueueId, start: int) -> Generator[Shown, None, None]:
    """A queue's entries from queue offset `start` on, as they are, with their records."""
    with held(data_dir) as files:
        commit_log = open_log(files, data_dir)
        windows = EntryWindows(files, data_dir / "consumequeue")
        ends = read_ends(files, data_dir / "config" / QUEUE_ENDS_FILE)
        first, end = ends.queues.get(key, (0, 0)) if ends else (0, 1 << 62)
        try:
            for offset in range(max(first, start), end):
                slot = windows.at(key, offset)
                entries = decode_all(slot) if len(slot) == ENTRY_BYTES else []
                if not entries and ends is None:
                    return
                yield _shown(commit_log, offset, entries)
        finally:
            windows.close()
            commit_log.close()


def _shown(commit_log: CommitLog, offset: int, entries: list[QueueEntry]) -> Shown:
    if not entries:
        return Shown(None, 0, None, f"entry {offset} was lost")
    (entry,) = entries
    try:
        record = commit_log.read(entry.log_offset, entry.size_bytes)
    except Corrupt as wrong:
        return Shown(None, 0, entry, f"entry {offset}: {wrong}")
    if record is None:
        return Shown(None, 0, entry, f"entry {offset}: its message is gone")
    return Shown(record, entry.size_bytes, entry)


@dataclass(slots=True)
class Behind:
    """What lies behind a place in the log."""

    at: int
    log_end: int = 0
    records: Counter[QueueId] = field(default_factory=Counter)
    first_ms: int = 0
    last_ms: int = 0


def behind(data_dir: Path, at: int) -> Behind:
    """Raises `BadRequest` when no record begins or ends at `at`."""
    with held(data_dir) as files:
        commit_log = open_log(files, data_dir)
        try:
            base = max(commit_log.start, commit_log.base(at))
            found, scan_end = Behind(at), ScanEnd(base)
            is_boundary = at == base < commit_log.files_end
            for record, size_bytes in commit_log.scan(base, scan_end):
                is_boundary |= at in (record.log_offset, record.log_offset + size_bytes)
                if record.log_offset >= at:
                    found.records[record.topic, record.queue_id] += 1
                    found.first_ms = found.first_ms or record.store_timestamp_ms
                    found.last_ms = record.store_timestamp_ms
            found.log_end = scan_end.end
        finally:
            commit_log.close()
    if not is_boundary or at > found.log_end:
        hint = f"popmq store dump {data_dir} --from {at} shows the next"
        raise BadRequest(reason=f"no record begins at {at}; {hint}")
    return found


def cut_log(data_dir: Path, at: int) -> None:
    """The log ends at `at`; the derived files are to be made again by `rebuild`."""
    with held(data_dir) as files:
        folder = data_dir / "commitlog"
        found = segments.numbered(files, folder)
        size_bytes = max(size for _, size in found)
        log = Segments(files, folder, size_bytes, found)
        start = log.start
        _forget_queues(files, data_dir, start, at)
        log.zero_from(at)
        log.close()


def prepare_rebuild(data_dir: Path, set_aside: Sequence[str]) -> int:
    """The next start makes the queues again; files of config/ that are `set_aside`, and the one
    before each, are not read. Returns the bytes of a file of the log."""
    with held(data_dir) as files:
        sizes = [size for _, size in segments.numbered(files, data_dir / "commitlog")]
        commit_log = open_log(files, data_dir)
        start = commit_log.start
        commit_log.close()
        marks = checkpoint_file.load(files, data_dir / "checkpoint")
        _forget_queues(files, data_dir, start, marks.log_end if marks else None)
        for name in set_aside:
            for path in (data_dir / "config" / name, data_dir / "config" / f"{name}.bak"):
                if path.exists():
                    path.rename(path.with_name(path.name + SET_ASIDE))
    return max(sizes)


def _forget_queues(files: OsFiles, data_dir: Path, log_start: int, log_end: int | None) -> None:
    config = data_dir / "config"
    for name in (f"{QUEUE_ENDS_FILE}.bak", QUEUE_ENDS_FILE):
        files.remove(config / name)
    if config.exists():
        files.sync_folder(config)
    if log_end is not None:
        marks = Marks(log_end=log_end, queues_end=log_start)
        checkpoint_file.save(files, data_dir / "checkpoint", marks)
        files.sync_folder(data_dir)


def queue_count(data_dir: Path) -> int:
    return len(list(folders(OsFiles(), data_dir / "consumequeue")))
