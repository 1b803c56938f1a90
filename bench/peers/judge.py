"""The one judge of all systems: was every confirmed message received?

A client process numbers its messages. Numbers travel as runs, (process, first, last).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Run = tuple[int, int, int]
"""Process, first number, last number; both belong to it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    confirmed: int
    received: int
    """Different messages."""
    missing: int
    """Confirmed and not received: lost."""
    duplicates: int
    """Received once more."""
    unconfirmed: int
    """Received, although the sender was told of no success: allowed."""


def runs_of(process: int, numbers: Iterable[int]) -> list[Run]:
    """A number that is there twice is in two runs."""
    found: list[Run] = []
    first = last = -1
    for number in sorted(numbers):
        if number == last + 1 and first >= 0:
            last = number
            continue
        if first >= 0:
            found.append((process, first, last))
        first = last = number
    return [*found, (process, first, last)] if first >= 0 else found


def judge(confirmed: Iterable[Run], received: Iterable[Run]) -> Verdict:
    sent = {one for run in confirmed for one in _messages(run)}
    all_received = [one for run in received for one in _messages(run)]
    distinct = set(all_received)
    return Verdict(
        confirmed=len(sent),
        received=len(distinct),
        missing=len(sent - distinct),
        duplicates=len(all_received) - len(distinct),
        unconfirmed=len(distinct - sent),
    )


def _messages(run: Run) -> Iterable[tuple[int, int]]:
    process, first, last = run
    return ((process, number) for number in range(first, last + 1))


def percentile(values: Sequence[float], share: float) -> float | None:
    """The least value that `share` of all do not exceed; None without values."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * round(share * 1000) // 1000) - 1)]
