"""Messages that could not be read, and which groups have gone over them. A file of ours:

    config/popmqDamage.json    {"places": {TOPIC: {QUEUE: [[from, until], …]}},
                                "passed": [[GROUP, TOPIC, QUEUE, pulls, [[from, until], …]], …]}

A group goes over such a place only when the file on disk says so: else a crash would make it a
message that nobody misses. A place is forgotten when it can be read again, or retention has
deleted what was there; a group's note then too, or when the group's position is set by somebody.
"""

import json
from typing import Final, NamedTuple, TypeVar

from popmq_broker.core.groups.offsets import QueueKey
from popmq_broker.core.store.ranges import Range, Ranges
from popmq_common.errors import Corrupt

DAMAGE_FILE: Final = "popmqDamage.json"
RUNS_MAX = 20_000
"""Ranges of all queues and groups; at that many a group waits where it is."""
Queue = tuple[str, int]
K = TypeVar("K")


class Passer(NamedTuple):
    """Who goes over a place."""

    group: str
    topic: str
    """As stored."""
    queue_id: int
    pulls: bool = False
    """A consumer that keeps its own place, and gets nothing twice unless it asks for it."""

    @property
    def queue(self) -> Queue:
        return self.topic, self.queue_id

    @property
    def key(self) -> QueueKey:
        return QueueKey(self.group, self.topic, self.queue_id)


class DamageTable:
    def __init__(self) -> None:
        self.places: dict[Queue, Ranges] = {}
        self.passed: dict[Passer, Ranges] = {}

    @property
    def full(self) -> bool:
        return self.run_count >= RUNS_MAX

    @property
    def run_count(self) -> int:
        found = (*self.places.values(), *self.passed.values())
        return sum(ranges.run_count for ranges in found)

    def found(self, queue: Queue, start: int, end: int) -> bool:
        """False: it was known."""
        known = self.places.setdefault(queue, Ranges())
        before = known.count
        known.add(start, end)
        return known.count > before

    def note(self, passer: Passer, start: int, end: int) -> None:
        self.passed.setdefault(passer, Ranges()).add(start, end)

    def has_passed(self, passer: Passer, offset: int) -> bool:
        ranges = self.passed.get(passer)
        return ranges is not None and offset in ranges

    def passers(self, queue: Queue) -> list[Passer]:
        return [passer for passer in self.passed if passer.queue == queue]

    def mended(self, queue: Queue, start: int, end: int) -> None:
        """These can be read."""
        _remove(self.places, queue, start, end)

    def settled(self, passer: Passer, start: int, end: int) -> None:
        """The group has them, or does not want them any more."""
        _remove(self.passed, passer, start, end)

    def begins_at(self, queue: Queue, oldest: int) -> bool:
        """Retention has deleted what is before; True: some of it was known as damaged."""
        before = self.run_count, self.count
        _remove(self.places, queue, 0, oldest)
        for passer in self.passers(queue):
            _remove(self.passed, passer, 0, oldest)
        return before != (self.run_count, self.count)

    def ends_at(self, queue: Queue, end: int) -> None:
        """The log has lost its end: what comes there is new."""
        _remove(self.places, queue, end, 1 << 63)
        for passer in self.passers(queue):
            _remove(self.passed, passer, end, 1 << 63)

    def forget_topic(self, topic: str) -> bool:
        """It is gone; False: nothing was known of it."""
        before = len(self.places), len(self.passed)
        for queue in [queue for queue in self.places if queue[0] == topic]:
            del self.places[queue]
        for passer in [passer for passer in self.passed if passer.topic == topic]:
            del self.passed[passer]
        return before != (len(self.places), len(self.passed))

    def position_changed(self, key: QueueKey) -> bool:
        """The group's position was set: it tries again, or does without."""
        before = len(self.passed)
        for passer in [passer for passer in self.passed if passer.key == key]:
            del self.passed[passer]
        return before != len(self.passed)

    @property
    def count(self) -> int:
        """Messages that cannot be read."""
        return sum(ranges.count for ranges in self.places.values())


def encode(table: DamageTable) -> str:
    places: dict[str, dict[str, list[Range]]] = {}
    for (topic, queue_id), ranges in sorted(table.places.items()):
        places.setdefault(topic, {})[str(queue_id)] = list(ranges)
    passed = [[*passer, list(ranges)] for passer, ranges in sorted(table.passed.items())]
    return json.dumps({"places": places, "passed": passed}, indent=1)


def decode(text: str, *, where: str = DAMAGE_FILE) -> DamageTable:
    """Raises `Corrupt` naming `where`."""
    found = DamageTable()
    try:
        fields = json.loads(text)
        for topic, queues in fields["places"].items():
            for queue_id, ranges in queues.items():
                found.places[str(topic), int(queue_id)] = _ranges(ranges)
        for group, topic, queue_id, pulls, ranges in fields["passed"]:
            passer = Passer(str(group), str(topic), int(queue_id), bool(pulls))
            found.passed[passer] = _ranges(ranges)
    except (ValueError, TypeError, KeyError, AttributeError) as wrong:
        raise Corrupt(path=where, offset=0, reason=f"no table of damage: {wrong!r}") from wrong
    return found


def _ranges(rows: object) -> Ranges:
    if not isinstance(rows, list) or not all(0 <= start < end for start, end in rows):
        raise ValueError(f"no ranges: {rows!r}")
    return Ranges((int(start), int(end)) for start, end in rows)


def _remove(of: dict[K, Ranges], key: K, start: int, end: int) -> None:
    ranges = of.get(key)
    if ranges is not None:
        ranges.remove(start, end)
        if not ranges:
            del of[key]
