"""Whose a data directory's files are."""

import os
import pwd
from pathlib import Path
from typing import Final

FILES_LOOKED_AT: Final = 64
"""Of each folder; who copies a directory as another user does so with all of it."""


def foreign_owner(folder: Path) -> str:
    """Who else than this process's user owns something in the data directory; empty: nobody."""
    own = os.geteuid()
    for place in (folder, *(folder / name for name in ("commitlog", "config", "consumequeue"))):
        try:
            paths = [place, *sorted(place.iterdir())[:FILES_LOOKED_AT]]
            owners = {path.stat().st_uid for path in paths} - {own}
        except FileNotFoundError:
            continue
        except PermissionError:
            return "somebody who does not let this broker read it"
        if owners:
            return _name(min(owners))
    return ""


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
