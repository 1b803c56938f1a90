"""Small JSON files under config/, each replaced as a whole.

    NAME       the current one          NAME.bak   the one before          NAME.tmp   being written

The new text is on disk before it takes the name, and the old one keeps the name NAME.bak, so a
crash at any moment leaves one that can be read.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import aiofiles

from popmq_broker.store.segments import disk_full, sync_folder
from popmq_common.errors import Corrupt
from popmq_common.logs import Log

T = TypeVar("T")


class ConfigFiles:
    def __init__(self, folder: Path, log: Log) -> None:
        self._folder = folder
        self._log = log
        folder.mkdir(parents=True, exist_ok=True)

    def load(self, name: str, decode: Callable[[str], T]) -> T | None:
        """What `decode` makes of the file, or of its backup; None when there is neither.

        Raises `Corrupt` when what is there cannot be decoded.
        """
        damaged: Corrupt | None = None
        for path in (self._folder / name, self._folder / f"{name}.bak"):
            try:
                value = decode(path.read_text())
            except FileNotFoundError:
                continue
            except (Corrupt, UnicodeDecodeError) as wrong:
                reason = Corrupt(path=path, offset=0, reason=str(wrong))
                damaged = damaged or reason
                self._log.warning("config.damaged", path=str(path), reason=str(wrong))
                continue
            if damaged is not None:
                self._log.warning("config.restored", path=str(path))
            return value
        if damaged is not None:
            raise damaged
        return None

    async def save(self, name: str, text: str) -> None:
        """Raises `DiskFull`; then the file is as it was."""
        path = self._folder / name
        fresh = self._folder / f"{name}.tmp"
        try:
            async with aiofiles.open(fresh, "w") as file:
                await file.write(text)
                await file.flush()
                os.fsync(file.fileno())
        except OSError as wrong:
            full = disk_full(wrong, path)
            if full is None:
                raise
            raise full from wrong
        if path.exists():
            os.replace(path, self._folder / f"{name}.bak")
        os.replace(fresh, path)
        sync_folder(self._folder)
