"""Which topics changed since a version of the topic table: what a nameserver has to be told."""

from collections import deque
from itertools import islice
from typing import Final

KEPT_MAX: Final = 10_000
"""Changes remembered; who is further behind is told everything."""


class TopicVersions:
    def __init__(self, current: int = 0, kept_max: int = KEPT_MAX) -> None:
        self.current = current
        """Grows by one with each change."""
        self._changes: deque[str] = deque(maxlen=kept_max)
        """The last names that changed; the newest made `current`."""

    def changed(self, topic: str) -> None:
        self.current += 1
        self._changes.append(topic)

    def all_changed(self) -> None:
        self.current += 1
        self._changes.clear()

    def since(self, version: int) -> set[str] | None:
        """Names that changed after `version`; None: that is not known."""
        count = self.current - version
        if not 0 <= count <= len(self._changes):
            return None
        return set(islice(reversed(self._changes), count))
