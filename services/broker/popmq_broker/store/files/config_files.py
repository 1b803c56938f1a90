"""Small JSON files under config/, each replaced as a whole.

    NAME       the current one          NAME.bak   the one before          NAME.tmp   being written

The new text is on disk before it takes the name, and the old one gets the name NAME.bak besides,
so at any moment there is one that can be read. Each ends with a checksum
(core/store/json_checksum.py).

A start that has to take the backup goes on without what the last save held, and says so in the
log: nothing else will.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from popmq_broker.core.store import json_checksum
from popmq_broker.store.files.files import Files
from popmq_common.errors import Corrupt
from popmq_common.process.logs import Log

T = TypeVar("T")


class ConfigFiles:
    def __init__(self, files: Files, folder: Path, log: Log) -> None:
        self._files = files
        self._folder = folder
        self._log = log
        self._turn = asyncio.Lock()
        files.make_folder(folder)

    def load(self, name: str, decode: Callable[[str], T]) -> T | None:
        """What `decode` makes of the file, or of its backup; None when there is neither.

        `decode` raises `Corrupt` or `ValueError` for what it cannot read. Raises `Corrupt` when
        that holds for all that is there.
        """
        current, backup = self._folder / name, self._folder / f"{name}.bak"
        damaged: Corrupt | None = None
        for path in (current, backup):
            data = self._files.read(path)
            if not data:  # RocketMQ, killed at the wrong moment, leaves an empty one
                continue
            try:
                value = decode(json_checksum.verify(data))
            except (Corrupt, ValueError) as wrong:
                damaged = damaged or Corrupt(path=path, offset=0, reason=str(wrong))
                self._log.warning("config.damaged", path=str(path), reason=str(wrong))
                continue
            if path == backup:
                lost = f"changes of the last save of {name} are lost; see popmq store check"
                self._log.warning("config.restored", path=str(path), means=lost)
            return value
        if damaged is not None:
            raise damaged
        return None

    def forget(self, name: str) -> None:
        """Both generations are gone when it returns."""
        for path in (self._folder / f"{name}.bak", self._folder / name):
            self._files.remove(path)
        self._files.sync_folder(self._folder)

    def begin_anew(self, name: str, text: str) -> None:
        """Nothing of the generations before is there when it returns."""
        self._files.replace(self._folder / name, json_checksum.sign(text))
        self._files.remove(self._folder / f"{name}.bak")
        self._files.sync_folder(self._folder)

    async def save(self, name: str, text: str) -> None:
        """One at a time, in the order of the calls. Raises `DiskFull`; the file is as it was."""
        path = self._folder / name
        async with self._turn:
            saving = asyncio.ensure_future(
                self._files.replace_async(
                    path, json_checksum.sign(text), keep=self._folder / f"{name}.bak"
                )
            )
            try:
                await asyncio.shield(saving)
            except asyncio.CancelledError:
                await saving  # its thread goes on: the next save must not meet it
                raise
