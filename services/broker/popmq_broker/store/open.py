"""Open a data directory: lock it, recover it, hand back a store that can be used."""

from collections.abc import Callable

from popmq_broker.core.queue_entry import QueueEntry, tags_code
from popmq_broker.core.record import Record
from popmq_broker.core.recovery import Scan, Verdict, decide
from popmq_broker.store import checkpoint_file
from popmq_broker.store.commit_log import CommitLog, ScanEnd
from popmq_broker.store.config import StoreConfig
from popmq_broker.store.config_files import ConfigFiles
from popmq_broker.store.lock_file import LockFile
from popmq_broker.store.queues import Queues
from popmq_broker.store.segments import sync_folder
from popmq_broker.store.store import Store
from popmq_common.errors import Corrupt
from popmq_common.logs import Log

TagOf = Callable[[bytes], str | None]


async def open_store(
    config: StoreConfig,
    log: Log,
    *,
    tag_of: TagOf,
    is_first_of_pair: Callable[[Record], bool],
    fatal: Callable[[BaseException], None],
) -> Store:
    """Raises `DirectoryInUse`, `Corrupt` naming file and offset.

    `tag_of` finds a record's tag in its property string; `is_first_of_pair` says that a record
    means nothing without the one behind it; `fatal` is told when fdatasync fails.
    """
    root = config.data_dir
    root.mkdir(parents=True, exist_ok=True)
    lock = LockFile(root)
    try:
        clean = not (root / "abort").exists()
        commit_log = CommitLog(root / "commitlog", config.segment_bytes)
        queues = Queues(root / "consumequeue", config.queue_file_bytes)
        _recover(commit_log, queues, config, log, tag_of, is_first_of_pair, clean)
        (root / "abort").write_text("the broker is running, or was killed\n")
        sync_folder(root)
        return Store(
            config=config,
            lock=lock,
            commit_log=commit_log,
            queues=queues,
            config_files=ConfigFiles(root / "config", log),
            log=log,
            fatal=fatal,
        )
    except BaseException:
        lock.release()
        raise


def _recover(
    commit_log: CommitLog,
    queues: Queues,
    config: StoreConfig,
    log: Log,
    tag_of: TagOf,
    is_first_of_pair: Callable[[Record], bool],
    clean: bool,
) -> None:
    marks = checkpoint_file.load(config.data_dir / "checkpoint")
    known = max(commit_log.start, marks.queues_flushed)
    queues.cut(known)
    scan_end = ScanEnd(commit_log.base(known))
    dispatched = 0
    for record, size_bytes in commit_log.scan(commit_log.base(known), scan_end):
        if record.log_offset >= known:
            _dispatch(queues, record, size_bytes, tag_of)
            dispatched += 1
    last = scan_end.last
    decision = decide(
        Scan(
            end=scan_end.end,
            flushed=marks.flushed,
            damaged=not commit_log.is_blank_from(scan_end.end),
            half_pair_at=last.log_offset if last is not None and is_first_of_pair(last) else None,
        )
    )
    path = str(commit_log.path(decision.log_end))
    if decision.verdict is Verdict.REFUSE:
        raise Corrupt(
            path=path,
            offset=decision.log_end,
            reason=f"no whole record begins there, and the log was on disk up to {marks.flushed}",
        )
    if decision.verdict is Verdict.TRUNCATE:
        log.warning("log.truncated", path=path, offset=decision.log_end)
        commit_log.truncate(decision.log_end)
        queues.cut(decision.log_end)
    commit_log.end = decision.log_end
    log.info("store.recovered", clean=clean, log_end=commit_log.end, dispatched=dispatched)


def _dispatch(queues: Queues, record: Record, size_bytes: int, tag_of: TagOf) -> None:
    tag = tag_of(record.properties)
    entry = QueueEntry(record.log_offset, size_bytes, tags_code(tag) if tag else 0)
    queues.dispatch(record.topic, record.queue_id, record.queue_offset, entry)
