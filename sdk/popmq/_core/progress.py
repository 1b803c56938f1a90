"""How far a consumer is in a queue whose messages it handles in any order.

Committed is the smallest offset that is not done: what is behind it may be done too, and comes
again after a crash; nothing before it does.
"""

import heapq


class Progress:
    def __init__(self, start: int, name: str = "") -> None:
        """`name`: what is handed out bears it, and is told by it from what was handed out before a
        seek or a reset."""
        self.name = name
        self.next_offset = start
        """Where to pull next."""
        self.committed = start
        """What the broker was told last."""
        self._handed: list[int] = []
        self._done: set[int] = set()

    @property
    def outstanding(self) -> int:
        """Handed out and not done."""
        return len(self._handed) - len(self._done)

    @property
    def consumed(self) -> int:
        """Everything before it is done."""
        while self._handed and self._handed[0] in self._done:
            self._done.discard(heapq.heappop(self._handed))
        return self._handed[0] if self._handed else self.next_offset

    def handed(self, offsets: list[int], next_offset: int) -> None:
        for offset in offsets:
            heapq.heappush(self._handed, offset)
        self.next_offset = next_offset

    def done(self, offset: int) -> None:
        """Again, or after a seek, it means nothing."""
        if offset in self._handed:
            self._done.add(offset)
