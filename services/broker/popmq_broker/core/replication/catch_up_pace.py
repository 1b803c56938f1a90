"""How fast a replica that is far behind copies the log: not so fast that sends wait for the disks
and processors that it takes, and always faster than the log grows.

Source: none; PostgreSQL's and Kafka's replicas have a rate that an operator sets (max_rate,
replication throttle). Differs: a set rate below the log's growth would never end.
"""

from typing import Final

from popmq_common.units import KiB, MiB

FAR_BYTES: Final = 16 * MiB
"""A replica that is less behind than this takes all that there is, at once."""
FETCH_BYTES: Final = 256 * KiB
"""While it is far behind. Small: a primary reads it from a cold file while sends wait."""
GROWTH_FACTOR: Final = 2
"""Of the log's growth, at least so much is copied."""
MEASURED_S: Final = 1.0


class CatchUpPace:
    """Of one replica and its primary. Seconds are of a clock that never goes back."""

    def __init__(self, bytes_per_s: int) -> None:
        """0: as fast as it goes."""
        self._set = bytes_per_s
        self._growth = 0.0
        self._since_s: float | None = None
        self._end_then = 0
        self._free_s = 0.0

    def is_far(self, log_end: int, primary_end: int) -> bool:
        return self._set > 0 and primary_end - log_end > FAR_BYTES

    def next_s(self, began_s: float, taken_bytes: int, primary_end: int) -> float:
        """When the next fetch may begin, after one that began then and brought so many bytes.
        `primary_end`: where the primary's log ends, as it was told with them."""
        if self._since_s is None:
            self._since_s, self._end_then = began_s, primary_end
        elif began_s - self._since_s >= MEASURED_S:
            self._growth = (primary_end - self._end_then) / (began_s - self._since_s)
            self._since_s, self._end_then = began_s, primary_end
        rate = max(self._set, GROWTH_FACTOR * self._growth)
        self._free_s = max(self._free_s, began_s) + taken_bytes / rate
        return self._free_s
