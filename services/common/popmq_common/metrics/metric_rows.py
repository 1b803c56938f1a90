"""A bound on the series of /metrics: who comes late is told together with the others as `other`.

Topics and groups are as many as users make, and each series costs Prometheus memory for as long as
it keeps data. So a page tells the first `count_max` apart, and adds up the rest: sums over all
topics stay right, and so does the law of conservation.
"""

from collections.abc import Mapping
from typing import Any, Final

from popmq_common.metrics.metric import Definition, Labels

OTHER: Final = "other"


class Rows:
    """Rows of labels that begin with one kind of key: a topic, a group, or both."""

    def __init__(self, count_max: int, key_labels: int) -> None:
        self._count_max = count_max
        self._width = key_labels
        self._apart: set[Labels] = set()
        self._seen: set[Labels] = set()
        self._carried: dict[tuple[str, Labels], tuple[float, float]] = {}

    @property
    def together(self) -> int:
        """Keys that the last page did not tell apart."""
        return len(self._seen - self._apart)

    def begin(self) -> None:
        """A new page: who was not on the last one has made room."""
        self._apart &= self._seen
        self._seen = set()

    def gauges(self, rows: Mapping[Any, float]) -> dict[Labels, float]:
        found: dict[Labels, float] = {}
        for labels, value in rows.items():
            folded = self._folded(labels)
            found[folded] = found.get(folded, 0) + value
        return found

    def counters(self, definition: Definition, rows: Mapping[Any, float]) -> dict[Labels, float]:
        """The same, and what is told together never falls: a topic that is deleted, or told apart
        from now on, leaves its count there. A fall would look like a restart, and like a burst."""
        found = self.gauges(rows)
        for labels, value in found.items():
            if labels[0] == OTHER:
                found[labels] = self._carry((definition.name, labels), value)
        return found

    def _carry(self, key: tuple[str, Labels], value: float) -> float:
        last, carried = self._carried.get(key, (0.0, 0.0))
        carried += max(0.0, last - value)
        self._carried[key] = value, carried
        return value + carried

    def _folded(self, labels: Labels) -> Labels:
        key, rest = labels[: self._width], labels[self._width :]
        self._seen.add(key)
        if key not in self._apart:
            if len(self._apart) >= self._count_max:
                return (OTHER,) * self._width + rest
            self._apart.add(key)
        return labels
