"""How long messages took, as distributions that add up over brokers, owners and attempts."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from popmq_pipelines.audit.latency import (
    BORN_TO_STORE,
    DELIVERY_TO_ACK,
    STORE_TO_ACK,
    STORE_TO_DELIVERY,
)
from popmq_pipelines.cluster.audited_broker import AuditedBroker

SPANS: Final = (BORN_TO_STORE, STORE_TO_DELIVERY, DELIVERY_TO_ACK, STORE_TO_ACK)
ATTEMPTS_APART: Final = 3
"""Deliveries that are told apart; the later ones are one row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSpread:
    span: str
    attempt: int
    """0: all; `ATTEMPTS_APART`: that one and later ones."""
    message_count: int
    p50_ms: int
    p90_ms: int
    p99_ms: int
    max_ms: int
    octaves: Mapping[int, int]
    """Bits of the time in ms → how many messages: 0 for less than 1 ms, 1 for 1 ms, 2 for 2 and 3
    ms, 3 for 4 to 7 ms."""


def spreads(audited: Sequence[AuditedBroker]) -> list[TimeSpread]:
    """Of each span, and where there is more than one of each attempt."""
    found = []
    for span in SPANS:
        attempts = {
            min(timed[2], ATTEMPTS_APART)
            for one in audited
            for timed in one.times
            if timed[1] == span
        }
        rows = [spread(audited, span, attempt=attempt) for attempt in sorted(attempts)]
        if len(rows) > 1:
            rows.insert(0, spread(audited, span))
        found += [row for row in rows if row is not None]
    return found


def spread(
    audited: Sequence[AuditedBroker],
    span: str,
    *,
    owner: str | None = None,
    attempt: int | None = None,
) -> TimeSpread | None:
    """None: there are no messages. Without `owner` of all of them, and so with `attempt`."""
    bins = Counter[int]()
    for one in audited:
        for (whose, of_span, nth), counts in one.times.items():
            of_these = owner in (None, whose) and attempt in (None, min(nth, ATTEMPTS_APART))
            if of_span == span and of_these:
                bins.update(counts)
    if not bins:
        return None
    octaves = Counter[int]()
    for bin_ms, count in bins.items():
        octaves[bin_ms.bit_length()] += count
    return TimeSpread(
        span=span,
        attempt=attempt or 0,
        message_count=bins.total(),
        p50_ms=_quantile(bins, 0.5),
        p90_ms=_quantile(bins, 0.9),
        p99_ms=_quantile(bins, 0.99),
        max_ms=max(bins),
        octaves=dict(sorted(octaves.items())),
    )


def _quantile(bins: Mapping[int, int], share: float) -> int:
    """The lower edge of the bin that has it."""
    ordered = sorted(bins)
    wanted = share * sum(bins.values())
    ranks = accumulate(bins[bin_ms] for bin_ms in ordered)
    return next(bin_ms for bin_ms, rank in zip(ordered, ranks, strict=True) if rank >= wanted)
