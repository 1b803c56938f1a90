"""Files that hold messages are for one user alone, whatever the umask."""

import os
from pathlib import Path
from typing import Final

FILE_MODE: Final = 0o600
FOLDER_MODE: Final = 0o700


def opened_privately(path: str, flags: int) -> int:
    """For `open`'s `opener`: a file that is made is readable by its owner alone."""
    return os.open(path, flags | os.O_CLOEXEC, FILE_MODE)


def make_folder(folder: Path) -> None:
    """With the parents that are missing. A folder that is there keeps its mode."""
    for one in (*reversed(folder.parents), folder):
        one.mkdir(FOLDER_MODE, exist_ok=True)
