"""Fixed-size sparse files as one address space of bytes.

A file's name is the 20-digit offset of its first byte. Writes go through the page cache with
pwrite, so a full disk is an error of the write and not a signal; reads come from a mapping.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from popmq_broker.store.files.files import File, Files, disk_full
from popmq_common.errors import StoreClosed

NAME_DIGITS: Final = 20
SEARCH_BYTES: Final = 1 << 20


class Found(NamedTuple):
    """A file as the directory shows it."""

    base: int
    size_bytes: int


def numbered(files: Files, folder: Path) -> list[Found]:
    """The files of `folder` whose names are offsets, in order; other names are passed over."""
    return [
        Found(int(name), files.size(folder / name))
        for name in files.names(folder)
        if len(name) == NAME_DIGITS and name.isascii() and name.isdigit()
    ]


def name(base: int) -> str:
    return f"{base:0{NAME_DIGITS}d}"


class Segments:
    def __init__(
        self,
        files: Files,
        folder: Path,
        segment_bytes: int,
        found: list[Found],
        *,
        as_it_is: bool = False,
    ) -> None:
        """Opens `found`: whole files without a gap; recovery has seen to that. `as_it_is`: to read
        alone, and a short file stays short."""
        self.folder = folder
        self.segment_bytes = segment_bytes
        self._disk = files
        self.closed = False
        self._files = {
            base: files.open(folder / name(base), size_bytes=None if as_it_is else segment_bytes)
            for base, _ in found
        }

    @property
    def start(self) -> int:
        return min(self._files, default=0)

    @property
    def end(self) -> int:
        """Behind the last file."""
        return max(self._files) + self.segment_bytes if self._files else 0

    def path(self, offset: int) -> Path:
        return self.folder / name(self.base(offset))

    def base(self, offset: int) -> int:
        return offset - offset % self.segment_bytes

    def write(self, offset: int, data: bytes) -> None:
        """`data` lies within one file, which is made if it does not exist. Raises `DiskFull`."""
        base = self.base(offset)
        assert offset + len(data) <= base + self.segment_bytes
        try:
            file = self._files.get(base) or self._create(base)
            file.pwrite(data, offset - base)
        except OSError as wrong:
            raise disk_full(wrong, self.path(offset)) or wrong from wrong

    def _create(self, base: int) -> File:
        path = self.path(base)
        try:
            file = self._disk.open(path, size_bytes=self.segment_bytes)
        except OSError:
            self._disk.remove(path)
            raise
        self._files[base] = file
        self._disk.sync_folder(self.folder)
        return file

    def read(self, offset: int, size_bytes: int) -> bytes:
        """Bytes within one file; fewer at its end, none when it does not exist. Raises
        `StoreClosed`: what cannot be read any more must not look like what is not there."""
        base = offset - offset % self.segment_bytes
        file = self._files.get(base)
        if file is not None:
            return file.mapped(size_bytes, offset - base)
        if self.closed:
            raise StoreClosed()
        return b""

    def zero_from(self, offset: int) -> None:
        """Make everything from `offset` on unwritten again, also on disk; later files go."""
        gone = sorted(base for base in self._files if base > offset)
        for base in reversed(gone):
            self._files.pop(base).close()
            self._disk.remove(self.path(base))
        file = self._files.get(self.base(offset))
        if file is not None:
            file.truncate(offset - self.base(offset))
            file.truncate(self.segment_bytes)
            file.fdatasync()
        if gone:
            self._disk.sync_folder(self.folder)

    def forget(self, base: int) -> File:
        """The file is read no more. The caller closes and removes it."""
        return self._files.pop(base)

    def data_from(self, offset: int) -> Iterator[tuple[int, bytes]]:
        """(offset, bytes) of what is not a hole; pieces overlap by 4 bytes and stay in a file."""
        for base in sorted(self._files):
            file = self._files.get(base)  # it may have been forgotten meanwhile
            at: int | None = max(0, offset - base)
            while file is not None and at is not None and at < self.segment_bytes:
                at = file.next_data(at)
                if at is None:
                    break
                piece = file.pread(SEARCH_BYTES, at)
                yield base + at, piece
                at += max(1, len(piece) - 4 if len(piece) == SEARCH_BYTES else len(piece))

    def sync(self, start: int, end: int) -> None:
        """fdatasync every file that [start, end) touches; may run in another thread."""
        base = self.base(start)
        while base < end:
            file = self._files.get(base)
            if file is not None:
                file.fdatasync()
            base += self.segment_bytes

    def close(self) -> None:
        self.closed = True
        for file in self._files.values():
            file.close()
        self._files = {}
