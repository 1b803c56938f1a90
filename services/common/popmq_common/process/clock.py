"""Where time comes from: wall time for records and deadlines, never read anywhere else."""

import time
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Wall time in milliseconds since 1970."""
        ...


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


class VirtualClock:
    """A clock that stands still until it is moved; for tests and simulations."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def advance(self, ms: int) -> None:
        assert ms >= 0
        self._now_ms += ms

    def set_back(self, ms: int) -> None:
        """As somebody may set a wall clock."""
        self._now_ms -= ms
