"""A copy of a data directory while its broker runs.

A broker only appends to its log, and replaces its small files whole. So a copy is good when nothing
in it knows more than its log:

    1. checkpoint, config/     how far log and queues were on disk: from here on all of it is
    2. everything else         queue files up to there; what came since is made again from the log
    3. commitlog/              last, file by file, oldest first

The log's last bytes may have been copied while they were written, and some later ones with them: as
after a power failure, a start cuts the log at the first bad place behind the mark of 1
(core/store/recovery.py). What was answered OK before the copy began lies below that mark or behind
it in bytes that no longer change. It is in the copy; what came meanwhile may be.

Left out: `lock`, the index of keys, which a start makes again from the log, and `shards`, the
directories of other brokers, each of which is copied by itself.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from popmq_common.errors import BadRequest
from popmq_common.process.private_files import FOLDER_MODE, opened_privately
from popmq_common.units import MiB

LOG: Final = "commitlog"
FIRST: Final = ("checkpoint", "config")
LEFT_OUT: Final = {"lock", "index", "shards"}
CHUNK_BYTES: Final = 4 * MiB

Progress = Callable[[int, int], None]
"""(bytes done, of all)."""


class Copied(NamedTuple):
    files: int
    data_bytes: int
    """Without holes."""


def copy(source: Path, target: Path, progress: Progress) -> Copied:
    """Raises `BadRequest` for what is no data directory, and for a target that holds something;
    `OSError`."""
    if not (source / LOG).is_dir():
        raise BadRequest(reason=f"{source} has no {LOG} folder, it is no broker's directory")
    if target.exists() and any(target.iterdir()):
        raise BadRequest(reason=f"{target} is not empty; name a new directory")
    if source.resolve() in target.resolve().parents:
        raise BadRequest(reason=f"{target} lies in {source}")
    target.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
    total = sum(path.stat().st_blocks * 512 for path in _files(source))
    done, count = 0, 0
    for path in _files(source):
        into = target / path.relative_to(source)
        for folder in reversed(into.relative_to(target).parents):
            (target / folder).mkdir(exist_ok=True, mode=FOLDER_MODE)
        try:
            done += _copy_file(path, into)
        except FileNotFoundError:  # retention, or a file that is only there while it is written
            if path.parent.name == LOG:
                _forget_before(into)
            continue
        count += 1
        progress(done, total)
    for folder in (target, *(path for path in target.rglob("*") if path.is_dir())):
        _sync_folder(folder)
    return Copied(count, done)


def _files(source: Path) -> Iterator[Path]:
    """In the order that the copy depends on."""
    rest = [path for path in sorted(source.iterdir()) if path.name not in (*FIRST, LOG, *LEFT_OUT)]
    for place in (*(source / name for name in FIRST), *rest, source / LOG):
        if place.is_dir():
            yield from (path for path in sorted(place.rglob("*")) if path.is_file())
        elif place.exists():
            yield place


def _forget_before(missing: Path) -> None:
    """The log has no gap: what is older than a file that retention took meanwhile goes too."""
    for path in missing.parent.iterdir():
        if path.name < missing.name:
            path.unlink()


def _copy_file(source: Path, target: Path) -> int:
    """Its data, without its holes; how many bytes that are. Raises `FileNotFoundError`."""
    with open(source, "rb") as read, open(target, "xb", opener=opened_privately) as write:
        size_bytes = os.fstat(read.fileno()).st_size
        copied = 0
        for start, end in _data(read.fileno(), size_bytes):
            write.seek(start)
            while start < end:
                chunk = os.pread(read.fileno(), min(CHUNK_BYTES, end - start), start)
                if not chunk:
                    break
                write.write(chunk)
                start += len(chunk)
                copied += len(chunk)
        write.truncate(size_bytes)
        write.flush()
        os.fsync(write.fileno())
        return copied


def _data(file: int, size_bytes: int) -> Iterator[tuple[int, int]]:
    """Where the file has data, from and to."""
    at = 0
    while at < size_bytes:
        try:
            start = os.lseek(file, at, os.SEEK_DATA)
        except OSError:  # ENXIO: only a hole is left
            return
        at = min(os.lseek(file, start, os.SEEK_HOLE), size_bytes)
        yield start, at


def _sync_folder(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
