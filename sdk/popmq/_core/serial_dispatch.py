"""What a consumer starts next: messages of one order key one after the other, keys side by side.

An order key is a message group; in a FIFO group all messages without one share a key, in other
groups each has its own. Messages of a key come in the order in which they were received.
"""

from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T")
OrderKey = Hashable


class SerialDispatch(Generic[T]):
    """At most `running_max` at a time; `held` counts what runs and what waits."""

    def __init__(self, running_max: int) -> None:
        self._running_max = running_max
        self.running = 0
        self._ready: deque[tuple[T, OrderKey | None]] = deque()
        self._behind: dict[OrderKey, deque[T]] = {}
        """Key of something that runs or is ready → what waits behind it."""
        self._waiting = 0

    @property
    def held(self) -> int:
        return self.running + len(self._ready) + self._waiting

    def add(self, item: T, key: OrderKey | None) -> None:
        """`key` None: it waits for nobody."""
        if key is None:
            self._ready.append((item, None))
        elif key in self._behind:
            self._behind[key].append(item)
            self._waiting += 1
        else:
            self._behind[key] = deque()
            self._ready.append((item, key))

    @property
    def can_start(self) -> bool:
        return bool(self._ready) and self.running < self._running_max

    def start(self) -> tuple[T, OrderKey | None] | None:
        """What runs from now on; None: nothing may."""
        if self.running >= self._running_max or not self._ready:
            return None
        self.running += 1
        return self._ready.popleft()

    def finished(self, key: OrderKey | None, *, drop: bool = False) -> list[T]:
        """It no longer runs. `drop`: what waits behind it shall not run; returns that."""
        self.running -= 1
        if key is None:
            return []
        behind = self._behind[key]
        dropped = list(behind) if drop else []
        self._waiting -= len(dropped)
        if dropped or not behind:
            del self._behind[key]
        else:
            self._waiting -= 1
            self._ready.append((behind.popleft(), key))
        return dropped

    def give_up(self) -> list[T]:
        """All that does not run."""
        left = [item for item, _ in self._ready]
        for key in self._behind.values():
            left += key
        running = {key for key in self._behind if all(key != ready for _, ready in self._ready)}
        self._ready.clear()
        self._behind = {key: deque() for key in running}
        self._waiting = 0
        return left
