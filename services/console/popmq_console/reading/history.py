"""Rates of the last minutes: made of the looks that pages take, for each user apart."""

from collections import deque
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from popmq_readings.cluster_view import Look, View, view_of

POINTS_MAX: Final = 720
USERS_MAX: Final = 64
SPAN_MS_MIN: Final = 1_000
"""Between two looks that a rate is made of."""
SPAN_MS_MAX: Final = 120_000


class Point(NamedTuple):
    at_ms: int
    in_s: float | None
    out_s: float | None
    acked_s: float | None
    lag: int


@dataclass(slots=True)
class Seen:
    looks: deque[tuple[int, Look]] = field(default_factory=lambda: deque(maxlen=4))
    points: deque[Point] = field(default_factory=lambda: deque(maxlen=POINTS_MAX))


class History:
    """By user; where there are too many, the one that is unused the longest is forgotten."""

    def __init__(self) -> None:
        self._seen: dict[str, Seen] = {}

    def add(self, who: str, at_ms: int, look: Look) -> View:
        """The same look may be added again."""
        seen = self._seen.pop(who, None) or Seen()
        while len(self._seen) >= USERS_MAX:
            del self._seen[next(iter(self._seen))]
        self._seen[who] = seen
        before = [one for one in seen.looks if SPAN_MS_MIN <= at_ms - one[0] <= SPAN_MS_MAX]
        view = view_of(look, before[-1][1] if before else None)
        if not seen.looks or at_ms - seen.looks[-1][0] >= SPAN_MS_MIN:
            seen.looks.append((at_ms, look))
            lag = sum(one.lag for one in view.groups)
            seen.points.append(Point(at_ms, view.in_s, view.out_s, view.acked_s, lag))
        return view

    def points(self, who: str) -> list[Point]:
        seen = self._seen.get(who)
        return list(seen.points) if seen is not None else []
