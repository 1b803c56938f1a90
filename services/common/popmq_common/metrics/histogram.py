"""Durations and sizes as counts per bucket: what /metrics shows, at the price of one addition."""

from bisect import bisect_left
from typing import Final

LATENCY_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
BATCH: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class Histogram:
    """Observations by upper bound, the last bucket open."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float, count: int = 1) -> None:
        """`count` observations of the same value."""
        self.counts[bisect_left(self.bounds, value)] += count
        self.total += value * count

    def cumulative(self) -> list[tuple[str, float]]:
        """(upper bound as text, count up to it), as Prometheus wants it."""
        running = 0
        rows: list[tuple[str, float]] = []
        names = [str(bound) for bound in self.bounds] + ["+Inf"]
        for name, count in zip(names, self.counts, strict=True):
            running += count
            rows.append((name, running))
        return rows
