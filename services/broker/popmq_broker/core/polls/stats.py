"""Counts and durations of the broker as plain numbers; /metrics reads them.

Counting is an addition to a dictionary, so the hot path pays next to nothing.
"""

from collections import Counter
from typing import Any

from popmq_common.metrics.histogram import BATCH, LATENCY_S, Histogram


class Stats:
    def __init__(self) -> None:
        self.sent: Counter[str] = Counter()
        """Messages stored, by topic."""
        self.repeated: Counter[str] = Counter()
        """Messages that were sent again and not stored again, by topic."""
        self.popped: Counter[tuple[str, str]] = Counter()
        """Messages handed out, by topic and group."""
        self.acked: Counter[tuple[str, str, str]] = Counter()
        """Acks by topic, group and outcome."""
        self.changed: Counter[tuple[str, str, str]] = Counter()
        """Changes of the invisible time by topic, group and outcome."""
        self.nacked: Counter[tuple[str, str, str]] = Counter()
        """Nacks by topic, group and kind."""
        self.renewed: Counter[tuple[str, str]] = Counter()
        """Leases renewed by a sign of life, by topic and group."""
        self.revived: Counter[tuple[str, str]] = Counter()
        """Messages put into a retry topic, by topic and group."""
        self.sent_back: Counter[tuple[str, str]] = Counter()
        """Messages that consumers which pull failed on, by topic and group."""
        self.dead: Counter[tuple[str, str]] = Counter()
        """Messages put into the dead letters, by topic and group."""
        self.handed_out_often: Counter[tuple[str, str]] = Counter()
        """How often a message came for the 100th, 200th … time, by topic and group."""
        self.timed: Counter[tuple[str, str]] = Counter()
        """Delayed messages whose wait has ended, by topic and how: delivered, recalled, dropped."""
        self.settled: Counter[tuple[str, str]] = Counter()
        """Transactions that ended, by topic and outcome."""
        self.checked: Counter[str] = Counter()
        """Half messages that producers were asked about, by topic."""
        self.fsync_s = Histogram(LATENCY_S)
        self.fsync_records = Histogram(BATCH)
        self.call_s: dict[str, Histogram] = {}
        """Time from a call's arrival to its reply, by kind of call; waiting polls included."""

    def forget_topic(self, topic: str) -> None:
        """It was deleted; tables of all that ever was would have no bound."""
        self.sent.pop(topic, None)
        self.repeated.pop(topic, None)
        for key in [key for key in self.timed if key[0] == topic]:
            del self.timed[key]
        self.checked.pop(topic, None)
        self._forget(0, topic)

    def forget_group(self, group: str) -> None:
        """It was deleted."""
        self._forget(1, group)

    def _forget(self, place: int, name: str) -> None:
        counters: list[Counter[Any]] = [self.popped, self.acked, self.changed, self.nacked]
        counters += [self.renewed, self.handed_out_often, self.settled]
        for counts in [*counters, self.revived, self.sent_back, self.dead]:
            for key in [key for key in counts if key[place] == name]:
                del counts[key]

    def call(self, kind: str, seconds: float) -> None:
        self.calls(kind, 1, seconds)

    def calls(self, kind: str, count: int, seconds: float) -> None:
        """`count` calls that took `seconds` each."""
        histogram = self.call_s.get(kind)
        if histogram is None:
            histogram = self.call_s[kind] = Histogram(LATENCY_S)
        histogram.observe(seconds, count)
