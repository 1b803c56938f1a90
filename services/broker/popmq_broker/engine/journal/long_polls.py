"""Long polls that found nothing, and what wakes them.

A poll waits under (group, topic). An arrival in the topic, or in the group's retry topic of it,
wakes the oldest poll whose filter may match; whoever was woken and leaves messages behind wakes
the next, so many messages wake many polls and one message wakes one.

A message that comes alone wakes at once. In a steady stream none has a poll of its own: after an
arrival has woken one, the next linger for a few milliseconds and share one, and as long as each
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
from popmq_broker.core.polls.poll_queue import PollQueue
from popmq_common.errors import TooManyRequests
from popmq_common.records.names import retry_topic


class GroupTopic(NamedTuple):
    group: str
    topic: str


Codes = Collection[int] | None
"""Hashes of what arrived; None: anything."""

STREAM_COUNT: Final = 2
"""Arrivals of a gap that make a stream, for which another gap follows."""


@dataclass(slots=True, eq=False)
class WaitingPoll:
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
class PollDeadline:
    """Until when a poll waits; somebody else may cut it short."""

    deadline_s: float
    """By the event loop's clock."""
    poll: WaitingPoll | None = None
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


class WaitingPolls:
    def __init__(
        self,
        count_max: int,
        gap_ms: int = 0,
        *,
        gap_ms_max: int = 0,
        group_count_max: int | None = None,
    ) -> None:
        """`gap_ms`: how long arrivals linger after one woke a poll; `gap_ms_max`: in a stream."""
        self.count = 0
        self._count_max = count_max
        self._group_count_max = group_count_max or count_max
        self._gap_s = gap_ms / 1000
        self._numbers = count()
        self._gaps_max = max(1, gap_ms_max // gap_ms) if gap_ms else 0
        self._lingers: dict[GroupTopic, ArrivalLinger] = {}
        self._polls: dict[GroupTopic, PollQueue] = {}
        self._watching: dict[GroupTopic, PollQueue] = {}
        self.watch_count = 0
        self._by_number: dict[int, WaitingPoll] = {}
        self._keys_of: dict[str, dict[GroupTopic, None]] = {}
        """A dictionary, so that the order does not depend on the hashes of names."""
        self._group_counts: Counter[str] = Counter()

    @property
    def is_empty(self) -> bool:
        """Nothing is left of polls that were here."""
        tables = (self._polls, self._watching, self._by_number, self._keys_of, self._group_counts)
        return self.count + self.watch_count == 0 and not any(tables) and not self._lingers

    def lingers(self, key: GroupTopic) -> bool:
        """A poll that comes now gets more, and costs less, if it waits for the end of the gap."""
        return key in self._lingers

    def waiting(self, key: GroupTopic) -> int:
        """How many polls wait there."""
        return len(self._polls.get(key, ()))

    async def wait(
        self,
        key: GroupTopic,
        wanted: Filter,
        timeout_s: float,
        *,
        looked: bool = True,
        again: bool = False,
        deadline: PollDeadline | None = None,
    ) -> bool:
        """True: something arrived, or `cut_short` ended it; False: `timeout_s` passed. Raises
        `TooManyRequests`.

        A poll that has not `looked` comes while arrivals linger, and is woken with them. One that
        comes `again` was woken for nothing, and goes before those that came after it.
        """
        if not looked and key in self._lingers:
            self._lingers[key].newcomers = True
        self._check_room(key)
        woken = asyncio.get_running_loop().create_future()
        poll = WaitingPoll(next(self._numbers), wanted, woken)
        if deadline is not None:
            deadline.poll = poll
        self._enter(key, poll, first=again)
        try:
            async with asyncio.timeout(timeout_s):
                await woken
        except TimeoutError:
            return poll.was_woken  # in the same moment: it looks once more
        except asyncio.CancelledError:
            if poll.was_woken:
                self._wake_one(key, poll.woken.result())
            raise
        finally:
            self._leave(key, poll)
            if deadline is not None:
                deadline.poll = None
        return True

    async def watch(self, key: GroupTopic, wanted: Filter) -> None:
        """Returns when something arrived that no poll here waits for, or when polls must look
        again. Raises `TooManyRequests`."""
        if self.watch_count >= self._count_max:
            raise TooManyRequests(what="watching proxies", limit=self._count_max)
        woken = asyncio.get_running_loop().create_future()
        poll = WaitingPoll(next(self._numbers), wanted, woken, watches=True)
        self._enter(key, poll, first=False)
        try:
            await woken
        except asyncio.CancelledError:
            if poll.was_woken:
                self._wake_one(key, poll.woken.result())
            raise
        finally:
            self._leave(key, poll)

    def cut_short(self, key: GroupTopic, deadline: PollDeadline) -> None:
        """The poll looks once more and is answered with what it finds."""
        deadline.deadline_s = 0.0
        if deadline.poll is not None:
            self._wake(key, deadline.poll, None)

    def arrived(self, topic: str, tags_codes: Collection[int]) -> None:
        """Messages with these hashes became visible in `topic`."""
        for key in tuple(self._keys_of.get(topic, ())):
            linger = self._lingers.get(key)
            if linger is None:
                self._wake_for(key, tags_codes)
            else:
                linger.codes.update(tags_codes)
                linger.count += len(tags_codes)

    def _wake_for(self, key: GroupTopic, tags_codes: Codes) -> None:
        """For an arrival; what comes within the gap waits for its end."""
        if self._wake_one(key, tags_codes) and self._gaps_max:
            linger = self._lingers[key] = ArrivalLinger(self._gaps_max)
            self._begin_gap(key, linger)

    def _begin_gap(self, key: GroupTopic, linger: ArrivalLinger) -> None:
        linger.gaps_left -= 1
        linger.counted = linger.count
        asyncio.get_running_loop().call_later(self._gap_s, self._gap_is_over, key, linger)

    def _gap_is_over(self, key: GroupTopic, linger: ArrivalLinger) -> None:
        if self._lingers.get(key) is not linger:
            return  # `wake_next` ended it
        if linger.gaps_left and linger.streams:
            self._begin_gap(key, linger)
            return
        del self._lingers[key]
        if linger.newcomers or linger.codes:
            self._wake_for(key, None if linger.newcomers else linger.codes)

    def wake_next(self, key: GroupTopic) -> None:
        """More is left than a poll took: the next one, if none waits, looks at once."""
        if not self._wake_one(key, None):
            self._lingers.pop(key, None)

    def wake_all(self, topic: str) -> None:
        """Every poll of `topic` must look again: it was deleted or moved."""
        for key in tuple(self._keys_of.get(topic, ())):
            self._wake_key(key)

    def wake_group(self, group: str) -> None:
        """Every poll of `group` must look again: it was deleted or changed."""
        if group in self._group_counts:
            keys = {**self._polls, **self._watching}
            for key in [key for key in keys if key.group == group]:
                self._wake_key(key)

    def _wake_key(self, key: GroupTopic) -> None:
        for queue in (self._polls.get(key), self._watching.get(key)):
            for number in () if queue is None else queue.polls():
                poll = self._by_number.get(number)
                if poll is not None:
                    self._wake(key, poll, None)

    def _wake_one(self, key: GroupTopic, tags_codes: Codes) -> bool:
        """False: nobody waits for these."""
        for table in (self._polls, self._watching):
            queue = table.get(key)
            number = None if queue is None else queue.oldest(tags_codes)
            if number is not None:
                self._wake(key, self._by_number[number], tags_codes)
                return True
        return False

    def _wake(self, key: GroupTopic, poll: WaitingPoll, tags_codes: Codes) -> None:
        """It leaves at once, so that nobody wakes it a second time."""
        self._leave(key, poll)
        if not poll.woken.done():
            poll.woken.set_result(tags_codes)
        elif poll.woken.cancelled():  # it is being given up, in this turn of the loop
            self._wake_one(key, tags_codes)

    def _check_room(self, key: GroupTopic) -> None:
        if self.count >= self._count_max:
            raise TooManyRequests(what="waiting polls", limit=self._count_max)
        if self._group_counts[key.group] >= self._group_count_max:
            what = f"waiting polls of group {key.group}"
            raise TooManyRequests(what=what, limit=self._group_count_max)

    def _enter(self, key: GroupTopic, poll: WaitingPoll, *, first: bool) -> None:
        table = self._watching if poll.watches else self._polls
        queue = table.get(key)
        if queue is None:
            queue = table[key] = PollQueue()
            for topic in (key.topic, retry_topic(*key)):
                self._keys_of.setdefault(topic, {})[key] = None
        queue.add(poll.number, poll.filter, first=first)
        self._by_number[poll.number] = poll
        self._group_counts[key.group] += 1
        self._count(poll, 1)

    def _leave(self, key: GroupTopic, poll: WaitingPoll) -> None:
        """Once; it may have left when it was woken."""
        if self._by_number.pop(poll.number, None) is None:
            return
        self._count(poll, -1)
        if not self._by_number:
            self._by_number.clear()  # as large as it was once, otherwise
        self._group_counts[key.group] -= 1
        if not self._group_counts[key.group]:
            del self._group_counts[key.group]
        table = self._watching if poll.watches else self._polls
        queue = table[key]
        queue.remove(poll.number, poll.filter)
        if queue:
            return
        del table[key]
        if key in self._polls or key in self._watching:
            return
        for topic in (key.topic, retry_topic(*key)):
            keys = self._keys_of[topic]
            keys.pop(key, None)
            if not keys:
                del self._keys_of[topic]

    def _count(self, poll: WaitingPoll, change: int) -> None:
        if poll.watches:
            self.watch_count += change
        else:
            self.count += change
