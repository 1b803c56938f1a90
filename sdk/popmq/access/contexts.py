"""Contexts: names for servers, each with what a client needs there. They lie in one file:

    {"current": "prod",
     "contexts": {"prod": {"endpoint": "https://queue.example", "accessKey": "alice",
                           "secretKey": "…", "tlsCa": "/etc/popmq/ca.pem"}}}

It is ~/.config/popmq/contexts.json, or lies in $POPMQ_CONFIG_DIR. It holds secrets: only its owner
may read it.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from popmq.access.private_file import read_private, write_private
from popmq.errors import UnusableSettings

FOLDER_VARIABLE: Final = "POPMQ_CONFIG_DIR"
CONTEXT_VARIABLE: Final = "POPMQ_CONTEXT"
DEFAULT: Final = "default"
"""The name for no context."""
CONTEXTS_MAX: Final = 1_000
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_IN_FILE: Final = {
    "endpoint": "endpoint",
    "access_key": "accessKey",
    "secret_key": "secretKey",
    "session_token": "sessionToken",
    "tls_ca": "tlsCa",
    "tls_cert": "tlsCert",
    "tls_key": "tlsKey",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedContext:
    """Empty: it does not say it."""

    endpoint: str = ""
    access_key: str = ""
    secret_key: str = field(default="", repr=False)
    session_token: str = field(default="", repr=False)
    tls_ca: str = ""
    """Of the files the paths."""
    tls_cert: str = ""
    tls_key: str = ""


class Contexts:
    """Those of a file. Every method raises `UnusableSettings`."""

    def __init__(self, path: Path, current: str, saved: Mapping[str, SavedContext]) -> None:
        self.path, self.current, self.saved = path, current, dict(saved)

    def get(self, name: str) -> SavedContext:
        found = self.saved.get(name)
        if found is None:
            raise UnusableSettings(f"there is no context {name!r} in {self.path}")
        return found

    def put(self, name: str, saved: SavedContext) -> None:
        if name == DEFAULT or not NAME.fullmatch(name):
            rule = "64 letters, digits, '.', '_' and '-' at most, and not 'default'"
            raise UnusableSettings(f"{name!r} is no name of a context: {rule}")
        if name not in self.saved and len(self.saved) >= CONTEXTS_MAX:
            raise UnusableSettings(f"{self.path} has {CONTEXTS_MAX} contexts already")
        self.saved[name] = saved

    def use(self, name: str) -> None:
        """From now on, where nothing else is said. `DEFAULT`: none."""
        if name != DEFAULT:
            self.get(name)
        self.current = name

    def remove(self, name: str) -> None:
        self.get(name)
        del self.saved[name]
        if self.current == name:
            self.current = DEFAULT

    def write(self) -> None:
        contexts = {name: _written(saved) for name, saved in sorted(self.saved.items())}
        document = {"current": self.current, "contexts": contexts}
        try:
            write_private(self.path, json.dumps(document, ensure_ascii=False, indent=2) + "\n")
        except (OSError, UnicodeEncodeError) as wrong:
            raise UnusableSettings(f"{self.path} cannot be written: {wrong}") from wrong


def contexts_path(variables: Mapping[str, str]) -> Path:
    folder = variables.get(FOLDER_VARIABLE)
    if folder:
        return Path(folder) / "contexts.json"
    home = variables.get("HOME") or os.path.expanduser("~")
    if not os.path.isabs(home):  # a user without a home, as in a container
        home = "/"
    return Path(home) / ".config" / "popmq" / "contexts.json"


def read_contexts(variables: Mapping[str, str]) -> Contexts:
    """None are there where there is no file. Raises `UnusableSettings`."""
    path = contexts_path(variables)
    if not os.path.exists(path):
        return Contexts(path, DEFAULT, {})
    text = read_private(path)
    try:
        document = json.loads(text)
        saved = {name: _read(entry) for name, entry in document["contexts"].items()}
        current = document["current"]
    except (ValueError, KeyError, TypeError, AttributeError) as wrong:
        raise UnusableSettings(f"{path} has no contexts: it is damaged") from wrong
    return Contexts(path, current if current in saved else DEFAULT, saved)


def _written(saved: SavedContext) -> dict[str, str]:
    found = {_IN_FILE[one.name]: getattr(saved, one.name) for one in fields(saved)}
    return {name: value for name, value in found.items() if value}


def _read(entry: Mapping[str, Any]) -> SavedContext:
    found = {name: entry.get(written, "") for name, written in _IN_FILE.items()}
    if not all(isinstance(value, str) for value in found.values()):
        raise TypeError("a value is not a string")
    return SavedContext(**found)
