"""What waits for its time, in memory: 16 bytes for each, found by time and by key.

Three tiers of buckets, each finer than the one before: 70 minutes, a second, a millisecond. An
entry lies in the coarsest tier whose buckets are not open yet. When time comes near a bucket, its
entries are spread over the next tier, some at a time, so that a bucket of a million holds up
nobody. In the last tier nothing is left to be sorted: a bucket is one millisecond, in the order
in which its messages came.

    due_ms   u32   from the bucket's start          offset   i64   in the timer topic's queue
    code     u32   of topic and message id, 31 bits; the top bit says it is the mark of a recall

Source: RocketMQ TimerWheel, TimerLog. Differs: those are files of their own with chains through
the log; ours is derived, see core/timers/timer.py.
"""

import heapq
from array import array
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

SHIFTS: Final = (22, 10, 0)
"""Width of each tier's buckets as a power of two milliseconds."""
MARK: Final = 1 << 31
GONE: Final = (1 << 63) - 1
"""In the place of an offset: taken out."""


class WheelEntry(NamedTuple):
    due_ms: int
    offset: int
    code: int


class Bucket:
    """Parallel arrays; what is before `at` has been taken."""

    __slots__ = ("at", "codes", "dues", "offsets", "start_ms")

    def __init__(self, start_ms: int) -> None:
        self.start_ms = start_ms
        self.dues = array("I")
        self.offsets = array("q")
        self.codes = array("I")
        self.at = 0

    def __len__(self) -> int:
        return len(self.offsets) - self.at

    def take(self, count: int) -> list[WheelEntry]:
        """The next `count` places, less those that are empty."""
        low, high = self.at, min(self.at + count, len(self.offsets))
        self.at = high
        places = zip(self.dues[low:high], self.offsets[low:high], self.codes[low:high], strict=True)
        start_ms = self.start_ms
        return [
            WheelEntry(start_ms + due, offset, code)
            for due, offset, code in places
            if offset != GONE
        ]

    def places(self, due_ms: int, code: int) -> Iterator[int]:
        """Where entries of this time and code are; the search is one of arrays, not of Python."""
        i, due = self.at, due_ms - self.start_ms
        while True:
            try:
                i = self.codes.index(code, i)
            except ValueError:
                return
            if self.dues[i] == due and self.offsets[i] != GONE:
                yield i
            i += 1


class Wheel:
    def __init__(self) -> None:
        self._tiers: tuple[dict[int, Bucket], ...] = ({}, {}, {})
        self._numbers: tuple[list[int], ...] = ([], [], [])
        """A heap of each tier's bucket numbers."""
        self._opened = [0, 0]
        """Per tier but the last: the first bucket number that is not spread, nor has been."""
        self.message_count = 0
        self.moved_count = 0
        """Entries that came into a finer bucket, since the start."""
        self.mark_count = 0
        """Marks of recalls, which stay until the time of what they recalled."""

    def __len__(self) -> int:
        return self.message_count + self.mark_count

    def add(self, entry: WheelEntry) -> None:
        self.add_all((entry,))

    def add_all(self, entries: Sequence[WheelEntry]) -> None:
        self._count(entries, 1)
        self._place(entries)

    def _place(self, entries: Sequence[WheelEntry]) -> None:
        coarse, fine = self._opened
        for due_ms, offset, code in entries:
            tier = 2
            if due_ms >> SHIFTS[0] >= coarse:
                tier = 0
            elif due_ms >> SHIFTS[1] >= fine:
                tier = 1
            number = due_ms >> SHIFTS[tier]
            bucket = self._tiers[tier].get(number)
            if bucket is None:
                bucket = self._tiers[tier][number] = Bucket(number << SHIFTS[tier])
                heapq.heappush(self._numbers[tier], number)
            bucket.dues.append(due_ms - bucket.start_ms)
            bucket.offsets.append(offset)
            bucket.codes.append(code)

    def _count(self, entries: Sequence[WheelEntry], by: int) -> None:
        marks = sum([entry[2] >= MARK for entry in entries])
        self.mark_count += marks * by
        self.message_count += (len(entries) - marks) * by

    def take_due(self, now_ms: int, count: int) -> list[WheelEntry]:
        """At most `count` entries whose time has come, earliest first as far as is known by now.

        Call `open_near` before; while that has more to do, more may be due.
        """
        found: list[WheelEntry] = []
        buckets, numbers = self._tiers[2], self._numbers[2]
        while numbers and numbers[0] <= now_ms and len(found) < count:
            bucket = buckets[numbers[0]]
            found += bucket.take(count - len(found))
            if not len(bucket):
                del buckets[heapq.heappop(numbers)]
        self._count(found, -1)
        return found

    def open_near(self, now_ms: int, count: int) -> bool:
        """Spread what is near, at most `count` entries; False: there is more to do.

        Seconds come first: a bucket of 70 minutes is opened so long before its time.
        """
        for tier in (1, 0):
            near = (now_ms >> SHIFTS[tier]) + 1  # one ahead of its time
            numbers = self._numbers[tier]
            while numbers and numbers[0] <= near:
                bucket = self._tiers[tier][numbers[0]]
                self._opened[tier] = max(self._opened[tier], numbers[0] + 1)
                before = len(bucket)
                self._place(bucket.take(count))
                count -= before - len(bucket)
                self.moved_count += before - len(bucket)
                if len(bucket):
                    return False
                del self._tiers[tier][heapq.heappop(numbers)]
            self._opened[tier] = max(self._opened[tier], near + 1)
        return True

    def next_wake_ms(self) -> int | None:
        """When something is due, or near enough to be spread; None: nothing waits."""
        times = [
            (numbers[0] - (tier < 2)) << SHIFTS[tier]
            for tier, numbers in enumerate(self._numbers)
            if numbers
        ]
        return min(times, default=None)

    def find(self, due_ms: int, code: int) -> list[int]:
        """Offsets of what is due then and has this code; several codes may be the same."""
        return [
            bucket.offsets[i]
            for bucket in self._buckets_of(due_ms)
            for i in bucket.places(due_ms, code)
        ]

    def remove(self, entry: WheelEntry) -> bool:
        """False: it is not there."""
        for bucket in self._buckets_of(entry.due_ms):
            for i in bucket.places(entry.due_ms, entry.code):
                if bucket.offsets[i] == entry.offset:
                    bucket.offsets[i] = GONE
                    self._count((entry,), -1)
                    return True
        return False

    def _buckets_of(self, due_ms: int) -> list[Bucket]:
        """An entry is in one of these: a bucket that is being spread lies in two tiers."""
        found = [self._tiers[i].get(due_ms >> shift) for i, shift in enumerate(SHIFTS)]
        return [bucket for bucket in found if bucket is not None]

    def buckets(self) -> Iterator[Bucket]:
        for tier in self._tiers:
            yield from tier.values()

    def first_offset(self) -> int | None:
        """The lowest offset of all that waits."""
        found = min((min(b.offsets[b.at :], default=GONE) for b in self.buckets()), default=GONE)
        return None if found == GONE else found

    def before(self, offset: int, count: int) -> list[WheelEntry]:
        """At most `count` entries below this offset, in no order."""
        found: list[WheelEntry] = []
        for bucket in self.buckets():
            if len(found) >= count:
                break
            if min(bucket.offsets[bucket.at :], default=GONE) >= offset:
                continue
            for i in range(bucket.at, len(bucket.offsets)):
                if bucket.offsets[i] < offset and len(found) < count:
                    due_ms = bucket.start_ms + bucket.dues[i]
                    found.append(WheelEntry(due_ms, bucket.offsets[i], bucket.codes[i]))
        return found

    def overdue_ms(self, now_ms: int) -> int:
        """How long what is due first has been due; 0: nothing is. Quick, whatever waits."""
        heads = [
            self._tiers[tier][numbers[0]]
            for tier, numbers in enumerate(self._numbers)
            if numbers and numbers[0] << SHIFTS[tier] <= now_ms
        ]
        firsts = [bucket.start_ms + min(bucket.dues[bucket.at :], default=0) for bucket in heads]
        return max((now_ms - first_ms for first_ms in firsts if first_ms < now_ms), default=0)
