"""What is made of files, made again when they change; new connections get it as it is then.

Files are looked at when a connection begins, at most every `LOOK_S`. New files that cannot be used
leave everything as it was, and are tried again at the next look.
"""

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, Generic, TypeVar

from popmq_common.process.config import ConfigError
from popmq_common.process.logs import Log

LOOK_S: Final = 10.0
T = TypeVar("T")
FileState = tuple[int, int, int] | None
"""When it was written, its size, its inode; None: it is not there."""


class FollowedFiles(Generic[T]):
    def __init__(
        self,
        paths: Iterable[Path],
        make: Callable[[], T],
        log: Log,
        *,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`make` reads the files. Raises what it raises: a `ConfigError`."""
        self._paths = tuple(paths)
        self._make = make
        self._log = log
        self._now_s = now_s
        self._state = self._look()
        self._value = make()
        self._next_look_s = now_s() + LOOK_S

    def current(self) -> T:
        now_s = self._now_s()
        if now_s >= self._next_look_s:
            self._next_look_s = now_s + LOOK_S
            state = self._look()
            if state != self._state:
                self._make_again(state)
        return self._value

    def _make_again(self, state: tuple[FileState, ...]) -> None:
        files = ", ".join(map(str, self._paths))
        try:
            self._value = self._make()
        except ConfigError as wrong:
            means = "the certificate from before goes on"
            self._log.error("certificate.refused", reason=str(wrong), means=means)
            return
        self._state = state
        self._log.info("certificate.reloaded", files=files)

    def _look(self) -> tuple[FileState, ...]:
        return tuple(_state(path) for path in self._paths)


def _state(path: Path) -> FileState:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
