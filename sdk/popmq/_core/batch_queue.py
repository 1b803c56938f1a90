"""Natural batching: what comes while a request is under way leaves together with the next one.

    add ──► queued ──leave──► a batch under way ──answered──►

A batch leaves when no other is under way, when it is full, or when its oldest item has waited for
long; never more than `under_way_max` at a time. So a lone item is not held up, and under load
batches fill by themselves. With `under_way_max` 1 the order of the items is kept.
"""

from collections import deque
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchBounds:
    """Of a batch, and of how many are under way."""

    items_max: int
    bytes_max: int
    linger_s: float
    """So long an item waits for a request under way before it leaves beside it."""
    under_way_max: int


class BatchQueue(Generic[T]):
    def __init__(self, bounds: BatchBounds) -> None:
        self._bounds = bounds
        self._items: deque[tuple[T, int, float]] = deque()
        self._bytes = 0
        self.under_way = 0

    def __len__(self) -> int:
        """Items that have not left."""
        return len(self._items)

    @property
    def idle(self) -> bool:
        return not self._items and not self.under_way

    def add(self, item: T, size_bytes: int, now_s: float) -> None:
        self._items.append((item, size_bytes, now_s))
        self._bytes += size_bytes

    def leave(self, now_s: float) -> list[T]:
        """The next batch, from now on under way; empty: nothing may leave now.

        One item that is larger than `bytes_max` leaves alone.
        """
        bounds, items = self._bounds, self._items
        if not items or self.under_way >= bounds.under_way_max:
            return []
        full = len(items) >= bounds.items_max or self._bytes >= bounds.bytes_max
        if self.under_way and not full and now_s < items[0][2] + bounds.linger_s:
            return []
        self.under_way += 1
        if len(items) <= bounds.items_max and self._bytes <= bounds.bytes_max:
            batch = [item for item, _, _ in items]
            items.clear()
            self._bytes = 0
            return batch
        batch = []
        bytes_left = bounds.bytes_max
        while items and len(batch) < bounds.items_max and (items[0][1] <= bytes_left or not batch):
            item, size_bytes, _ = items.popleft()
            batch.append(item)
            bytes_left -= size_bytes
            self._bytes -= size_bytes
        return batch

    def due_s(self) -> float | None:
        """When `leave` has a batch though nothing else happens; None: it needs something first."""
        if not self._items or self.under_way >= self._bounds.under_way_max:
            return None
        return self._items[0][2] + (self._bounds.linger_s if self.under_way else 0.0)

    def answered(self) -> None:
        """One of the batches is no longer under way."""
        self.under_way -= 1
