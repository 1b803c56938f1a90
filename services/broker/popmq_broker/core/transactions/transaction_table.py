"""The half messages that are not settled: who is asked about next, what is hopeless, what is over.

Producers are asked about a half message when its immunity is over, and then once per interval.
Whoever takes it from `take_due` asks; the next time comes an interval later, whatever becomes of
the question. An interval in which no producer is there takes nothing and counts nothing.

A half message is hopeless when it was asked about `checks_max` times and the last answer did not
come within the interval, or when it is older than `age_ms_max`.

What was settled lately is remembered, so that a repeated answer is OK and the opposite is refused.
"""

import heapq
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from popmq_broker.core.transactions.transaction import Half, TransactionOutcome

_STALE_MIN = 64
Due = tuple[int, int]
"""(due ms, origin offset)"""


@dataclass(slots=True)
class Agenda:
    """One topic's."""

    due: list[Due] = field(default_factory=list)
    """A heap; what was settled or asked about since is passed over."""
    count: int = 0
    """Half messages of the topic."""


class HalfTable:
    def __init__(
        self, *, interval_ms: int, checks_max: int, age_ms_max: int, settled_max: int
    ) -> None:
        self.changed = 0
        """Grows when a number of checks changes."""
        self._interval_ms = interval_ms
        self._checks_max = checks_max
        self._age_ms_max = age_ms_max
        self._settled_max = settled_max
        self._halves: OrderedDict[int, Half] = OrderedDict()
        """By origin, the oldest first, nearly: who is found at start is in the order of now."""
        self._by_offset: OrderedDict[int, Half] = OrderedDict()
        """By where it lies now, in order."""
        self._agendas: dict[str, Agenda] = {}
        self._last: list[Due] = []
        """Asked about for the last time: when they become hopeless."""
        self._settled: OrderedDict[int, tuple[int, TransactionOutcome]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._halves)

    def __iter__(self) -> Iterator[Half]:
        return iter(self._halves.values())

    def get(self, origin_offset: int) -> Half | None:
        return self._halves.get(origin_offset)

    def at(self, offset: int) -> Half | None:
        """The one that lies there now, or was there first."""
        return self._by_offset.get(offset) or self._halves.get(offset)

    def counts(self) -> dict[str, int]:
        """By topic."""
        return {topic: agenda.count for topic, agenda in self._agendas.items()}

    def of_topic(self, topic: str) -> list[Half]:
        return [half for half in self if half.topic == topic] if topic in self._agendas else []

    def add(self, half: Half) -> None:
        """A new one; or one that is written again takes the place of what it was before."""
        before = self._halves.get(half.origin_offset)
        if before is not None:
            self._remove(before)
            half.due_ms = max(half.due_ms, before.due_ms)
        self._halves[half.origin_offset] = half
        self._by_offset[half.offset] = half
        agenda = self._agendas.setdefault(half.topic, Agenda())
        agenda.count += 1
        self._plan(agenda, half)

    def move(self, half: Half, *, to: Half) -> None:
        """It was written again at the end of the half topic."""
        del self._by_offset[half.offset]
        half.offset, half.log_offset, half.size_bytes = to.offset, to.log_offset, to.size_bytes
        half.stored_ms, half.op_offset = to.stored_ms, to.op_offset
        self._by_offset[half.offset] = half

    def asked_before(self, half: Half, checks: int, due_ms: int) -> None:
        """What is known from before a restart."""
        half.checks, half.due_ms = checks, due_ms
        self._plan(self._agendas[half.topic], half)

    def shift(self, ms: int) -> None:
        """The wall clock was set by that much: what waits waits as long as it would have."""
        self._last = []
        for agenda in self._agendas.values():
            agenda.due = []
        for half in self:
            half.due_ms += ms
            self._plan(self._agendas[half.topic], half)

    def take_due(
        self, topics: Iterable[str], now_ms: int, count_max: int, durable_end: int
    ) -> list[Half]:
        """Those to be asked about now, by whoever takes them."""
        found: list[Half] = []
        for topic in topics:
            agenda = self._agendas.get(topic)
            while agenda and agenda.due and agenda.due[0][0] <= now_ms:
                if len(found) >= count_max:
                    return found
                half = self._live(agenda.due[0])
                if half is not None and half.end_offset > durable_end:
                    break
                heapq.heappop(agenda.due)
                if half is not None and half.checks < self._checks_max:
                    half.checks += 1
                    half.due_ms = now_ms + self._interval_ms
                    self.changed += 1
                    self._plan(agenda, half)
                    found.append(half)
        return found

    def hopeless(self, now_ms: int) -> Half | None:
        """One to be given up, if there is any."""
        while self._last and self._last[0][0] <= now_ms:
            half = self._live(self._last[0])
            if half is not None:
                return half
            heapq.heappop(self._last)
        oldest = next(iter(self), None)
        if oldest is not None and now_ms - oldest.first_stored_ms >= self._age_ms_max:
            return oldest
        return None

    def to_be_moved(self, log_offset: int, stored_ms: int) -> Half | None:
        """One that lies before `log_offset` and was written at `stored_ms` or earlier."""
        first = next(iter(self._by_offset.values()), None)
        if first is None or first.log_offset >= log_offset or first.stored_ms > stored_ms:
            return None
        return first

    def settle(self, half: Half, outcome: TransactionOutcome) -> None:
        self._remove(half)
        self.remember(half.origin_offset, half.origin_log_offset, outcome)

    def drop(self, half: Half) -> None:
        """It is over, nobody knows how."""
        self._remove(half)

    def remember(
        self, origin_offset: int, origin_log_offset: int, outcome: TransactionOutcome
    ) -> None:
        self._settled[origin_offset] = origin_log_offset, outcome
        while len(self._settled) > self._settled_max:
            self._settled.popitem(last=False)

    def outcome_of(self, origin_offset: int, origin_log_offset: int) -> TransactionOutcome | None:
        """None: it is unknown, or not settled, or was settled too long ago."""
        log_offset, outcome = self._settled.get(origin_offset, (None, None))
        return outcome if log_offset == origin_log_offset else None

    def positions(self, half_end: int, op_end: int) -> tuple[int, int]:
        """From where the half topic and the op topic must be read to find all this again."""
        first = next(iter(self._by_offset.values()), None)
        return (half_end, op_end) if first is None else (first.offset, first.op_offset)

    def needed_from(self) -> int | None:
        """The lowest log offset of them all."""
        first = next(iter(self._by_offset.values()), None)
        return None if first is None else first.log_offset

    def _plan(self, agenda: Agenda, half: Half) -> None:
        due = half.due_ms, half.origin_offset
        if half.checks >= self._checks_max:
            heapq.heappush(self._last, due)
            return
        heapq.heappush(agenda.due, due)
        if len(agenda.due) > 2 * agenda.count + _STALE_MIN:
            agenda.due = [one for one in agenda.due if self._live(one) is not None]
            heapq.heapify(agenda.due)

    def _live(self, due: Due) -> Half | None:
        half = self._halves.get(due[1])
        return half if half is not None and half.due_ms == due[0] else None

    def _remove(self, half: Half) -> None:
        del self._halves[half.origin_offset]
        del self._by_offset[half.offset]
        agenda = self._agendas[half.topic]
        agenda.count -= 1
        if not agenda.count:
            del self._agendas[half.topic]
