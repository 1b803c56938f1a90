"""Open a data directory: lock it, recover it, hand back a store that can be used."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from popmq_broker.store.files import checkpoint_file
from popmq_broker.store.files.config import StoreConfig
from popmq_broker.store.files.config_files import ConfigFiles
from popmq_broker.store.files.files import Files, OsFiles
from popmq_broker.store.index.index_open import open_index
from popmq_broker.store.queues import queue_ends
from popmq_broker.store.queues.entry_check import CodeOf, code_of_tag
from popmq_broker.store.recovery.recover import Recovery
from popmq_broker.store.store import Store
from popmq_broker.store.store_parts import StoreParts
from popmq_common.errors import Corrupt
from popmq_common.process.logs import Log
from popmq_common.records.record import Record

S = TypeVar("S", bound=Store)


async def open_store(
    config: StoreConfig,
    log: Log,
    *,
    is_first_of_pair: Callable[[Record], bool],
    fatal: Callable[[BaseException], None],
    code_of: CodeOf = code_of_tag,
    files: Files | None = None,
    kind: type[S] = Store,  # type: ignore[assignment]  # a TypeVar's default, as of Python 3.13
) -> S:
    """Raises `DirectoryInUse`, `Corrupt` naming file and offset.

    `code_of` tells what a record's queue entry holds as the tag's code; `is_first_of_pair` says
    that a record means nothing without the one behind it; `fatal` is told, on the event loop, when
    the disk fails: the process must end then.
    """
    files = files or OsFiles()
    root = config.data_dir
    files.make_folder(root)
    lock = files.lock(root / "lock")
    try:
        config_files = ConfigFiles(files, root / "config", log)
        clean = not files.exists(root / "abort")
        marks = load_marks(files, root / "checkpoint", log)
        ends = load_ends(config_files, log)
        recovery = Recovery(
            files=files,
            config=config,
            log=log,
            code_of=code_of,
            is_first_of_pair=is_first_of_pair,
            marks=marks,
            ends=ends,
            config_files=config_files,
            clean=clean,
        )
        commit_log, queues, marks, ends = recovery.run()
        index = None
        if config.index is not None:
            index = open_index(
                files,
                root / "index",
                config.index,
                commit_log,
                log,
                clean=clean,
                trusted=recovery.marks is not None,
            )
        checkpoint_file.save(files, root / "checkpoint", marks)
        files.sync_folder(root)
        files.replace(root / "abort", f"{os.getpid()}\n".encode())
        log.info("store.recovered", clean=clean, log_start=commit_log.start, log_end=commit_log.end)
        parts = StoreParts(
            config=config,
            files=files,
            lock=lock,
            commit_log=commit_log,
            queues=queues,
            config_files=config_files,
            index=index,
            marks=marks,
            ends=ends,
            log=log,
            fatal=fatal,
        )
        return kind(parts)
    except BaseException:
        lock.release()
        raise


def load_marks(files: Files, path: Path, log: Log) -> checkpoint_file.Marks | None:
    """None when there are none, or none that can be read: the whole log is read then."""
    marks = checkpoint_file.load(files, path)
    if marks is None and files.exists(path):
        log.warning("checkpoint.passed_over", means="the whole log is read, as RocketMQ does")
    return marks


def load_ends(config_files: ConfigFiles, log: Log) -> queue_ends.QueueEnds | None:
    """None when there are none, or none that can be read: the queues are made again then."""
    try:
        return config_files.load(queue_ends.QUEUE_ENDS_FILE, queue_ends.decode)
    except Corrupt as wrong:
        log.warning("queues.ends_lost", reason=str(wrong))
        return None
