"""Counts and durations of the broker as plain numbers; /metrics reads them.

Counting is an addition to a dictionary, so the hot path pays next to nothing.
"""

from bisect import bisect_left
from collections import Counter
from typing import Final

LATENCY_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
BATCH: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class Histogram:
    """Observations by upper bound, the last bucket open."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def cumulative(self) -> list[tuple[str, float]]:
        """(upper bound as text, count up to it), as Prometheus wants it."""
        running = 0
        rows: list[tuple[str, float]] = []
        names = [str(bound) for bound in self.bounds] + ["+Inf"]
        for name, count in zip(names, self.counts, strict=True):
            running += count
            rows.append((name, running))
        return rows


class Stats:
    def __init__(self) -> None:
        self.sent: Counter[str] = Counter()
        """Messages stored, by topic."""
        self.popped: Counter[tuple[str, str]] = Counter()
        """Messages handed out, by topic and group."""
        self.acked: Counter[tuple[str, str, str]] = Counter()
        """Acks by topic, group and outcome."""
        self.changed: Counter[tuple[str, str, str]] = Counter()
        """Changes of the invisible time by topic, group and outcome."""
        self.revived: Counter[tuple[str, str]] = Counter()
        """Messages put into a retry topic, by topic and group."""
        self.dead: Counter[tuple[str, str]] = Counter()
        """Messages put into the dead letters, by topic and group."""
        self.fsync_s = Histogram(LATENCY_S)
        self.fsync_records = Histogram(BATCH)
        self.call_s: dict[str, Histogram] = {}
        """Time from a call's arrival to its reply, by kind of call; waiting polls included."""

    def call(self, kind: str, seconds: float) -> None:
        histogram = self.call_s.get(kind)
        if histogram is None:
            histogram = self.call_s[kind] = Histogram(LATENCY_S)
        histogram.observe(seconds)
