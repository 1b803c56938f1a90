"""The end of a closed directory's log is cut off, or all of it: a follower's part that its primary
does not have.

The cut is on disk when it returns. A tail that is only forgotten would be back at the next start,
with right checksums.
"""

from dataclasses import replace
from pathlib import Path

from popmq_broker.store.files import checkpoint_file, segments
from popmq_broker.store.files.config import StoreConfig
from popmq_broker.store.files.files import Files
from popmq_broker.store.files.segments import Segments


def cut_tail(files: Files, config: StoreConfig, end: int) -> None:
    """The log ends at `end`, where a record begins. Queues must not be on disk beyond it.

    Raises `DirectoryInUse`, `OSError`.
    """
    root = config.data_dir
    lock = files.lock(root / "lock")
    try:
        marks = checkpoint_file.load(files, root / "checkpoint")
        if marks is not None:
            assert marks.queues_end <= end
            lowered = replace(marks, log_end=min(marks.log_end, end))
            checkpoint_file.save(files, root / "checkpoint", lowered)
        folder = root / "commitlog"
        log = Segments(files, folder, config.segment_bytes, segments.numbered(files, folder))
        log.zero_from(end)
        log.close()
    finally:
        lock.release()


def begin_anew(files: Files, config: StoreConfig, start: int, keep: frozenset[str]) -> None:
    """Nothing is there any more but the files `keep` of config/; the log begins and ends at
    `start`, the first byte of a file.

    Raises `DirectoryInUse`, `OSError`.
    """
    assert start % config.segment_bytes == 0
    root = config.data_dir
    lock = files.lock(root / "lock")
    try:
        files.remove(root / "checkpoint")
        files.sync_folder(root)
        _empty(files, root / "commitlog")
        for topic in files.names(root / "consumequeue"):
            for number in files.names(root / "consumequeue" / topic):
                _empty(files, root / "consumequeue" / topic / number)
        _empty(files, root / "index")
        _empty(files, root / "config", keep)
        if start:
            files.make_folder(root / "commitlog")
            path = root / "commitlog" / segments.name(start)
            files.open(path, size_bytes=config.segment_bytes).close()
            files.sync_folder(root / "commitlog")
    finally:
        lock.release()


def _empty(files: Files, folder: Path, keep: frozenset[str] = frozenset()) -> None:
    names = [name for name in files.names(folder) if name not in keep]
    for name in reversed(names):
        files.remove(folder / name)
    if names:
        files.sync_folder(folder)
