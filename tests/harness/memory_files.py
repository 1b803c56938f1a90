"""A disk in memory that forgets what was not synced, and fails when told to.

    files = MemoryFiles()
    … a store runs on it …
    files.crash()                      everything that was not synced is gone
    files.crash(random.Random(7))      some of it is kept: any writes, in any order, torn anywhere

A crash leaves the same object as the disk the next store opens; what the dead one still does to
its open files is passed over. Folders are durable at once; names of files after `sync_folder`.
"""

import errno
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from popmq_broker.store.files.files import disk_full
from popmq_common.errors import DirectoryInUse

SECTOR_BYTES = 512


class PowerCut(BaseException):
    """The machine went off in the middle of something."""


@dataclass(slots=True)
class Inode:
    """One file: as the process sees it, and what of it is on disk."""

    data: bytearray = field(default_factory=bytearray)
    synced: bytes = b""
    unsynced: list[tuple[int, bytes | None]] = field(default_factory=list)
    """(offset, bytes) written or (size, None) truncated since then, in order."""

    def apply(self, offset: int, data: bytes | None) -> None:
        if data is None:
            if offset <= len(self.data):
                del self.data[offset:]
            self.data.extend(bytes(offset - len(self.data)))
        else:
            self.data.extend(bytes(max(0, offset + len(data) - len(self.data))))
            self.data[offset : offset + len(data)] = data

    def write(self, offset: int, data: bytes | None) -> None:
        self.apply(offset, data)
        self.unsynced.append((offset, data))

    def sync(self) -> None:
        self.synced = bytes(self.data)
        self.unsynced.clear()

    def crash(self, random: Random | None) -> None:
        if not self.unsynced:
            return
        lost, self.unsynced = self.unsynced, []
        self.data = bytearray(self.synced)
        if random is not None:
            for offset, data in _survivors(lost, random):
                self.apply(offset, data)
        self.synced = bytes(self.data)


def _survivors(
    lost: list[tuple[int, bytes | None]], random: Random
) -> Iterator[tuple[int, bytes | None]]:
    """Either a prefix whose last write is torn, or any sectors of any writes.

    What lies within one sector is written whole or not at all.
    """
    if random.random() < 0.5:
        count = random.randint(0, len(lost))
        yield from lost[:count]
        if count < len(lost) and (data := lost[count][1]) is not None:
            offset = lost[count][0]
            if offset // SECTOR_BYTES != (offset + len(data)) // SECTOR_BYTES:
                yield offset, data[: random.randint(0, len(data))]
        return
    kept = random.choice([0.1, 0.5, 0.7, 0.95])
    for offset, data in lost:
        if data is None:
            yield offset, None  # sizes are journaled in order
            continue
        at = 0
        while at < len(data):
            end = min(len(data), at + SECTOR_BYTES - (offset + at) % SECTOR_BYTES)
            if random.random() < kept:
                yield offset + at, data[at:end]
            at = end


def _no_trouble(method: str) -> None:
    return


class MemoryFiles:
    def __init__(self, *, capacity_bytes: int = 1 << 40) -> None:
        self.capacity_bytes = capacity_bytes
        """Writes beyond this fail with ENOSPC, after what still fits."""
        self.sync_error: OSError | None = None
        """What every fdatasync raises from now on."""
        self.write_error: OSError | None = None
        """What every pwrite raises from now on."""
        self.steps_left: int | None = None
        """So many changes of the disk until the power goes off."""
        self.trouble: Callable[[str], None] = _no_trouble
        """Called with the method's name before whatever changes the disk; may raise `OSError`."""
        self.sync_count = 0
        self.syncs_may_run = threading.Event()
        """While cleared, fdatasync does not return."""
        self.syncs_may_run.set()
        self._mutex = threading.RLock()
        self._names: dict[Path, Inode] = {}
        self._durable_names: dict[Path, Inode] = {}
        self._folders: set[Path] = set()
        self._locked: set[Path] = set()
        self._life = 0

    def crash(self, random: Random | None = None) -> None:
        """The machine loses power: see the module."""
        with self._mutex:
            self._life += 1
            self._locked.clear()
            names = dict(self._durable_names)
            if random is not None:
                for path in sorted(self._names.keys() ^ names.keys()):
                    if random.random() < 0.5:
                        if path in self._names:
                            names[path] = self._names[path]
                        else:
                            del names[path]
            for inode in {id(inode): inode for inode in names.values()}.values():
                inode.crash(random)
            self._names, self._durable_names = names, dict(names)

    def would_lose(self, folder: str) -> bool:
        """Something was written in a folder of this name that is not on disk."""
        with self._mutex:
            return any(
                inode.unsynced for path, inode in self._names.items() if path.parent.name == folder
            )

    def _step(self) -> None:
        if self.steps_left is not None:
            self.steps_left -= 1
            if self.steps_left < 0:
                raise PowerCut

    def kill(self) -> None:
        """The process dies, the machine lives: what was written is there."""
        with self._mutex:
            self._life += 1
            self._locked.clear()

    def damage(self, path: Path, offset: int, data: bytes) -> None:
        """Bytes on disk change."""
        inode = self._names[path]
        inode.apply(offset, data)
        inode.sync()

    def shorten(self, path: Path, size_bytes: int) -> None:
        inode = self._names[path]
        inode.apply(size_bytes, None)
        inode.sync()

    def lose(self, path: Path) -> None:
        """The file is gone, also from the disk."""
        del self._names[path]
        self._durable_names.pop(path, None)

    @contextmanager
    def held_syncs(self) -> Iterator[None]:
        self.syncs_may_run.clear()
        try:
            yield
        finally:
            self.syncs_may_run.set()

    def paths(self, folder: Path) -> list[Path]:
        return sorted(path for path in self._names if folder in path.parents)

    @property
    def used_bytes(self) -> int:
        """Counts bytes that are not zero, as a sparse file system would in small."""
        return sum(len(i.data) - i.data.count(0) for i in self._names.values())

    # --- Files ---

    def make_folder(self, path: Path) -> None:
        if path not in self._folders:
            self.trouble("make_folder")
        self._folders.update((path, *path.parents))

    def names(self, folder: Path) -> list[str]:
        with self._mutex:
            found = {p.name for p in self._names if p.parent == folder}
            found |= {p.name for p in self._folders if p.parent == folder and p != folder}
            return sorted(found)

    def size(self, path: Path) -> int:
        inode = self._names.get(path)
        return len(inode.data) if inode else 0

    def exists(self, path: Path) -> bool:
        return path in self._names

    def open(self, path: Path, *, size_bytes: int | None = None) -> "MemoryFile":
        with self._mutex:
            inode = self._names.get(path)
            if inode is None:
                if size_bytes is None or path.parent not in self._folders:
                    raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
                self.trouble("open")
                inode = self._names[path] = Inode()
            if size_bytes is not None and len(inode.data) != size_bytes:
                inode.write(size_bytes, None)
            return MemoryFile(self, inode, self._life)

    def read(self, path: Path) -> bytes | None:
        inode = self._names.get(path)
        return bytes(inode.data) if inode else None

    def replace(self, path: Path, data: bytes, *, keep: Path | None = None) -> None:
        self._step()
        with self._mutex:
            try:
                self.trouble("replace")
                if self.used_bytes + len(data) > self.capacity_bytes:
                    raise OSError(errno.ENOSPC, "no space left")
            except OSError as wrong:
                raise disk_full(wrong, path) or wrong from wrong
            if keep is not None and path in self._names:
                self._names[keep] = self._durable_names[keep] = self._names[path]
            inode = Inode(bytearray(data), bytes(data))
            self._names[path] = self._durable_names[path] = inode

    async def replace_async(self, path: Path, data: bytes, *, keep: Path | None = None) -> None:
        self.replace(path, data, keep=keep)

    def remove(self, path: Path) -> None:
        self._step()
        with self._mutex:
            self.trouble("remove")
            self._names.pop(path, None)

    def sync(self, path: Path) -> None:
        self.open(path).fdatasync()

    def sync_folder(self, folder: Path) -> None:
        self._step()
        with self._mutex:
            self.trouble("sync_folder")
            for path in dict.fromkeys((*self._names, *self._durable_names)):  # in a fixed order
                if path.parent != folder:
                    continue
                if path in self._names:
                    self._durable_names[path] = self._names[path]
                else:
                    del self._durable_names[path]

    def free_bytes(self, path: Path) -> int:
        return self.capacity_bytes - self.used_bytes

    def total_bytes(self, path: Path) -> int:
        return self.capacity_bytes

    def lock(self, path: Path) -> "MemoryLock":
        if path in self._locked:
            raise DirectoryInUse(path=path.parent, holder="process ?")
        self._locked.add(path)
        return MemoryLock(self, path, self._life)

    def unlock(self, path: Path, life: int) -> None:
        if life == self._life:
            self._locked.discard(path)

    # --- what an open file does ---

    def pwrite(self, inode: Inode, data: bytes, offset: int) -> None:
        self._step()
        with self._mutex:
            if self.write_error is not None:
                raise self.write_error
            self.trouble("pwrite")
            room = self.capacity_bytes - self.used_bytes
            if len(data) > room:
                inode.write(offset, data[: max(0, room)])
                raise OSError(errno.ENOSPC, "no space left")
            inode.write(offset, data)

    def fdatasync(self, inode: Inode, life: int) -> None:
        self.syncs_may_run.wait(10)
        self._step()
        with self._mutex:
            if self.sync_error is not None:
                raise self.sync_error
            if life == self._life:
                self.trouble("fdatasync")
            if life == self._life:
                self.sync_count += 1
                inode.sync()

    def is_alive(self, life: int) -> bool:
        return life == self._life


class MemoryLock:
    def __init__(self, disk: MemoryFiles, path: Path, life: int) -> None:
        self._disk = disk
        self._path = path
        self._life = life

    def release(self) -> None:
        self._disk.unlock(self._path, self._life)


class MemoryFile:
    def __init__(self, disk: MemoryFiles, inode: Inode, life: int) -> None:
        self._disk = disk
        self._inode = inode
        self._life = life

    def pwrite(self, data: bytes, offset: int) -> None:
        if self._disk.is_alive(self._life):
            self._disk.pwrite(self._inode, bytes(data), offset)

    def pread(self, size_bytes: int, offset: int) -> bytes:
        return bytes(self._inode.data[offset : offset + size_bytes])

    def mapped(self, size_bytes: int, offset: int) -> bytes:
        return self.pread(size_bytes, offset)

    def next_data(self, offset: int) -> int | None:
        rest = self._inode.data[offset:]
        zeros = len(rest) - len(rest.lstrip(b"\0"))
        return offset + zeros if zeros < len(rest) else None

    def truncate(self, size_bytes: int) -> None:
        self._disk._step()
        if self._disk.is_alive(self._life):
            self._disk.trouble("truncate")
            self._inode.write(size_bytes, None)

    def fdatasync(self) -> None:
        self._disk.fdatasync(self._inode, self._life)

    def close(self) -> None:
        return
