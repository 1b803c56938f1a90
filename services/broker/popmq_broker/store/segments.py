"""Fixed-size sparse files as one address space of bytes.

A file's name is the 20-digit offset of its first byte. Writes go through the page cache with
pwrite, so a full disk is an error of the write and not a signal; reads come from a mapping.
"""

import errno
import mmap
import os
from pathlib import Path

from popmq_common.errors import Corrupt, DiskFull

NAME_DIGITS = 20
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def disk_full(wrong: OSError, path: Path) -> DiskFull | None:
    """The typed error for `wrong`, if that is what it means."""
    return DiskFull(path=path) if wrong.errno in _FULL else None


class Segments:
    def __init__(self, folder: Path, segment_bytes: int) -> None:
        """Opens what is there. Raises `Corrupt` when files are missing or of another size."""
        self.folder = folder
        self.segment_bytes = segment_bytes
        self._files: dict[int, int] = {}
        self._maps: dict[int, mmap.mmap] = {}
        folder.mkdir(parents=True, exist_ok=True)
        for path in sorted(folder.iterdir()):
            if len(path.name) == NAME_DIGITS and path.name.isdigit():
                self._open_existing(path)

    def _open_existing(self, path: Path) -> None:
        base = int(path.name)
        size = path.stat().st_size
        if size != self.segment_bytes:
            reason = f"the file has {size} bytes, not {self.segment_bytes} (segment_bytes)"
            raise Corrupt(path=path, offset=base, reason=reason)
        if self._files and base != max(self._files) + self.segment_bytes:
            raise Corrupt(path=path, offset=base, reason="the file before it is missing")
        self._files[base] = os.open(path, os.O_RDWR)

    @property
    def start(self) -> int:
        return min(self._files, default=0)

    @property
    def end(self) -> int:
        """Behind the last file."""
        return max(self._files) + self.segment_bytes if self._files else 0

    def path(self, offset: int) -> Path:
        return self.folder / f"{self.base(offset):0{NAME_DIGITS}d}"

    def base(self, offset: int) -> int:
        return offset - offset % self.segment_bytes

    def write(self, offset: int, data: bytes) -> None:
        """`data` lies within one file, which is made if it does not exist. Raises `DiskFull`."""
        base = self.base(offset)
        assert offset + len(data) <= base + self.segment_bytes
        try:
            file = self._files.get(base)
            if file is None:
                file = self._create(base)
            done = 0
            while done < len(data):
                done += os.pwrite(file, data[done:] if done else data, offset - base + done)
        except OSError as wrong:
            full = disk_full(wrong, self.path(offset))
            if full is None:
                raise
            raise full from wrong

    def _create(self, base: int) -> int:
        file = os.open(self.path(base), os.O_RDWR | os.O_CREAT, 0o644)
        try:
            os.ftruncate(file, self.segment_bytes)
        except OSError:
            os.close(file)
            self.path(base).unlink()
            raise
        self._files[base] = file
        sync_folder(self.folder)
        return file

    def read(self, offset: int, size_bytes: int) -> bytes:
        """Bytes within one file; empty when the file does not exist."""
        base = self.base(offset)
        file = self._files.get(base)
        if file is None:
            return b""
        mapped = self._maps.get(base)
        if mapped is None:
            mapped = mmap.mmap(file, self.segment_bytes, prot=mmap.PROT_READ)
            self._maps[base] = mapped
        at = offset - base
        return mapped[at : at + size_bytes]

    def zero_from(self, offset: int) -> None:
        """Make everything from `offset` on unwritten again; later files are removed."""
        for base in [base for base in self._files if base > offset]:
            self._close(base)
            self.path(base).unlink()
        file = self._files.get(self.base(offset))
        if file is not None:
            os.ftruncate(file, offset - self.base(offset))
            os.ftruncate(file, self.segment_bytes)

    def is_zero_from(self, offset: int) -> bool:
        """Nothing but zeros from `offset` to the end; holes of sparse files are not read."""
        for base, file in self._files.items():
            at = max(0, offset - base)
            while at < self.segment_bytes:
                try:
                    at = os.lseek(file, at, os.SEEK_DATA)
                except OSError as wrong:
                    if wrong.errno == errno.ENXIO:  # only a hole is left
                        break
                    raise
                chunk = os.pread(file, 1 << 20, at)
                if chunk.count(0) != len(chunk):
                    return False
                at += len(chunk)
        return True

    def sync(self, start: int, end: int) -> None:
        """fdatasync every file that [start, end) touches."""
        base = self.base(start)
        while base < end:
            file = self._files.get(base)
            if file is not None:
                os.fdatasync(file)
            base += self.segment_bytes

    def close(self) -> None:
        for base in list(self._files):
            self._close(base)

    def _close(self, base: int) -> None:
        mapped = self._maps.pop(base, None)
        if mapped is not None:
            mapped.close()
        os.close(self._files.pop(base))


def sync_folder(folder: Path) -> None:
    """Make names that were added to or replaced in `folder` durable."""
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
