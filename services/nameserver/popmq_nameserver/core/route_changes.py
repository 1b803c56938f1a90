"""Topics whose routes changed, numbered, for proxies that want to know soon."""

from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Final

KEPT_MAX: Final = 20_000
"""Changes remembered; who is further behind is told that everything may have changed."""
NAMED_MAX: Final = 5_000
"""Topics in one answer."""


class RouteChanges:
    def __init__(self, kept_max: int = KEPT_MAX) -> None:
        self.last = 0
        self._names: deque[str] = deque(maxlen=kept_max)
        """The last ones; the newest has the number `last`."""

    def changed(self, topics: Iterable[str]) -> None:
        for topic in topics:
            self.last += 1
            self._names.append(topic)

    def since(self, after: int) -> list[str] | None:
        """Topics that changed after this number, sorted; None: any may have."""
        count = self.last - after
        if not 0 <= count <= len(self._names):
            return None
        found = set(islice(reversed(self._names), count))
        return sorted(found) if len(found) <= NAMED_MAX else None
