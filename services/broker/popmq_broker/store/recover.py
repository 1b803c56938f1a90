"""What the files of a data directory say → a log that ends where it can be trusted, and queues
that hold exactly its messages. The decisions are core/recovery.py's.

Every start does the same, whether the last stop was clean or not:

    1. the log's files     one address space without a gap, up to where they end
    2. the queues          what was synced with the last checkpoint stays; the rest is dropped …
    3. the scan            … and made again from the log, read from there to its end
    4. the end             bytes of records that were being written are removed; what is kept is
                           synced, for it may be visible from now on

Queues that are not what was written (a file is missing or too short, the last entry does not fit
its record, a message of the scanned part is not in them) are removed and made from the whole log.
Not looked at: entries before the last one. A damaged one of those is told when it is read.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from popmq_broker.core import queue_entry
from popmq_broker.core.recovery import Decision, Scan, Verdict, judge_files, judge_scan
from popmq_broker.store import checkpoint_file, segments
from popmq_broker.store.checkpoint_file import Marks
from popmq_broker.store.commit_log import CommitLog, ScanEnd
from popmq_broker.store.config import StoreConfig
from popmq_broker.store.consume_queue import end_in_files
from popmq_broker.store.files import Files
from popmq_broker.store.queues import QueueId, Queues
from popmq_broker.store.segments import Segments
from popmq_common.errors import Corrupt
from popmq_common.logs import Log
from popmq_common.record import Record, is_queued

TagOf = Callable[[bytes], str | None]


class QueuesDamaged(Exception):
    """The queues must be made again from the whole log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """One start's view of a data directory."""

    files: Files
    config: StoreConfig
    log: Log
    tag_of: TagOf
    is_first_of_pair: Callable[[Record], bool]
    marks: Marks | None

    def run(self) -> tuple[CommitLog, Queues, Marks]:
        """Raises `Corrupt` naming file and offset."""
        commit_log = CommitLog(self._segments())
        marks = self.marks or Marks(log_end=0, queues_end=0)
        known = max(commit_log.start, marks.queues_end)
        try:
            try:
                queues, scan_end = self._queues(commit_log, known, rebuild=self.marks is None)
            except QueuesDamaged as damaged:
                self.log.warning("queues.rebuilt", reason=str(damaged))
                known = commit_log.start
                queues, scan_end = self._queues(commit_log, known, rebuild=True)
            self._end_log(commit_log, queues, scan_end)
        except BaseException:
            commit_log.close()
            raise
        end = commit_log.end
        last_ms = scan_end.last.store_timestamp_ms if scan_end.last else 0
        log_ms = max(marks.log_ms, last_ms)
        queues_ms = marks.queues_ms if known == marks.queues_end else 0
        return (
            commit_log,
            queues,
            Marks(log_end=end, queues_end=min(known, end), log_ms=log_ms, queues_ms=queues_ms),
        )

    def _segments(self) -> Segments:
        folder = self.config.data_dir / "commitlog"
        self.files.make_folder(folder)
        found = segments.numbered(self.files, folder)
        mark = self.marks.log_end if self.marks else None
        decision = judge_files(found, self.config.segment_bytes, mark)
        gone = [base for base, _ in found if base >= decision.log_end]
        if decision.verdict is Verdict.REFUSE:
            path = folder / segments.name(decision.log_end)
            raise Corrupt(path=path, offset=decision.log_end, reason=decision.reason)
        if decision.verdict is Verdict.TRUNCATE:
            path = folder / segments.name(decision.log_end)
            self._tell_truncated(path, decision)
            for base in reversed(gone):
                self.files.remove(folder / segments.name(base))
            self.files.sync_folder(folder)
        kept = [file for file in found if file.base < decision.log_end]
        return Segments(self.files, folder, self.config.segment_bytes, kept)

    def _queues(
        self, commit_log: CommitLog, known: int, *, rebuild: bool
    ) -> tuple[Queues, ScanEnd]:
        """Queues that agree with the log up to where the scan ended.

        Raises `QueuesDamaged`; `Corrupt` when they are being rebuilt.
        """
        try:
            ends = self._ends() if rebuild and commit_log.start else {}
            queues = self._open_queues(commit_log.start, rebuild=rebuild)
            queues.cut(known)
            self._check_last_entries(commit_log, queues)
            scan_end = ScanEnd(commit_log.base(known))
            for record, size_bytes in commit_log.scan(scan_end.end, scan_end):
                if is_queued(record):
                    self._dispatch(queues, record, size_bytes, known, rebuild=rebuild)
            queues.begin_empty(ends)
        except Corrupt as wrong:
            if rebuild:
                raise
            raise QueuesDamaged(str(wrong)) from wrong
        return queues, scan_end

    def _ends(self) -> dict[QueueId, int]:
        """Next offsets: of a queue whose messages retention has deleted only its files know."""
        folder, file_bytes = self.config.data_dir / "consumequeue", self.config.queue_file_bytes
        return {
            (topic, int(number)): end_in_files(self.files, folder / topic / number, file_bytes)
            for topic in self.files.names(folder)
            for number in self.files.names(folder / topic)
            if number.isascii() and number.isdigit()
        }

    def _open_queues(self, log_start: int, *, rebuild: bool) -> Queues:
        folder = self.config.data_dir / "consumequeue"
        self.files.make_folder(folder)
        if rebuild:
            self._forget_queues(log_start)
            _remove_queues(self.files, folder)
        return Queues(
            self.files,
            folder,
            file_bytes=self.config.queue_file_bytes,
            open_max=self.config.open_queue_files_max,
            unwritten_bytes_max=self.config.unwritten_entry_bytes_max,
            log_start=log_start,
        )

    def _forget_queues(self, log_start: int) -> None:
        """A start that is cut off while it makes the queues must make them again."""
        if self.marks is not None:
            marks = replace(self.marks, queues_end=log_start, queues_ms=0)
            checkpoint_file.save(self.files, self.config.data_dir / "checkpoint", marks)

    def _check_last_entries(self, commit_log: CommitLog, queues: Queues) -> None:
        for (topic, queue_id), offset, entry in queues.last_entries():
            if entry.log_offset < commit_log.start:
                continue
            record = commit_log.read(entry.log_offset, entry.size_bytes)
            if record and (record.topic, record.queue_id, record.queue_offset) != (
                topic,
                queue_id,
                offset,
            ):
                reason = f"its last entry {offset} is of another message"
                raise Corrupt(path=f"{topic}/{queue_id}", offset=offset, reason=reason)

    def _dispatch(
        self, queues: Queues, record: Record, size_bytes: int, known: int, *, rebuild: bool
    ) -> None:
        topic, queue_id, offset = record.topic, record.queue_id, record.queue_offset
        if record.log_offset < known:
            low, high = queues.min_offset(topic, queue_id), queues.max_offset(topic, queue_id)
            if not low <= offset < high:
                reason = "the message is not in the queue"
                raise Corrupt(path=f"{topic}/{queue_id}", offset=offset, reason=reason)
            return
        tag = self.tag_of(record.properties)
        code = queue_entry.tags_code(tag) if tag else 0
        entry = queue_entry.pack(record.log_offset, size_bytes, code)
        may_begin = rebuild and known > 0
        queues.recover((topic, queue_id), offset, entry, may_begin=may_begin)

    def _end_log(self, commit_log: CommitLog, queues: Queues, scan_end: ScanEnd) -> None:
        last = scan_end.last
        mark = self.marks.log_end if self.marks else None
        decision = judge_scan(
            Scan(
                end=scan_end.end,
                reason=scan_end.reason,
                mark=mark,
                damaged=not commit_log.is_blank_from(scan_end.end),
                later_record_at=commit_log.record_behind(scan_end.end) if mark is None else None,
                half_pair_at=last.log_offset if last and self.is_first_of_pair(last) else None,
            )
        )
        path = commit_log.path(decision.log_end)
        if decision.verdict is Verdict.REFUSE:
            raise Corrupt(path=path, offset=decision.log_end, reason=decision.reason)
        if decision.verdict is Verdict.TRUNCATE:
            self._tell_truncated(path, decision)
            commit_log.truncate(decision.log_end)
            queues.cut(decision.log_end)
        commit_log.end = decision.log_end
        commit_log.sync(
            commit_log.start if mark is None else min(mark, commit_log.end), commit_log.end
        )

    def _tell_truncated(self, path: Path, decision: Decision) -> None:
        self.log.warning(
            "log.truncated", path=str(path), offset=decision.log_end, reason=decision.reason
        )


def _remove_queues(files: Files, folder: Path) -> None:
    for topic in files.names(folder):
        for number in files.names(folder / topic):
            for name in files.names(folder / topic / number):
                files.remove(folder / topic / number / name)
