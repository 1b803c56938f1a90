"""Small JSON files under config/, each replaced as a whole.

    NAME       the current one          NAME.bak   the one before          NAME.tmp   being written

The new text is on disk before it takes the name, and the old one gets the name NAME.bak besides,
so at any moment there is one that can be read. Each begins with a checksum of the rest,

    {"popmqCrc32":"1a2b3c4d",…

so that no changed digit is taken for a position. RocketMQ passes over the name; a file that it
wrote, or an older version did, has none and is taken as it is.
"""

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar
from zlib import crc32

from popmq_broker.store.files import Files
from popmq_common.errors import Corrupt
from popmq_common.logs import Log

T = TypeVar("T")
_SIGNED: Final = re.compile(r'\{"popmqCrc32":"([0-9a-f]{8})",?')


def _signed(text: str) -> str:
    """`text`, a JSON object, with its checksum."""
    rest = text[1:]
    comma = "" if rest.lstrip().startswith("}") else ","
    return f'{{"popmqCrc32":"{crc32(rest.encode()):08x}"{comma}{rest}'


def _checked(text: str) -> str:
    """Without the checksum. Raises `ValueError` if it is wrong."""
    found = _SIGNED.match(text)
    if found is None:
        if "popmqCrc32" in text:
            raise ValueError("the checksum is damaged")
        return text
    rest = text[found.end() :]
    if crc32(rest.encode()) != int(found[1], 16):
        raise ValueError("the checksum is wrong")
    return "{" + rest


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
        damaged: Corrupt | None = None
        for path in (self._folder / name, self._folder / f"{name}.bak"):
            data = self._files.read(path)
            if not data:  # RocketMQ, killed at the wrong moment, leaves an empty one
                continue
            try:
                value = decode(_checked(data.decode()))
            except (Corrupt, ValueError) as wrong:
                damaged = damaged or Corrupt(path=path, offset=0, reason=str(wrong))
                self._log.warning("config.damaged", path=str(path), reason=str(wrong))
                continue
            if damaged is not None:
                self._log.warning("config.restored", path=str(path))
            return value
        if damaged is not None:
            raise damaged
        return None

    async def save(self, name: str, text: str) -> None:
        """One at a time, in the order of the calls. Raises `DiskFull`; the file is as it was."""
        path = self._folder / name
        async with self._turn:
            data, keep = _signed(text).encode(), self._folder / f"{name}.bak"
            saving = asyncio.ensure_future(self._files.replace_async(path, data, keep=keep))
            try:
                await asyncio.shield(saving)
            except asyncio.CancelledError:
                await saving  # its thread goes on: the next save must not meet it
                raise
