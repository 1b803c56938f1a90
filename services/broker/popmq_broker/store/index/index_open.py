"""The index as the last process left it → repaired, so that it can be trusted; where it goes on.

    what is found                                                  what is done
    -------------------------------------------------------------  -----------------------------
    another size, or a header that cannot be                       it and all behind it go
    a file begins behind the log's end                             it and all behind it go
    a keyed record lies between two files and is in none,          the later one and all
      or before the first                                            behind it go
    no clean stop, and the checkpoint is RocketMQ's or gone        all go: who knows what is there
    no clean stop, or the last file ends behind the log            entries of records that are not
                                                                     there go, its slots are mended
    a full file: its last message has more keys than are in it     the others go into the next file

What is gone is made again from the log, beside the broker's work.
"""

from pathlib import Path

from popmq_broker.core.store import index as layout
from popmq_broker.core.store.index import HEADER_BYTES, Sizes
from popmq_broker.store.files.files import Files
from popmq_broker.store.index.index import Index
from popmq_broker.store.index.index_file import DamagedIndex, IndexFile
from popmq_broker.store.log.commit_log import CommitLog
from popmq_common.errors import Corrupt
from popmq_common.process.logs import Log


def open_index(
    disk: Files,
    folder: Path,
    sizes: Sizes,
    commit_log: CommitLog,
    log: Log,
    *,
    clean: bool,
    trusted: bool,
) -> Index:
    """`clean`: the last process ended in order. `trusted`: if not, it was one of ours."""
    found: list[IndexFile] = []
    paths = [folder / name for name in disk.names(folder) if layout.is_name(name)]
    reason = "" if clean or trusted else "nobody knows what of it is on disk"
    for path in paths if not reason else []:
        try:
            found.append(_open(disk, path, sizes))
        except DamagedIndex as damaged:
            reason = str(damaged)
            break
    if reason and paths:
        _remove(disk, folder, paths[len(found) :], reason, log)
    index = Index(
        disk=disk, folder=folder, sizes=sizes, commit_log=commit_log, log=log, found=found
    )
    for file in found[:-1]:
        file.finished = True
    wrong = _first_wrong(found, commit_log)
    if wrong is not None:
        index.drop_from(found[wrong], f"{found[wrong].path}: it does not follow on")
    _mend(index, found, commit_log, clean=clean)
    return index


def _mend(index: Index, found: list[IndexFile], commit_log: CommitLog, *, clean: bool) -> None:
    while found:
        newest = found[-1]
        end_offset = newest.header.end_offset
        try:
            if end_offset >= commit_log.start and not (clean and end_offset < commit_log.end):
                newest.repair(commit_log.end, lambda at: _store_ms(commit_log, at))
            newest.finished = newest.finished and newest.full
            index.resume()
            return
        except DamagedIndex as damaged:
            index.drop_from(newest, str(damaged))
    index.resume()


def _open(disk: Files, path: Path, sizes: Sizes) -> IndexFile:
    """Raises `DamagedIndex`."""
    size_bytes = disk.size(path)
    if size_bytes != sizes.file_bytes:
        raise DamagedIndex(f"{path}: it has {size_bytes} bytes, not {sizes.file_bytes}")
    file = disk.open(path)
    header = layout.decode_header(file.pread(HEADER_BYTES, 0))
    file.close()
    if flaw := layout.flaw(header, sizes):
        raise DamagedIndex(f"{path}: {flaw}")
    opened = IndexFile(disk, path, sizes, header)
    try:
        opened.check()
    except DamagedIndex:
        opened.close()
        raise
    return opened


def _remove(disk: Files, folder: Path, paths: list[Path], reason: str, log: Log) -> None:
    log.warning("index.rebuilt", path=str(paths[0]), reason=reason)
    for path in reversed(paths):
        disk.remove(path)
    disk.sync_folder(folder)


def _first_wrong(found: list[IndexFile], commit_log: CommitLog) -> int | None:
    """The first file that does not follow on the one before it, or on the log's start."""
    start = behind = commit_log.start
    skip = False
    for at, file in enumerate(found):
        header = file.header
        if header.begin_offset >= commit_log.end:
            return at
        shared = skip and header.begin_offset == behind  # one message's keys are in two files
        if (
            header.begin_offset > start
            and not shared
            and _first_keyed(commit_log, behind, skip=skip) != header.begin_offset
        ):
            return at
        skip = header.end_offset >= start
        behind = header.end_offset if skip else start
    return None


def _first_keyed(commit_log: CommitLog, start: int, *, skip: bool) -> int | None:
    """Log offset of the first record with keys from `start` on, or behind the one there."""
    if not commit_log.begins_at(start):
        return None
    for found in commit_log.walk(start, commit_log.end):
        if found is None:
            continue  # what is damaged has no keys
        record, _ = found
        if skip and record.log_offset == start:
            continue
        rolled_back = record.sys_flag & layout.ROLLED_BACK == layout.ROLLED_BACK
        if layout.keys_of(record.properties) and not rolled_back:
            return record.log_offset
    return None


def _store_ms(commit_log: CommitLog, log_offset: int) -> int:
    """Raises `DamagedIndex` when no record begins there, or it cannot be read."""
    try:
        record = commit_log.read_at(log_offset) if commit_log.begins_at(log_offset) else None
    except Corrupt as wrong:
        raise DamagedIndex(str(wrong)) from wrong
    if record is None:
        raise DamagedIndex(f"no record begins at {log_offset}")
    return record.store_timestamp_ms
