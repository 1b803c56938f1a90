"""What a consumer starts next: messages of one lane one after the other, lanes side by side.

A lane is a message group; of a FIFO group all messages without one are a lane together, of other
groups each has its own. Messages of a lane come in the order in which they were received.
"""

from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T")
Lane = Hashable


class Lanes(Generic[T]):
    """At most `running_max` at a time; `held` counts what runs and what waits."""

    def __init__(self, running_max: int) -> None:
        self._running_max = running_max
        self.running = 0
        self._ready: deque[tuple[T, Lane | None]] = deque()
        self._behind: dict[Lane, deque[T]] = {}
        """Lane of something that runs or is ready → what waits behind it."""
        self._waiting = 0

    @property
    def held(self) -> int:
        return self.running + len(self._ready) + self._waiting

    def add(self, item: T, lane: Lane | None) -> None:
        """`lane` None: it waits for nobody."""
        if lane is None:
            self._ready.append((item, None))
        elif lane in self._behind:
            self._behind[lane].append(item)
            self._waiting += 1
        else:
            self._behind[lane] = deque()
            self._ready.append((item, lane))

    @property
    def can_start(self) -> bool:
        return bool(self._ready) and self.running < self._running_max

    def start(self) -> tuple[T, Lane | None] | None:
        """What runs from now on; None: nothing may."""
        if self.running >= self._running_max or not self._ready:
            return None
        self.running += 1
        return self._ready.popleft()

    def finished(self, lane: Lane | None, *, drop: bool = False) -> list[T]:
        """It no longer runs. `drop`: what waits behind it shall not run; returns that."""
        self.running -= 1
        if lane is None:
            return []
        behind = self._behind[lane]
        dropped = list(behind) if drop else []
        self._waiting -= len(dropped)
        if dropped or not behind:
            del self._behind[lane]
        else:
            self._waiting -= 1
            self._ready.append((behind.popleft(), lane))
        return dropped

    def give_up(self) -> list[T]:
        """All that does not run."""
        left = [item for item, _ in self._ready]
        for lane in self._behind.values():
            left += lane
        running = {lane for lane in self._behind if all(lane != ready for _, ready in self._ready)}
        self._ready.clear()
        self._behind = {lane: deque() for lane in running}
        self._waiting = 0
        return left
