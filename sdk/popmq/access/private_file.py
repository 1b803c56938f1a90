"""Files that hold a secret: only their owner may read them."""

import os
import stat
import tempfile
from pathlib import Path
from typing import Final

from popmq.errors import UnusableSettings

BYTES_MAX: Final = 1 << 20
OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def read_private(path: str | os.PathLike[str]) -> str:
    """Raises `UnusableSettings`: it is missing, no text, or others can read it."""
    try:
        with open(path, "rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if os.name == "posix" and mode & OTHERS:
                text = f"others can read {path}, which holds a secret (mode {mode:04o})"
                raise UnusableSettings(f"{text}: chmod 600 {path}")
            content = file.read(BYTES_MAX + 1)
    except (OSError, ValueError) as wrong:
        raise UnusableSettings(f"{path} cannot be read: {wrong}") from wrong
    if len(content) > BYTES_MAX:
        raise UnusableSettings(f"{path} is larger than {BYTES_MAX} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError as wrong:
        raise UnusableSettings(f"{path} is not UTF-8") from wrong


def write_private(path: Path, text: str) -> None:
    """As a whole, with mode 0600; a folder that is missing is made for its owner alone. Raises
    `OSError`."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    number, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # mode 0600
    try:
        with open(number, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
