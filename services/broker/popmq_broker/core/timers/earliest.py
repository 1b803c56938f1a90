"""Of all that waits in the wheel the entries that are due first, from a place on.

A bucket may have a million entries in no order. So they are looked at in steps, between which other
work gets its turn, and only as many are remembered as are wanted.
"""

import heapq
from collections.abc import Iterator
from typing import Final

from popmq_broker.core.timers.timer_wheel import GONE, MARK, Bucket, Wheel, WheelEntry

STEP_ENTRIES: Final = 8_192
"""Some 2 ms."""
Place = tuple[int, int]
"""(due_ms, offset)"""
BEFORE_ALL: Final[Place] = (-1, -1)
AFTER_ALL: Final[Place] = (1 << 63, 0)


class Earliest:
    def __init__(self, wheel: Wheel, after: Place, count_max: int) -> None:
        self._wheel = wheel
        self._after = after
        self._count_max = count_max
        self._moved_count = wheel.moved_count
        self._found: list[Place] = []
        self._codes: dict[Place, int] = {}

    @property
    def is_torn(self) -> bool:
        """Entries were moved from bucket to bucket meanwhile: some may be missing."""
        return self._wheel.moved_count != self._moved_count

    @property
    def entries(self) -> list[WheelEntry]:
        """At most `count_max`, due first first; messages alone, no marks of recalls."""
        return [WheelEntry(*place, self._codes[place]) for place in self._found]

    @property
    def is_full(self) -> bool:
        """There may be more."""
        return len(self._found) >= self._count_max

    def steps(self) -> Iterator[None]:
        """Look on; to be called until it ends."""
        for bucket in sorted(self._wheel.buckets(), key=lambda one: one.start_ms):
            if self.is_full and self._found[-1][0] < bucket.start_ms:
                return
            at = bucket.at
            while at < len(bucket.offsets):
                at = max(at, bucket.at)  # what was before it is delivered, or moved
                self._look(bucket, at, at + STEP_ENTRIES)
                at += STEP_ENTRIES
                yield

    def _look(self, bucket: Bucket, low: int, high: int) -> None:
        start_ms, after = bucket.start_ms, self._after
        worst = self._found[-1] if self.is_full else AFTER_ALL
        for due, offset, code in zip(
            bucket.dues[low:high], bucket.offsets[low:high], bucket.codes[low:high], strict=True
        ):
            place = start_ms + due, offset
            if code < MARK and offset != GONE and after < place < worst:
                self._codes[place] = code
        self._found = heapq.nsmallest(self._count_max, self._codes)
        self._codes = {place: self._codes[place] for place in self._found}
