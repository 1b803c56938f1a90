"""How fast an export goes: so many rows and bytes a second, and no burst after a stop.

Pure: time is an argument, who waits is somebody else.
"""

from typing import Final

RECORDS_PER_SLICE: Final = 25
"""Between two looks at the clock: some milliseconds at the limit, and less than one of work, so
that a broker that shares the core does not wait for more."""
BEHIND_S_MAX: Final = 0.1
"""What was not used of the limit for longer than this is lost."""
AHEAD_OF_LOG: Final = 2.0
"""So many times as fast as the log grew it goes at least, whatever the limit."""


class RateLimit:
    """0: no limit."""

    def __init__(self, rows_per_s: int, bytes_per_s: int, log_bytes_per_s: float = 0.0) -> None:
        """`log_bytes_per_s`: how fast what is read was written. 0: it is not known."""
        self._rows_per_s = rows_per_s
        self._bytes_per_s = bytes_per_s
        self._least_bytes_per_s = log_bytes_per_s * AHEAD_OF_LOG
        self._free_at_s: float | None = None

    def delay_s(self, now_s: float, rows: int, size_bytes: int) -> float:
        """How long to wait after so much more was done."""
        cost_s = max(
            rows / self._rows_per_s if self._rows_per_s else 0.0,
            size_bytes / self._bytes_per_s if self._bytes_per_s else 0.0,
        )
        if self._least_bytes_per_s:
            cost_s = min(cost_s, size_bytes / self._least_bytes_per_s)
        if self._free_at_s is None:
            self._free_at_s = now_s
        self._free_at_s = max(self._free_at_s, now_s - BEHIND_S_MAX) + cost_s
        return max(0.0, self._free_at_s - now_s)
