"""Open a data directory: lock it, recover it, hand back a store that can be used."""

import os
from collections.abc import Callable

from popmq_broker.store import checkpoint_file
from popmq_broker.store.config import StoreConfig
from popmq_broker.store.config_files import ConfigFiles
from popmq_broker.store.files import Files, OsFiles
from popmq_broker.store.index_open import open_index
from popmq_broker.store.recover import CodeOf, Recovery, TagOf
from popmq_broker.store.store import Store
from popmq_common.logs import Log
from popmq_common.record import Record


async def open_store(
    config: StoreConfig,
    log: Log,
    *,
    tag_of: TagOf,
    is_first_of_pair: Callable[[Record], bool],
    fatal: Callable[[BaseException], None],
    code_of: CodeOf = lambda _: None,
    files: Files | None = None,
) -> Store:
    """Raises `DirectoryInUse`, `Corrupt` naming file and offset.

    `tag_of` finds a record's tag in its property string, `code_of` what its queue entry holds in
    place of the tag's code, None: that; `is_first_of_pair` says that a record
    means nothing without the one behind it; `fatal` is told, on the event loop, when the disk
    fails: the process must end then.
    """
    files = files or OsFiles()
    root = config.data_dir
    files.make_folder(root)
    lock = files.lock(root / "lock")
    try:
        clean = not files.exists(root / "abort")
        recovery = Recovery(
            files=files,
            config=config,
            log=log,
            tag_of=tag_of,
            code_of=code_of,
            is_first_of_pair=is_first_of_pair,
            marks=checkpoint_file.load(files, root / "checkpoint"),
        )
        commit_log, queues, marks = recovery.run()
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
        return Store(
            config=config,
            files=files,
            lock=lock,
            commit_log=commit_log,
            queues=queues,
            config_files=ConfigFiles(files, root / "config", log),
            index=index,
            marks=marks,
            log=log,
            fatal=fatal,
        )
    except BaseException:
        lock.release()
        raise
