"""A flood of calls, and what it leaves in memory.

While there are far more calls than usual, small objects come from the C library; when the flood is
over, all that is free is given back to the system.
"""

from collections.abc import Callable
from typing import Final

from popmq_common.process.memory import Peak, give_back
from popmq_common.process.object_memory import ObjectMemory

TICK_S: Final = 0.5
"""Between two looks of a server at what is overdue, and at its memory."""
CALLS_OF_A_FLOOD: Final = 64
"""More than twice the usual number. They take 1 MiB."""
CALLS_BETWEEN_COUNTS: Final = 32
QUIET_TICKS: Final = 20
"""Until a flood is over: what it left behind has been done then."""
WORTH_GIVING_BACK: Final = 1_000
"""Calls, requests and connections that have ended, until their memory is given back."""
AGAIN_TICKS: Final = (20, 80)
"""After a peak memory is given back once more: when what it left to others has been done, and when
they do not answer any more."""


class Floods:
    """Tells when there is far more than usual, which is a mean of the last minutes."""

    def __init__(self, worth: int, quiet_ticks: int) -> None:
        """`worth`: so much more leaves nothing that matters. A flood is over when an eighth of that
        has not been reached for `quiet_ticks`."""
        self._worth = worth
        self._quiet_ticks = quiet_ticks
        self._usual = 0.0
        self._quiet = 0

    def begins(self, count: int) -> bool:
        """`count`: in use now."""
        return count > 2 * self._usual + self._worth

    def pass_tick(self, count: int) -> None:
        """What is usual falls fast and rises slowly, to ten thousand in some 500 ticks."""
        usual = self._usual
        rise = min(count - usual, 0.5 + usual / 100)
        self._usual += rise if rise > 0 else rise / 100
        is_quiet = count <= 2 * self._usual + self._worth // 8
        self._quiet = self._quiet + 1 if is_quiet else 0

    @property
    def is_over(self) -> bool:
        return self._quiet >= self._quiet_ticks


class FloodMemory:
    """Of a process that serves calls."""

    def __init__(self, count_calls: Callable[[], int]) -> None:
        """`count_calls`: how many are under way."""
        self._count_calls = count_calls
        self._floods = Floods(CALLS_OF_A_FLOOD, QUIET_TICKS)
        self._object_memory = ObjectMemory()
        self._peak = Peak(WORTH_GIVING_BACK)
        self._begun_count = 0
        self._most = 0
        self._again = AGAIN_TICKS[-1]
        """Ticks since the last peak."""

    def begin_call(self) -> None:
        """One that may wait for long."""
        self._begun_count += 1
        if self._begun_count % CALLS_BETWEEN_COUNTS:
            return
        count = self._count_calls()
        self._most = max(self._most, count)
        if self._floods.begins(count):
            self._object_memory.take_from_c()

    def pass_tick(self, in_use: int, most: int = 0) -> None:
        """`TICK_S` have passed. `in_use`: calls and what else takes about as much memory; `most`:
        at a time since the last tick, if that was counted."""
        self._floods.pass_tick(self._count_calls())
        if self._floods.is_over:
            self._object_memory.take_from_python()
        self._again += 1
        if self._peak.is_over(in_use, max(in_use, most, self._most)):
            self._again = 0
            give_back()
        elif self._again in AGAIN_TICKS:
            give_back()
        self._most = 0

    def close(self) -> None:
        """Nothing begins any more."""
        self._object_memory.take_from_python()
