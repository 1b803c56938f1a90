"""How full the disk is, looked at once a second at most, and whether sends are taken."""

from pathlib import Path
from typing import Final

from popmq_broker.core.store.retention import (
    Disk,
    DiskLimits,
    DiskState,
    Pressure,
    next_state,
    pressure,
)
from popmq_broker.store.files.files import Files
from popmq_common.process.logs import Log

LOOK_INTERVAL_MS: Final = 1_000


class DiskWatch:
    def __init__(self, files: Files, folder: Path, limits: DiskLimits, log: Log) -> None:
        self.state = DiskState.OK
        self.disk = Disk(0, 0)
        """As it was when it was last looked at."""
        self._files = files
        self._folder = folder
        self._limits = limits
        self._log = log
        self._looked_ms: int | None = None

    def takes_sends(self, now_ms: int) -> bool:
        looked_ms = self._looked_ms
        if looked_ms is None or not 0 <= now_ms - looked_ms < LOOK_INTERVAL_MS:
            self.look(now_ms)
        return self.state is not DiskState.REFUSING

    def look(self, now_ms: int) -> Pressure:
        """Now, whenever the last look was."""
        self._looked_ms = now_ms
        files, folder = self._files, self._folder
        self.disk = Disk(files.total_bytes(folder), files.free_bytes(folder))
        found = pressure(self.disk, self._limits)
        before, self.state = self.state, next_state(self.state, found)
        if before is not self.state:
            tell = self._log.info if self.state is DiskState.OK else self._log.warning
            used = f"{self.disk.used_ratio:.1%}"
            tell("disk.state", state=self.state.name.lower(), used=used, free=self.disk.free_bytes)
        return found
