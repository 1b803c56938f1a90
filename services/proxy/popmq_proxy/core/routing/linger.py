"""Linger: how long a send waits for others before all leave together.

At some hundred messages a second each would wake the broker, its disk and this proxy again by
itself, and that costs several times what the message does: it pays to wait for the next ones. It
does not where few come, nor when as many are under way as there ever are: then every client waits
for an answer, and none sends another. Source: none; a Kafka producer waits likewise (linger.ms).
"""

from typing import Final

WINDOW_S: Final = 0.1
"""What came in one tells what to expect in the next."""
COMPANY: Final = 2
"""A send waits only where so many others may be expected meanwhile."""


class Linger:
    """Of a proxy's sends."""

    def __init__(self, wait_ms_max: int) -> None:
        """0: nothing ever waits."""
        self._wait_s = wait_ms_max / 1000
        self._fewest = COMPANY * WINDOW_S / self._wait_s if wait_ms_max else 0.0
        self._ends_s = 0.0
        self._came = self._came_before = 0
        self._peak = self._peak_before = 0

    def wait_s(self, now_s: float, under_way: int) -> float:
        """For a send that comes now; `under_way` are those without an answer, this one with
        them."""
        if not self._wait_s:
            return 0.0
        if now_s >= self._ends_s:
            self._turn_over(now_s)
        self._came += 1
        all_came = under_way >= self._peak_before
        self._peak = max(self._peak, under_way)
        return 0.0 if all_came or self._came_before < self._fewest else self._wait_s

    def _turn_over(self, now_s: float) -> None:
        gone = now_s - self._ends_s >= WINDOW_S  # nothing came for a whole window
        self._came_before, self._peak_before = (0, 0) if gone else (self._came, self._peak)
        self._came = self._peak = 0
        self._ends_s = now_s + WINDOW_S
