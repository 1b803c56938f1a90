"""Where snapshots are written and looked up: a local directory, or a URL that fsspec knows.

    ROOT/SNAPSHOT_ID/TABLE.parquet …, manifest.json

A file is hashed while it is written. On a local disk it is synced after each row group, so that
little of it waits in the page cache: a broker on the same disk waits for its own fdatasync, and
that of a journaling file system may write what others have waiting. Its files and folders are for
their owner alone, whatever the umask: they have what was in the messages.
"""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Final, Protocol

from popmq_common.process.private_files import make_folder, opened_privately
from popmq_pipelines.snapshot.manifest import MANIFEST
from popmq_pipelines.snapshot.seal import SEAL

_OURS: Final = (".parquet", MANIFEST, f"{MANIFEST}.tmp", SEAL)


class NoDestination(Exception):
    """The place cannot be used; the text says why."""


class Sink:
    """A file that is written from its begin to its end, for pyarrow. `sync` may be None."""

    def __init__(self, file: IO[bytes], sync: Callable[[], None] | None) -> None:
        self._file = file
        self._sync = sync
        self._hash = hashlib.sha256()
        self.size_bytes = 0
        self.closed = False

    def write(self, data: Any) -> int:
        self._hash.update(data)
        self._file.write(data)
        size_bytes = memoryview(data).nbytes
        self.size_bytes += size_bytes
        return size_bytes

    def tell(self) -> int:
        return self.size_bytes

    def flush(self) -> None:
        self._file.flush()

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def sync(self) -> None:
        """What was written so far is on disk, where there is one."""
        self._file.flush()
        if self._sync is not None:
            self._sync()

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._file.close()

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()


class Destination(Protocol):
    """A folder of snapshots. Methods raise `OSError`."""

    def names(self) -> list[str]:
        """Of what lies in it, in order; empty if it is not there."""
        ...

    def create(self, snapshot: str, name: str) -> Sink: ...

    def read(self, snapshot: str, name: str) -> bytes:
        """Raises `FileNotFoundError`."""
        ...

    def finish(self, snapshot: str, manifest: bytes) -> None:
        """Put the manifest in place, at once: now there is a snapshot."""
        ...

    def remove(self, snapshot: str) -> None:
        """The manifest first, so that no half snapshot looks whole; then our files."""
        ...

    def digest(self, snapshot: str, name: str) -> str:
        """SHA-256 of a file as it lies there. Raises `FileNotFoundError`."""
        ...

    def at(self, snapshot: str) -> str:
        """How people name it."""
        ...


def open_destination(place: str) -> Destination:
    """A path, or PROTOCOL://…, for which fsspec must be installed. Raises `NoDestination`."""
    if "://" not in place:
        return LocalFolder(Path(place))
    try:
        from fsspec.core import url_to_fs
    except ModuleNotFoundError as missing:
        raise NoDestination(f"{place} needs fsspec: pip install fsspec") from missing
    try:
        files, path = url_to_fs(place)
    except (ValueError, ImportError) as wrong:  # an unknown protocol, or its package is missing
        raise NoDestination(f"{place}: {wrong}") from wrong
    return RemoteFolder(files, path, place.rstrip("/"))


class LocalFolder:
    def __init__(self, root: Path) -> None:
        self._root = root

    def names(self) -> list[str]:
        try:
            return sorted(path.name for path in self._root.iterdir() if path.is_dir())
        except FileNotFoundError:
            return []

    def create(self, snapshot: str, name: str) -> Sink:
        folder = self._root / snapshot
        make_folder(folder)
        file = open(folder / name, "wb", opener=opened_privately)  # noqa: SIM115 - the sink closes it
        return Sink(file, lambda: os.fdatasync(file.fileno()))

    def read(self, snapshot: str, name: str) -> bytes:
        return (self._root / snapshot / name).read_bytes()

    def finish(self, snapshot: str, manifest: bytes) -> None:
        folder = self._root / snapshot
        fresh = folder / f"{MANIFEST}.tmp"
        with open(fresh, "wb", opener=opened_privately) as file:
            file.write(manifest)
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, folder / MANIFEST)
        for place in (folder, self._root):
            _sync_folder(place)

    def remove(self, snapshot: str) -> None:
        folder = self._root / snapshot
        (folder / MANIFEST).unlink(missing_ok=True)
        for path in folder.iterdir():
            if path.name.endswith(_OURS):
                path.unlink()
        folder.rmdir()

    def digest(self, snapshot: str, name: str) -> str:
        with open(self._root / snapshot / name, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def at(self, snapshot: str) -> str:
        return str(self._root / snapshot)


class RemoteFolder:
    """`files`: a file system of fsspec. A manifest is small, so it is put there by one request."""

    def __init__(self, files: Any, root: str, url: str) -> None:
        self._files = files
        self._root = root.rstrip("/")
        self._url = url

    def _path(self, *parts: str) -> str:
        return "/".join((self._root, *parts))

    def names(self) -> list[str]:
        try:
            found = self._files.ls(self._root, detail=False)
        except FileNotFoundError:
            return []
        return sorted(str(path).rstrip("/").rpartition("/")[2] for path in found)

    def create(self, snapshot: str, name: str) -> Sink:
        self._files.makedirs(self._path(snapshot), exist_ok=True)
        return Sink(self._files.open(self._path(snapshot, name), "wb"), None)

    def read(self, snapshot: str, name: str) -> bytes:
        found: bytes = self._files.cat_file(self._path(snapshot, name))
        return found

    def finish(self, snapshot: str, manifest: bytes) -> None:
        self._files.pipe_file(self._path(snapshot, MANIFEST), manifest)

    def remove(self, snapshot: str) -> None:
        names = sorted(
            str(path).rpartition("/")[2]
            for path in self._files.ls(self._path(snapshot), detail=False)
        )
        for name in sorted(names, key=lambda name: name != MANIFEST):
            if name.endswith(_OURS):
                self._files.rm_file(self._path(snapshot, name))
        self._files.rmdir(self._path(snapshot))

    def digest(self, snapshot: str, name: str) -> str:
        found = hashlib.sha256()
        with self._files.open(self._path(snapshot, name), "rb") as file:
            while part := file.read(1 << 20):
                found.update(part)
        return found.hexdigest()

    def at(self, snapshot: str) -> str:
        return f"{self._url}/{snapshot}"


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
