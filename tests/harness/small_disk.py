"""A small disk: a tmpfs, mounted for real. Needs root."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SIZE_BYTES = 48 << 20


@dataclass
class SmallDisk:
    path: Path

    @property
    def free_bytes(self) -> int:
        disk = os.statvfs(self.path)
        return disk.f_bavail * disk.f_frsize

    def fill(self, leave_bytes: int) -> None:
        """With a file that is nobody's."""
        with open(self._ballast, "ab") as file:
            size_bytes = max(1, self.free_bytes - leave_bytes)
            os.posix_fallocate(file.fileno(), file.tell(), size_bytes)

    def make_room(self) -> None:
        self._ballast.unlink()

    @property
    def _ballast(self) -> Path:
        return self.path / "ballast"


@contextmanager
def small_disk(folder: Path, size_bytes: int = SIZE_BYTES) -> Iterator[SmallDisk]:
    """Mounted at `folder`. Raises `RuntimeError` where that cannot be done."""
    folder.mkdir()
    options = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(folder)]
    mounted = subprocess.run(options, capture_output=True, text=True, check=False)
    if mounted.returncode:
        raise RuntimeError(f"small disks are mounted by root; this failed: {mounted.stderr}")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", str(folder)], check=True)
