"""Everything a data directory holds, read and held against each other; nothing is changed.

    log       each record's checksum, each place where none begins
    queues    each record has its entry, and each entry its record (by counting: offsets are dense)
    revive    each checkpoint and ack can be read, and is about messages that exist
    config    each file and its backup: checksum, content, positions within their queues

One pass over the log with bounded windows of the queues' entries, so a directory of any size takes
the same memory. Findings beyond `FINDINGS_MAX` are counted, not kept.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from popmq_broker.core.catalog import catalog
from popmq_broker.core.groups import starts
from popmq_broker.core.leases import checkpoint as ck
from popmq_broker.core.store.queue_entry import ENTRY_BYTES, decode_all, tag_of
from popmq_broker.store.check.check_config import Changes, check_config
from popmq_broker.store.check.findings import Findings
from popmq_broker.store.files import checkpoint_file, segments
from popmq_broker.store.files.files import Files
from popmq_broker.store.files.open_files import OpenFiles
from popmq_broker.store.files.segments import Segments
from popmq_broker.store.log.commit_log import CommitLog, ScanEnd
from popmq_broker.store.queues.entry_check import code_of_tag, mismatch
from popmq_broker.store.queues.queue_ends import QUEUE_ENDS_FILE, QueueEnds, QueueId, read_ends
from popmq_broker.store.queues.queues import folders
from popmq_common.errors import Corrupt
from popmq_common.records.names import CATALOG_TOPIC, REVIVE_PREFIX
from popmq_common.records.record import Record, is_queued
from popmq_common.units import GiB

WINDOW_ENTRIES: Final = 512
WINDOWS_MAX: Final = 1_024
"""Windows of queue entries in memory at a time: 10 MiB."""
TELL_EVERY: Final = 4_096
Progress = Callable[[int, int], None]
"""(log bytes read, log bytes in all)"""


def open_log(files: Files, data_dir: Path) -> CommitLog:
    """To read. Raises `Corrupt` when its files do not follow each other."""
    folder = data_dir / "commitlog"
    found = segments.numbered(files, folder)
    segment_bytes = max((size for _, size in found), default=GiB) or GiB
    for before, after in pairwise(found):
        if after.base != before.base + segment_bytes:
            reason = f"the file before {after.base} is missing"
            raise Corrupt(path=folder / segments.name(after.base), offset=after.base, reason=reason)
    return CommitLog(Segments(files, folder, segment_bytes, found, as_it_is=True))


class EntryWindows:
    """Entries by queue and offset, read in windows; the longest unused are let go."""

    def __init__(self, files: Files, folder: Path) -> None:
        self._folder = folder
        self._disk = files
        self._open_files = OpenFiles(files, 256)
        self._windows: OrderedDict[tuple[QueueId, int], bytes] = OrderedDict()
        self._file_bytes: dict[QueueId, list[segments.Found]] = {}

    def at(self, key: QueueId, offset: int) -> bytes:
        """The entry's bytes; none where no file is."""
        number, place = divmod(offset, WINDOW_ENTRIES)
        window = self._windows.get((key, number))
        if window is None:
            window = self._windows[key, number] = self._read(key, number * WINDOW_ENTRIES)
            if len(self._windows) > WINDOWS_MAX:
                self._windows.popitem(last=False)
        else:
            self._windows.move_to_end((key, number))
        return window[place * ENTRY_BYTES : (place + 1) * ENTRY_BYTES]

    def _read(self, key: QueueId, start: int) -> bytes:
        files = self._file_bytes.get(key)
        folder = self._folder / key[0] / str(key[1])
        if files is None:
            files = self._file_bytes[key] = segments.numbered(self._disk, folder)
        window = bytearray(WINDOW_ENTRIES * ENTRY_BYTES)
        low, high = start * ENTRY_BYTES, (start + WINDOW_ENTRIES) * ENTRY_BYTES
        for base, size_bytes in files:
            first, last = max(low, base), min(high, base + size_bytes)
            if first < last:
                file = self._open_files.get(folder / segments.name(base))
                window[first - low : last - low] = file.pread(last - first, first - base)
        return bytes(window)

    def close(self) -> None:
        self._open_files.close()


class Span(NamedTuple):
    """A queue's messages in the log."""

    first: int
    next: int


@dataclass(slots=True)
class Checked:
    """What was read, and what is wrong with it."""

    findings: Findings
    log_start: int = 0
    log_end: int = 0
    records: int = 0
    queues: dict[QueueId, Span] = field(default_factory=dict)
    journal_records: int = 0


class Check:
    def __init__(self, files: Files, data_dir: Path, progress: Progress) -> None:
        self._files = files
        self._data_dir = data_dir
        self._progress = progress
        self._done = Checked(Findings())
        self._ends: QueueEnds | None = None
        self._mark: int | None = None
        self._named: dict[QueueId, int] = {}
        """How far the journal speaks of each queue."""
        self._changes: Changes = {}

    def run(self) -> Checked:
        """Raises `Corrupt` when the log's files do not follow each other."""
        findings = self._done.findings
        marks = checkpoint_file.load(self._files, self._data_dir / "checkpoint")
        self._mark = marks.log_end if marks else None
        ends_path = self._data_dir / "config" / QUEUE_ENDS_FILE
        try:
            self._ends = read_ends(self._files, ends_path) if marks else None
        except Corrupt:  # told with the other files of config/
            self._ends = None
        if marks is None and self._files.exists(self._data_dir / "checkpoint"):
            path = self._data_dir / "checkpoint"
            findings.note(path, 0, "it is not PopMQ's or damaged: a start reads the whole log")
        commit_log = open_log(self._files, self._data_dir)
        windows = EntryWindows(self._files, self._data_dir / "consumequeue")
        try:
            self._check_log(commit_log, windows)
        finally:
            windows.close()
            commit_log.close()
        self._check_ends()
        self._check_named()
        folder = self._data_dir / "config"
        check_config(self._files, folder, findings, self._spans(), self._changes)
        return self._done

    def _spans(self) -> dict[QueueId, Span]:
        """Also of queues whose messages retention has deleted."""
        spans = dict(self._done.queues)
        for key, ends in (self._ends.queues if self._ends else {}).items():
            spans.setdefault(key, Span(ends.first, ends.next))
        return spans

    def _check_log(self, commit_log: CommitLog, windows: EntryWindows) -> None:
        done = self._done
        at = done.log_start = commit_log.start
        total = commit_log.files_end - at
        while True:
            scan_end = ScanEnd(at)
            for record, size_bytes in commit_log.scan(at, scan_end):
                done.records += 1
                if done.records % TELL_EVERY == 0:
                    self._progress(record.log_offset - done.log_start, total)
                self._check_record(windows, record, size_bytes)
            done.log_end = scan_end.end
            behind = commit_log.record_behind(scan_end.end)
            if behind is None:
                break
            path = commit_log.path(scan_end.end)
            lost = f"{scan_end.reason}; the next record begins at {behind}"
            self._done.findings.add(path, scan_end.end, lost)
            at = behind
        self._check_end(commit_log, scan_end)
        self._progress(total, total)

    def _check_end(self, commit_log: CommitLog, scan_end: ScanEnd) -> None:
        findings, path = self._done.findings, commit_log.path(scan_end.end)
        if self._mark is not None and scan_end.end < self._mark:
            reason = f"{scan_end.reason}, but the log was on disk up to {self._mark}"
            findings.add(path, scan_end.end, reason)
        elif not commit_log.is_blank_from(scan_end.end):
            findings.note(path, scan_end.end, f"{scan_end.reason}: the next start cuts it off")

    def _check_record(self, windows: EntryWindows, record: Record, size_bytes: int) -> None:
        if record.topic.startswith(REVIVE_PREFIX):
            self._check_journal(record)
        elif record.topic == CATALOG_TOPIC:
            self._check_change(record)
        if not is_queued(record):
            return
        key, offset = (record.topic, record.queue_id), record.queue_offset
        span = self._done.queues.get(key)
        if span is not None and offset != span.next:
            reason = f"{key[0]}/{key[1]} goes on with offset {offset} after {span.next - 1}"
            self._done.findings.add(self._log_path(record), record.log_offset, reason)
        self._done.queues[key] = Span(span.first if span else offset, offset + 1)
        ends = self._ends.queues.get(key) if self._ends else None
        slot = windows.at(key, offset)
        if not slot.strip(b"\0") and (ends is None or offset >= ends.next):
            return  # not brought to the files yet
        if self._ends is not None and (ends is None or offset >= ends.next):
            return  # made again by the next start
        path = self._data_dir / "consumequeue" / key[0] / str(key[1])
        entries = decode_all(slot)
        if not entries:
            self._done.findings.add(path, offset, "the entry was lost")
            return
        entry = entries[0]
        if (entry.log_offset, entry.size_bytes) != (record.log_offset, size_bytes):
            reason = (
                f"the entry points to {entry.log_offset} ({entry.size_bytes} bytes), its message "
                f"lies at {record.log_offset} ({size_bytes} bytes)"
            )
            self._done.findings.add(path, offset, reason)
        elif wrong := mismatch(key, offset, entry, record, code_of_tag):
            self._done.findings.add(path, offset, wrong)

    def _log_path(self, record: Record) -> Path:
        return self._data_dir / "commitlog" / f"(log offset {record.log_offset})"

    def _check_journal(self, record: Record) -> None:
        self._done.journal_records += 1
        tag, where = tag_of(record.properties), f"revive topic, {record.log_offset}"
        try:
            about: ck.Checkpoint | ck.AckRecord
            if tag == starts.START_TAG:
                starts.decode(record.body, where=where)
                return
            if tag == ck.CHECKPOINT_TAG:
                about = ck.decode_checkpoint(record.body, where=where)
            else:
                about = ck.decode_ack(record.body, where=where)
        except Corrupt as wrong:
            reason = f"not a journal record: {wrong.fields['reason']}"
            self._done.findings.add(self._log_path(record), record.log_offset, reason)
            return
        if about.offsets:
            key = (about.topic, about.queue_id)
            self._named[key] = max(self._named.get(key, 0), max(about.offsets) + 1)

    def _check_change(self, record: Record) -> None:
        try:
            change = catalog.decode(record.body, where="")
        except Corrupt as wrong:
            reason = f"not a record of the catalog: {wrong.fields['reason']}"
            self._done.findings.add(self._log_path(record), record.log_offset, reason)
            return
        self._changes[change.kind, change.name] = (record.log_offset, change.value is not None)

    def _check_named(self) -> None:
        spans = self._spans()
        for key, named in self._named.items():
            span = spans.get(key)
            if named > (span.next if span else 0):
                path = self._data_dir / "consumequeue" / key[0] / str(key[1])
                reason = f"the journal speaks of offset {named - 1}, which no message has"
                self._done.findings.add(path, named - 1, reason)

    def _check_ends(self) -> None:
        """Every entry has its record: there are as many of both."""
        findings, folder = self._done.findings, self._data_dir / "consumequeue"
        if self._ends is None:
            return
        for key, ends in self._ends.queues.items():
            path = folder / key[0] / str(key[1])
            span = self._done.queues.get(key)
            if span is None and ends.first < ends.next:
                reason = f"entries {ends.first} to {ends.next - 1} have no messages in the log"
                findings.add(path, ends.first, reason)
            elif span is not None and ends.next > span.next:
                reason = f"entries {span.next} to {ends.next - 1} have no messages in the log"
                findings.add(path, span.next, reason)
            elif span is not None and ends.first < span.first < ends.next:
                reason = f"entries {ends.first} to {span.first - 1} have no messages in the log"
                findings.add(path, ends.first, reason)
        for key in folders(self._files, folder):
            if key not in self._ends.queues and key not in self._done.queues:
                findings.note(folder / key[0] / str(key[1]), 0, "no message of the log is in it")
