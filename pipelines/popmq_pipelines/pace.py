"""How fast an export goes: so many rows and bytes a second, and no burst after a stop.

Pure: time is an argument, who waits is somebody else.
"""

from typing import Final

RECORDS_PER_TURN: Final = 500
"""Between two looks at the clock."""
BEHIND_S_MAX: Final = 0.5
"""What was not used of the pace for longer than this is lost."""


class Pace:
    """0: no limit."""

    def __init__(self, rows_per_s: int, bytes_per_s: int) -> None:
        self._rows_per_s = rows_per_s
        self._bytes_per_s = bytes_per_s
        self._free_at_s: float | None = None

    def delay_s(self, now_s: float, rows: int, size_bytes: int) -> float:
        """How long to wait after so much more was done."""
        cost_s = max(
            rows / self._rows_per_s if self._rows_per_s else 0.0,
            size_bytes / self._bytes_per_s if self._bytes_per_s else 0.0,
        )
        if self._free_at_s is None:
            self._free_at_s = now_s
        self._free_at_s = max(self._free_at_s, now_s - BEHIND_S_MAX) + cost_s
        return max(0.0, self._free_at_s - now_s)
