"""The seam to the disk: what the store asks of a file system, and the operating system's answer.

Everything the store does to a disk goes through `Files`, so a test can run the same code on a
disk that loses what was not synced, is full, or fails (tests/harness/memory_files.py).

What is durable when:

    pwrite, truncate     after fdatasync of the file
    open with a size     the file's content after fdatasync; its name after sync_folder
    remove               after sync_folder
    make_folder, replace when they return
"""

import errno
import fcntl
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

import aiofiles
import aiofiles.os

from popmq_common.errors import DirectoryInUse, DirectoryNotWritable, DiskFull
from popmq_common.process.private_files import FILE_MODE, FOLDER_MODE, opened_privately

_FULL: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_DENIED: Final = {errno.EACCES, errno.EPERM, errno.EROFS}


class File(Protocol):
    """An open file. Methods raise `OSError`."""

    def pwrite(self, data: bytes, offset: int) -> None:
        """All of `data`, into the page cache."""
        ...

    def pread(self, size_bytes: int, offset: int) -> bytes:
        """Fewer bytes at the end of the file."""
        ...

    def mapped(self, size_bytes: int, offset: int) -> bytes:
        """The same through a mapping of the whole file, whose size must not change any more."""
        ...

    def next_data(self, offset: int) -> int | None:
        """The first place from `offset` on that may hold anything but zeros."""
        ...

    def truncate(self, size_bytes: int) -> None:
        """Cut off, or extend with zeros that take no space."""
        ...

    def fdatasync(self) -> None:
        """May be called from another thread than the rest."""
        ...

    def close(self) -> None: ...


class Lock(Protocol):
    """A held lock; the end of the process gives it back too."""

    def release(self) -> None: ...


class Files(Protocol):
    """A file system. Methods raise `OSError` where nothing else is said."""

    def make_folder(self, path: Path) -> None: ...

    def names(self, folder: Path) -> list[str]:
        """Sorted; empty when there is no such folder."""
        ...

    def size(self, path: Path) -> int:
        """Bytes; 0 when there is no such file."""
        ...

    def exists(self, path: Path) -> bool: ...

    def open(self, path: Path, *, size_bytes: int | None = None) -> File:
        """With a size: made as a sparse file of zeros unless it exists; then given that size."""
        ...

    def read(self, path: Path) -> bytes | None:
        """The whole file, None when there is none."""
        ...

    def replace(self, path: Path, data: bytes, *, keep: Path | None = None) -> None:
        """The whole file at once: at any time either the old or the new one is there.

        The old one stays as `keep`. Raises `DiskFull`; then nothing has changed.
        """
        ...

    async def replace_async(self, path: Path, data: bytes, *, keep: Path | None = None) -> None:
        """The same without blocking the event loop."""
        ...

    def remove(self, path: Path) -> None: ...

    def sync(self, path: Path) -> None:
        """fdatasync of a file that need not be open."""
        ...

    def sync_folder(self, folder: Path) -> None: ...

    def free_bytes(self, path: Path) -> int: ...

    def total_bytes(self, path: Path) -> int:
        """What can be used of the disk, free or not."""
        ...

    def lock(self, path: Path) -> Lock:
        """Hold `path` for this process. Raises `DirectoryInUse` naming the holder."""
        ...


def disk_full(wrong: OSError, path: Path) -> DiskFull | None:
    """The typed error for `wrong`, if that is what it means."""
    return DiskFull(path=path) if wrong.errno in _FULL else None


@contextmanager
def writing_to(path: Path) -> Iterator[None]:
    """Inside, who may not write there learns whose it is. Raises `DirectoryNotWritable`."""
    try:
        yield
    except OSError as wrong:
        if wrong.errno not in _DENIED:
            raise
        denied = Path(wrong.filename or path)
        reason = "the file system is read-only; mount a disk or a volume there"
        if wrong.errno != errno.EROFS:
            there = next(one for one in (denied, *denied.parents) if os.path.lexists(one))
            owner = there.stat().st_uid
            reason = (
                f"{there} belongs to user {owner}; chown -R {os.geteuid()} it, or run as {owner}"
            )
        raise DirectoryNotWritable(path=path, user=os.geteuid(), reason=reason) from wrong


class OsFile:
    def __init__(self, number: int) -> None:
        self._number = number
        self._map: mmap.mmap | None = None

    def pwrite(self, data: bytes, offset: int) -> None:
        done = os.pwrite(self._number, data, offset)
        while done < len(data):  # a nearly full disk takes a part first
            done += os.pwrite(self._number, data[done:], offset + done)

    def pread(self, size_bytes: int, offset: int) -> bytes:
        return os.pread(self._number, size_bytes, offset)

    def mapped(self, size_bytes: int, offset: int) -> bytes:
        if self._map is None:
            self._map = mmap.mmap(self._number, 0, prot=mmap.PROT_READ)
        return self._map[offset : offset + size_bytes]

    def next_data(self, offset: int) -> int | None:
        try:
            return os.lseek(self._number, offset, os.SEEK_DATA)
        except OSError as wrong:
            if wrong.errno == errno.ENXIO:  # only a hole is left
                return None
            raise

    def truncate(self, size_bytes: int) -> None:
        os.ftruncate(self._number, size_bytes)

    def fdatasync(self) -> None:
        os.fdatasync(self._number)

    def close(self) -> None:
        if self._map is not None:
            self._map.close()
            self._map = None
        os.close(self._number)


class OsLock:
    """An advisory lock on a file that holds our process id."""

    def __init__(self, path: Path) -> None:
        self._number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            fcntl.flock(self._number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._number, 32, 0).decode("ascii", "replace").strip()
            os.close(self._number)
            raise DirectoryInUse(path=path.parent, holder=f"process {holder or '?'}") from None
        os.ftruncate(self._number, 0)
        os.pwrite(self._number, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        os.close(self._number)


class OsFiles:
    def make_folder(self, path: Path) -> None:
        missing = [folder for folder in (path, *path.parents) if not folder.is_dir()]
        for folder in reversed(missing):
            folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
        for folder in missing:
            self.sync_folder(folder.parent)

    def names(self, folder: Path) -> list[str]:
        return sorted(os.listdir(folder)) if folder.is_dir() else []

    def size(self, path: Path) -> int:
        try:
            return path.stat().st_size
        except FileNotFoundError:
            return 0

    def exists(self, path: Path) -> bool:
        return path.exists()

    def open(self, path: Path, *, size_bytes: int | None = None) -> OsFile:
        create = os.O_CREAT if size_bytes is not None else 0
        number = os.open(path, os.O_RDWR | os.O_CLOEXEC | create, FILE_MODE)
        try:
            if size_bytes is not None and os.fstat(number).st_size != size_bytes:
                os.ftruncate(number, size_bytes)
        except OSError:
            os.close(number)
            raise
        return OsFile(number)

    def read(self, path: Path) -> bytes | None:
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None

    def replace(self, path: Path, data: bytes, *, keep: Path | None = None) -> None:
        fresh = _fresh(path)
        try:
            with open(fresh, "wb", opener=opened_privately) as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            self._publish(fresh, path, keep)
        except OSError as wrong:
            raise disk_full(wrong, path) or wrong from wrong

    async def replace_async(self, path: Path, data: bytes, *, keep: Path | None = None) -> None:
        fresh = _fresh(path)
        try:
            async with aiofiles.open(fresh, "wb", opener=opened_privately) as file:
                await file.write(data)
                await file.flush()
                await aiofiles.os.wrap(os.fsync)(file.fileno())
            await aiofiles.os.wrap(self._publish)(fresh, path, keep)
        except OSError as wrong:
            raise disk_full(wrong, path) or wrong from wrong

    def _publish(self, fresh: Path, path: Path, keep: Path | None) -> None:
        if keep is not None and path.exists():
            second = _fresh(keep)  # a second name first: there is no moment without a whole file
            second.unlink(missing_ok=True)
            os.link(path, second)
            os.replace(second, keep)
        os.replace(fresh, path)
        self.sync_folder(path.parent)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def sync(self, path: Path) -> None:
        number = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.fdatasync(number)
        finally:
            os.close(number)

    def sync_folder(self, folder: Path) -> None:
        number = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(number)
        finally:
            os.close(number)

    def free_bytes(self, path: Path) -> int:
        disk = os.statvfs(path)
        return disk.f_bavail * disk.f_frsize

    def total_bytes(self, path: Path) -> int:
        disk = os.statvfs(path)
        return (disk.f_blocks - disk.f_bfree + disk.f_bavail) * disk.f_frsize

    def lock(self, path: Path) -> OsLock:
        return OsLock(path)


def _fresh(path: Path) -> Path:
    return path.with_name(path.name + ".tmp")
