"""One writer per data directory: an advisory lock on the file `lock`, holding our process id."""

import fcntl
import os
from pathlib import Path

from popmq_common.errors import DirectoryInUse


class LockFile:
    def __init__(self, data_dir: Path) -> None:
        """Raises `DirectoryInUse` naming the holder."""
        self._file = os.open(data_dir / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._file, 32, 0).decode("ascii", "replace").strip()
            os.close(self._file)
            raise DirectoryInUse(path=data_dir, holder=f"process {holder or '?'}") from None
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        os.close(self._file)
