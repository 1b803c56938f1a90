"""Long polls that found nothing, and what wakes them.

A poll waits under (group, topic). An arrival in the topic, or in the group's retry topic of it,
wakes the oldest poll whose filter may match; whoever was woken and leaves messages behind wakes
the next, so many messages wake many polls and one message wakes one.

A message that comes alone wakes at once. In a steady stream none has a poll of its own: after an
arrival has woken one, the next gather for a few milliseconds and share one, and as long as each
such gap brings some, another one follows, up to a limit. At 1,000 messages a second this brings
fifteen to twenty to a receive instead of one, and saves the RPCs of the others. Who sends the next
only when the last was received stops the stream, and waits for one gap more.

A proxy whose polls wait at another broker watches: it is told of an arrival that no poll here waits
for, and one of its polls comes and looks.

There is no lost wake-up: nothing is awaited between a poll's last look and its entry here, and a
poll that is woken and given up hands its wake on.
"""

import asyncio
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import count
from typing import Final, NamedTuple

from popmq_broker.core.filters.filter import Filter
from popmq_broker.core.leases.checkpoint import CHECKPOINT_OFFSETS_MAX
from popmq_broker.core.polls.parked import PollQueue
from popmq_common.errors import TooManyRequests
from popmq_common.records.names import retry_topic


class PollKey(NamedTuple):
    group: str
    topic: str


Codes = Collection[int] | None
"""Hashes of what arrived; None: anything."""

STREAM_COUNT: Final = 2
"""Arrivals of a gap that make a stream, for which another gap follows."""


@dataclass(slots=True, eq=False)
class LongPoll:
    number: int
    filter: Filter
    woken: "asyncio.Future[Codes]" = field(repr=False)
    """Done with what it was woken for."""

    watches: bool = False
    """It waits on behalf of polls elsewhere, and goes after those that wait here."""

    @property
    def was_woken(self) -> bool:
        return self.woken.done() and not self.woken.cancelled()


@dataclass(slots=True, eq=False)
class Patience:
    """Until when a poll waits; somebody else may cut it short."""

    deadline_s: float
    """By the event loop's clock."""
    waiter: LongPoll | None = None
    """While it waits."""


@dataclass(slots=True, eq=False)
class ArrivalLinger:
    """What came since an arrival woke a poll."""

    gaps_left: int
    codes: set[int] = field(default_factory=set)
    count: int = 0
    counted: int = 0
    """Of `count`, before this gap."""
    newcomers: bool = False
    """A poll waits that has not looked yet."""

    @property
    def streams(self) -> bool:
        """More may come soon, and one receive could take them too."""
        came = self.count - self.counted
        return came >= STREAM_COUNT and self.count < CHECKPOINT_OFFSETS_MAX


class LongPolls:
    def __init__(
        self,
        count_max: int,
        gap_ms: int = 0,
        *,
        gap_ms_max: int = 0,
        group_count_max: int | None = None,
    ) -> None:
        """`gap_ms`: how long arrivals gather after one woke a poll; `gap_ms_max`: in a stream."""
        self.count = 0
        self._count_max = count_max
        self._group_count_max = group_count_max or count_max
        self._gap_s = gap_ms / 1000
        self._numbers = count()
        self._gaps_max = max(1, gap_ms_max // gap_ms) if gap_ms else 0
        self._gathering: dict[PollKey, ArrivalLinger] = {}
        self._parked: dict[PollKey, PollQueue] = {}
        self._watching: dict[PollKey, PollQueue] = {}
        self.watch_count = 0
        self._waiters: dict[int, LongPoll] = {}
        self._keys_of: dict[str, dict[PollKey, None]] = {}
        """A dictionary, so that the order does not depend on the hashes of names."""
        self._group_counts: Counter[str] = Counter()

    @property
    def is_empty(self) -> bool:
        """Nothing is left of polls that were here."""
        tables = (self._parked, self._watching, self._waiters, self._keys_of, self._group_counts)
        return self.count + self.watch_count == 0 and not any(tables) and not self._gathering

    def gathers(self, key: PollKey) -> bool:
        """A poll that comes now gets more, and costs less, if it waits for the end of the gap."""
        return key in self._gathering

    def waiting(self, key: PollKey) -> int:
        """How many polls wait there."""
        return len(self._parked.get(key, ()))

    async def wait(
        self,
        key: PollKey,
        wanted: Filter,
        timeout_s: float,
        *,
        looked: bool = True,
        again: bool = False,
        patience: Patience | None = None,
    ) -> bool:
        """True: something arrived, or `cut_short` ended it; False: `timeout_s` passed. Raises
        `TooManyRequests`.

        A poll that has not `looked` comes while arrivals gather, and is woken with them. One that
        comes `again` was woken for nothing, and goes before those that came after it.
        """
        if not looked and key in self._gathering:
            self._gathering[key].newcomers = True
        self._check_room(key)
        woken = asyncio.get_running_loop().create_future()
        waiter = LongPoll(next(self._numbers), wanted, woken)
        if patience is not None:
            patience.waiter = waiter
        self._enter(key, waiter, first=again)
        try:
            async with asyncio.timeout(timeout_s):
                await woken
        except TimeoutError:
            return waiter.was_woken  # in the same moment: it looks once more
        except asyncio.CancelledError:
            if waiter.was_woken:
                self._wake_one(key, waiter.woken.result())
            raise
        finally:
            self._leave(key, waiter)
            if patience is not None:
                patience.waiter = None
        return True

    async def watch(self, key: PollKey, wanted: Filter) -> None:
        """Returns when something arrived that no poll here waits for, or when polls must look
        again. Raises `TooManyRequests`."""
        if self.watch_count >= self._count_max:
            raise TooManyRequests(what="watching proxies", limit=self._count_max)
        woken = asyncio.get_running_loop().create_future()
        waiter = LongPoll(next(self._numbers), wanted, woken, watches=True)
        self._enter(key, waiter, first=False)
        try:
            await woken
        except asyncio.CancelledError:
            if waiter.was_woken:
                self._wake_one(key, waiter.woken.result())
            raise
        finally:
            self._leave(key, waiter)

    def cut_short(self, key: PollKey, patience: Patience) -> None:
        """The poll looks once more and is answered with what it finds."""
        patience.deadline_s = 0.0
        if patience.waiter is not None:
            self._wake(key, patience.waiter, None)

    def arrived(self, topic: str, tags_codes: Collection[int]) -> None:
        """Messages with these hashes became visible in `topic`."""
        for key in tuple(self._keys_of.get(topic, ())):
            gathering = self._gathering.get(key)
            if gathering is None:
                self._wake_for(key, tags_codes)
            else:
                gathering.codes.update(tags_codes)
                gathering.count += len(tags_codes)

    def _wake_for(self, key: PollKey, tags_codes: Codes) -> None:
        """For an arrival; what comes within the gap waits for its end."""
        if self._wake_one(key, tags_codes) and self._gaps_max:
            gathering = self._gathering[key] = ArrivalLinger(self._gaps_max)
            self._begin_gap(key, gathering)

    def _begin_gap(self, key: PollKey, gathering: ArrivalLinger) -> None:
        gathering.gaps_left -= 1
        gathering.counted = gathering.count
        asyncio.get_running_loop().call_later(self._gap_s, self._gap_is_over, key, gathering)

    def _gap_is_over(self, key: PollKey, gathering: ArrivalLinger) -> None:
        if self._gathering.get(key) is not gathering:
            return  # `wake_next` ended it
        if gathering.gaps_left and gathering.streams:
            self._begin_gap(key, gathering)
            return
        del self._gathering[key]
        if gathering.newcomers or gathering.codes:
            self._wake_for(key, None if gathering.newcomers else gathering.codes)

    def wake_next(self, key: PollKey) -> None:
        """More is left than a poll took: the next one, if none waits, looks at once."""
        if not self._wake_one(key, None):
            self._gathering.pop(key, None)

    def wake_all(self, topic: str) -> None:
        """Every poll of `topic` must look again: it was deleted or moved."""
        for key in tuple(self._keys_of.get(topic, ())):
            self._wake_key(key)

    def wake_group(self, group: str) -> None:
        """Every poll of `group` must look again: it was deleted or changed."""
        if group in self._group_counts:
            keys = {**self._parked, **self._watching}
            for key in [key for key in keys if key.group == group]:
                self._wake_key(key)

    def _wake_key(self, key: PollKey) -> None:
        for line in (self._parked.get(key), self._watching.get(key)):
            for number in () if line is None else line.polls():
                waiter = self._waiters.get(number)
                if waiter is not None:
                    self._wake(key, waiter, None)

    def _wake_one(self, key: PollKey, tags_codes: Codes) -> bool:
        """False: nobody waits for these."""
        for table in (self._parked, self._watching):
            line = table.get(key)
            number = None if line is None else line.oldest(tags_codes)
            if number is not None:
                self._wake(key, self._waiters[number], tags_codes)
                return True
        return False

    def _wake(self, key: PollKey, waiter: LongPoll, tags_codes: Codes) -> None:
        """It leaves at once, so that nobody wakes it a second time."""
        self._leave(key, waiter)
        if not waiter.woken.done():
            waiter.woken.set_result(tags_codes)
        elif waiter.woken.cancelled():  # it is being given up, in this turn of the loop
            self._wake_one(key, tags_codes)

    def _check_room(self, key: PollKey) -> None:
        if self.count >= self._count_max:
            raise TooManyRequests(what="waiting polls", limit=self._count_max)
        if self._group_counts[key.group] >= self._group_count_max:
            what = f"waiting polls of group {key.group}"
            raise TooManyRequests(what=what, limit=self._group_count_max)

    def _enter(self, key: PollKey, waiter: LongPoll, *, first: bool) -> None:
        table = self._watching if waiter.watches else self._parked
        line = table.get(key)
        if line is None:
            line = table[key] = PollQueue()
            for topic in (key.topic, retry_topic(*key)):
                self._keys_of.setdefault(topic, {})[key] = None
        line.add(waiter.number, waiter.filter, first=first)
        self._waiters[waiter.number] = waiter
        self._group_counts[key.group] += 1
        self._count(waiter, 1)

    def _leave(self, key: PollKey, waiter: LongPoll) -> None:
        """Once; it may have left when it was woken."""
        if self._waiters.pop(waiter.number, None) is None:
            return
        self._count(waiter, -1)
        self._group_counts[key.group] -= 1
        if not self._group_counts[key.group]:
            del self._group_counts[key.group]
        table = self._watching if waiter.watches else self._parked
        line = table[key]
        line.remove(waiter.number, waiter.filter)
        if line:
            return
        del table[key]
        if key in self._parked or key in self._watching:
            return
        for topic in (key.topic, retry_topic(*key)):
            keys = self._keys_of[topic]
            keys.pop(key, None)
            if not keys:
                del self._keys_of[topic]

    def _count(self, waiter: LongPoll, change: int) -> None:
        if waiter.watches:
            self.watch_count += change
        else:
            self.count += change
