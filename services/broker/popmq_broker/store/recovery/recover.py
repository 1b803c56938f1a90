"""What the files of a data directory say → a log that ends where it can be trusted, and queues
that hold exactly its messages. The decisions are core/store/recovery.py's.

Every start does the same, whether the last stop was clean or not:

    1. the log's files     one address space without a gap, up to where they end
    2. the queues          what the last checkpoint knew (store/queues/queue_ends.py) stays; the
                           rest is dropped …
    3. the scan            … and made again from the log, read from there to its end
    4. the end             bytes of records that were being written are removed; what is kept is
                           synced, for it may be visible from now on

Queues that are not what was written (a file is missing or too short, the last entry does not fit
its record, nothing says where they end) are removed and made from the whole log.
Not looked at: the log before the checkpoint and entries before the last one. A damaged record is
told when it is read; entries are held against their records before they are used
(store/queues/entry_check.py). `popmq store check` looks at everything.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from popmq_broker.core.store import queue_entry
from popmq_broker.core.store.queue_entry import DAMAGED
from popmq_broker.core.store.recovery import (
    RecoveryAction,
    RecoveryDecision,
    Scan,
    judge_files,
    judge_scan,
)
from popmq_broker.store.files import checkpoint_file, segments
from popmq_broker.store.files.checkpoint_file import Marks
from popmq_broker.store.files.config import StoreConfig
from popmq_broker.store.files.config_files import ConfigFiles
from popmq_broker.store.files.files import Files
from popmq_broker.store.files.segments import Segments
from popmq_broker.store.log.commit_log import CommitLog, ScanEnd
from popmq_broker.store.queues import queue_ends
from popmq_broker.store.queues.consume_queue import end_in_files
from popmq_broker.store.queues.entry_check import CodeOf, EntryCheck
from popmq_broker.store.queues.queue_ends import QUEUE_ENDS_FILE, Ends, QueueEnds
from popmq_broker.store.queues.queues import QueueId, Queues, folders
from popmq_common.errors import Corrupt
from popmq_common.process.logs import Log
from popmq_common.records.record import Record, is_queued


class QueuesDamaged(Exception):
    """The queues must be made again from the whole log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """One start's view of a data directory."""

    files: Files
    config: StoreConfig
    log: Log
    is_first_of_pair: Callable[[Record], bool]
    marks: Marks | None
    code_of: CodeOf
    ends: QueueEnds | None
    config_files: ConfigFiles
    clean: bool
    """The process before has stopped by itself."""

    def run(self) -> tuple[CommitLog, Queues, Marks, QueueEnds | None]:
        """The ends are those that are on disk and hold. Raises `Corrupt` naming file and offset."""
        commit_log = CommitLog(self._segments())
        marks = self.marks or Marks(log_end=0, queues_end=0)
        nothing = QueueEnds(commit_log.start, commit_log.start, {})
        ends = nothing if self._nothing_is_known(commit_log.start) else self.ends
        try:
            try:
                if ends is None:
                    raise QueuesDamaged("nothing says where they end")
                queues, scan_end = self._queues(commit_log, ends, rebuild=ends is nothing)
            except QueuesDamaged as damaged:
                self.log.warning("queues.rebuilt", reason=str(damaged))
                ends = nothing
                queues, scan_end = self._queues(commit_log, ends, rebuild=True)
            self._end_log(commit_log, queues, scan_end)
            queues.check = EntryCheck(commit_log, self.code_of)
        except BaseException:
            commit_log.close()
            raise
        end = commit_log.end
        last_ms = scan_end.last.store_timestamp_ms if scan_end.last else 0
        log_ms = max(marks.log_ms, last_ms)
        known = ends.log_end
        queues_ms = marks.queues_ms if known == marks.queues_end else 0
        return (
            commit_log,
            queues,
            Marks(log_end=end, queues_end=min(known, end), log_ms=log_ms, queues_ms=queues_ms),
            None if ends is nothing else ends,
        )

    @property
    def _mark(self) -> int | None:
        """How far the log is known to be on disk; the ends are written before the marks."""
        if self.marks is None:
            return None
        return max(self.marks.log_end, self.ends.log_end if self.ends else 0)

    def _nothing_is_known(self, log_start: int) -> bool:
        """Of the queues, and nothing is wrong with that: there was no checkpoint yet, or RocketMQ
        has written since."""
        return self.marks is None or (self.ends is None and self.marks.queues_end <= log_start)

    def _segments(self) -> Segments:
        folder = self.config.data_dir / "commitlog"
        self.files.make_folder(folder)
        found = segments.numbered(self.files, folder)
        decision = judge_files(found, self.config.segment_bytes, self._mark)
        gone = [base for base, _ in found if base >= decision.log_end]
        if decision.verdict is RecoveryAction.REFUSE:
            path = folder / segments.name(decision.log_end)
            raise Corrupt(path=path, offset=decision.log_end, reason=decision.reason)
        if decision.verdict is RecoveryAction.TRUNCATE:
            path = folder / segments.name(decision.log_end)
            self._tell_truncated(path, decision)
            for base in reversed(gone):
                self.files.remove(folder / segments.name(base))
            self.files.sync_folder(folder)
        kept = [file for file in found if file.base < decision.log_end]
        return Segments(self.files, folder, self.config.segment_bytes, kept)

    def _queues(
        self, commit_log: CommitLog, ends: QueueEnds, *, rebuild: bool
    ) -> tuple[Queues, ScanEnd]:
        """Queues that agree with the log up to where the scan ended.

        Raises `QueuesDamaged`; `Corrupt` when they are being rebuilt.
        """
        try:
            next_offsets = self._next_offsets() if rebuild and commit_log.start else {}
            queues = self._open_queues(commit_log.start, ends, next_offsets, rebuild=rebuild)
            if not self.clean:
                queues.zero_behind()
            self._check_last_entries(commit_log, queues)
            scan_end = ScanEnd(max(commit_log.start, ends.log_end))
            for record, size_bytes in commit_log.scan(scan_end.end, scan_end):
                if is_queued(record):
                    key = record.topic, record.queue_id
                    # one that was forgotten begins where it did; others have an end, or are
                    # made from the whole log
                    may_begin = commit_log.start > 0 and key not in ends.queues
                    self._dispatch(queues, record, size_bytes, may_begin=may_begin)
            queues.begin_empty(next_offsets)
        except Corrupt as wrong:
            if rebuild:
                raise
            raise QueuesDamaged(str(wrong)) from wrong
        return queues, scan_end

    def _next_offsets(self) -> dict[QueueId, int]:
        """Of queues whose messages retention has deleted; the log does not know them."""
        if self.ends is not None and self.marks is not None:
            return {key: ends.next for key, ends in self.ends.queues.items()}
        folder, file_bytes = self.config.data_dir / "consumequeue", self.config.queue_file_bytes
        return {
            (topic, number): end_in_files(self.files, folder / topic / str(number), file_bytes)
            for topic, number in folders(self.files, folder)
        }

    def _open_queues(
        self,
        log_start: int,
        ends: QueueEnds,
        next_offsets: Mapping[QueueId, int],
        *,
        rebuild: bool,
    ) -> Queues:
        folder = self.config.data_dir / "consumequeue"
        self.files.make_folder(folder)
        if rebuild:
            self._forget_queues(log_start, next_offsets)
            _remove_queues(self.files, folder)
        return Queues(
            self.files,
            folder,
            file_bytes=self.config.queue_file_bytes,
            open_max=self.config.open_queue_files_max,
            unwritten_bytes_max=self.config.unwritten_entry_bytes_max,
            ends=ends,
            log_start=log_start,
        )

    def _forget_queues(self, log_start: int, next_offsets: Mapping[QueueId, int]) -> None:
        """A start that is cut off while it makes the queues must make them again; what only their
        files and ends knew is not lost."""
        if next_offsets:
            empty = {key: Ends(offset, offset) for key, offset in next_offsets.items()}
            text = queue_ends.encode(QueueEnds(log_start, log_start, empty))
            self.config_files.begin_anew(QUEUE_ENDS_FILE, text)
        else:
            self.config_files.forget(QUEUE_ENDS_FILE)
        if self.marks is not None:
            marks = replace(self.marks, queues_end=log_start, queues_ms=0)
            checkpoint_file.save(self.files, self.config.data_dir / "checkpoint", marks)

    def _check_last_entries(self, commit_log: CommitLog, queues: Queues) -> None:
        for (topic, queue_id), offset, entry in queues.last_entries():
            if entry is DAMAGED:
                raise Corrupt(
                    path=f"{topic}/{queue_id}", offset=offset, reason="the entry was lost"
                )
            record = commit_log.read(entry.log_offset, entry.size_bytes)
            if record and (record.topic, record.queue_id, record.queue_offset) != (
                topic,
                queue_id,
                offset,
            ):
                reason = f"its last entry {offset} is of another message"
                raise Corrupt(path=f"{topic}/{queue_id}", offset=offset, reason=reason)

    def _dispatch(
        self, queues: Queues, record: Record, size_bytes: int, *, may_begin: bool
    ) -> None:
        key, code = (record.topic, record.queue_id), self.code_of(record)
        entry = queue_entry.pack(record.log_offset, size_bytes, code)
        queues.recover(key, record.queue_offset, entry, may_begin=may_begin)

    def _end_log(self, commit_log: CommitLog, queues: Queues, scan_end: ScanEnd) -> None:
        last = scan_end.last
        mark = self._mark
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
        if decision.verdict is RecoveryAction.REFUSE:
            raise Corrupt(path=path, offset=decision.log_end, reason=decision.reason)
        if decision.verdict is RecoveryAction.TRUNCATE:
            self._tell_truncated(path, decision)
            commit_log.truncate(decision.log_end)
            queues.cut(decision.log_end)
        commit_log.end = decision.log_end
        commit_log.sync(
            commit_log.start if mark is None else min(mark, commit_log.end), commit_log.end
        )

    def _tell_truncated(self, path: Path, decision: RecoveryDecision) -> None:
        self.log.warning(
            "log.truncated", path=str(path), offset=decision.log_end, reason=decision.reason
        )


def _remove_queues(files: Files, folder: Path) -> None:
    for topic in files.names(folder):
        for number in files.names(folder / topic):
            for name in files.names(folder / topic / number):
                files.remove(folder / topic / number / name)
