"""Leases: which messages a group holds, until when, and what an ack or a change finds out.

One `GroupQueueState` per group and queue holds the position (the next offset to hand out) and the
live leases. States of one message for one group, and what moves it:

    ready ──pop──► leased ──ack──► acked
      ▲              │ ├──change──► leased again, one generation higher; old handles superseded,
      │              │ │            but for the same change once more: its answer may be lost
      │              │ └──reset──► dropped (position changed, topic deleted): fenced
      └── a copy ────┘ time runs out, or given back: expired
          in the retry topic, or the dead letters

Everything here is synchronous and knows no clock: `now_ms` is an argument. The caller appends to
the journal before it applies, and answers when the journal is durable.

Differs from RocketMQ: there the records in the revive topic are the authority and an ack of a
lease that does not exist is stored and answered OK; here the table is, and the answer is typed.
"""

import heapq
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from itertools import count
from typing import Final, NamedTuple

from popmq_broker.core.groups.offsets import Passing, QueueKey
from popmq_broker.core.groups.passing import EVERYTHING
from popmq_broker.core.leases.fifo_queue import FifoQueue
from popmq_broker.core.leases.grant import Grant, Lease
from popmq_broker.core.leases.pop_buffer import Unstored
from popmq_broker.core.leases.renewal import RenewableLeases
from popmq_common.records.receipt import Receipt

RESOLVED_KEPT_MAX: Final = 1024
"""Per queue and group: how many ended leases are remembered to answer late acks exactly."""
NO_BOUND: Final = 1 << 62
STALE_DUE_MIN: Final = 1024
"""Entries of ended leases stay in the heap until they are a multiple of the live ones."""


class LeaseOutcome(Enum):
    DONE = "done"
    ALREADY_ACKED = "already acked"
    EXPIRED = "expired"
    SUPERSEDED = "superseded"
    UNKNOWN = "unknown"
    __hash__ = object.__hash__  # Enum's own is Python, and each ack looks some up


class Ended(NamedTuple):
    generation: int
    outcome: LeaseOutcome  # what a later ack of that generation is told


class GroupQueueState:
    """One group's standing in one queue."""

    def __init__(self, key: QueueKey, position: int, *, fifo: bool = False) -> None:
        self.key = key
        self.position = position
        self.fifo_queue = FifoQueue(position) if fifo else None
        """Of a FIFO group: which message may go next."""
        self.unstored = Unstored()
        """What was handed out and is in no journal: only with pop_buffer=memory."""
        self.committed = position
        self.told: Passing = EVERYTHING
        """The way in which messages are gone over, as the journal tells it."""
        self.told_again = False
        """It is to be told once more: the position may lie before the place it was told for."""
        self.expired = 0
        """Messages that were deleted before the group was done with them."""
        self.fenced_ms = 0
        """Pops before this time are void: the position was set while they were held."""
        self.pops = 0
        """Pops of the group so far; decides whose turn it is."""
        self.leases: dict[int, Lease] = {}
        self._ended: OrderedDict[int, Ended] = OrderedDict()

    def __repr__(self) -> str:
        key = self.key
        return (
            f"<{key.topic}/{key.queue_id} of {key.group}: position {self.position}, "
            f"committed {self.committed}, {len(self.leases)} leased>"
        )

    def judge(self, ref: Receipt, now_ms: int) -> LeaseOutcome:
        """What an ack or change through `ref` finds; DONE: it holds the newest live lease."""
        return self.judge_one_of(ref, ref.queue_offset, now_ms)

    def held_together(
        self, ref: Receipt, queue_offsets: Sequence[int], now_ms: int
    ) -> Grant | None:
        """The grant by which the group holds all of these, when `judge_one_of` says `DONE` of
        each; None: look at them one by one."""
        leases = self.leases
        first = leases.get(queue_offsets[0])
        if first is None:
            return None
        grant = first.grant
        for offset in queue_offsets:
            lease = leases.get(offset)
            if lease is None or lease.grant is not grant:
                return None
        is_held = self.judge_one_of(ref, queue_offsets[0], now_ms) is LeaseOutcome.DONE
        return grant if is_held else None

    def judge_one_of(self, ref: Receipt, queue_offset: int, now_ms: int) -> LeaseOutcome:
        """The same of a message that was handed out by one grant with the one of `ref`: not by
        another pop of the same moment, which `start_offset` tells."""
        if ref.pop_time_ms < self.fenced_ms:
            return LeaseOutcome.SUPERSEDED
        lease = self.leases.get(queue_offset)
        if lease is None:
            return self._judge_ended(ref, queue_offset, now_ms)
        grant = lease.grant
        if ref.generation < grant.generation:
            return LeaseOutcome.SUPERSEDED
        given_by = (grant.generation, grant.pop_time_ms, grant.start_offset)
        if given_by != (ref.generation, ref.pop_time_ms, ref.start_offset):
            return LeaseOutcome.UNKNOWN
        return (
            LeaseOutcome.DONE
            if now_ms < grant.pop_time_ms + grant.invisible_ms
            else LeaseOutcome.EXPIRED
        )

    def repeats_change(self, ref: Receipt, now_ms: int) -> bool:
        """`ref` is the handle by which the newest live lease was made, in a change. So its answer
        may have been lost: whoever asks again with it knows no newer handle."""
        lease = self.leases.get(ref.queue_offset)
        if lease is None or lease.grant.due_ms <= now_ms or ref.pop_time_ms < self.fenced_ms:
            return False
        return lease.grant.changed_from == (ref.generation, ref.pop_time_ms)

    def _judge_ended(self, ref: Receipt, queue_offset: int, now_ms: int) -> LeaseOutcome:
        if queue_offset >= self.position:
            return LeaseOutcome.UNKNOWN
        ended = self._ended.get(queue_offset)
        if ended is None:
            due = ref.pop_time_ms + ref.invisible_ms <= now_ms
            return LeaseOutcome.EXPIRED if due else LeaseOutcome.UNKNOWN
        if ref.generation < ended.generation:
            return LeaseOutcome.SUPERSEDED
        return ended.outcome if ref.generation == ended.generation else LeaseOutcome.UNKNOWN

    def ended(self, queue_offset: int) -> LeaseOutcome | None:
        """How the last lease of a message ended; None: none has, or it is not remembered."""
        found = self._ended.get(queue_offset)
        return None if found is None else found.outcome

    def end(self, queue_offsets: Sequence[int], outcome: LeaseOutcome) -> Grant:
        """Remove live leases of one grant, and remember why. Called by the table, which counts."""
        grant = self.leases[queue_offsets[0]].grant
        for offset in queue_offsets:
            del self.leases[offset]
        ended = Ended(grant.generation, outcome)
        self._ended.update(dict.fromkeys(queue_offsets, ended))
        for _ in range(len(self._ended) - RESOLVED_KEPT_MAX):
            self._ended.popitem(last=False)
        return grant

    def advance(self, to: int) -> None:
        """The only way the committed offset grows: over what is durable, never back.

        A position change that came in between wins: nothing is committed past the position.
        Of a FIFO group `pass_settled` commits.
        """
        if self.fifo_queue is None:
            self.committed = max(self.committed, min(to, self.position))

    def is_done_to(self, end: int) -> bool:
        """All before `end` was handed out and is committed: a pop finds, and changes, nothing."""
        return self.fifo_queue is None and self.position >= end and self.committed == self.position

    def pass_settled(self) -> list[Lease]:
        """A FIFO group's committed offset goes over what is settled; returns leases nobody needs.

        It may be ahead of the disk by an ack that is not answered yet; the offsets file is not.
        """
        if self.fifo_queue is None:
            return []
        over = self.fifo_queue.advance(self.position)
        self.committed = self.fifo_queue.first
        return over

    @property
    def needed_from(self) -> int:
        """The offset that a restart begins with, besides what the journal says."""
        if self.fifo_queue is not None:
            return self.fifo_queue.first
        return self.unstored.needed_from(self.position)

    @property
    def in_use(self) -> bool:
        """Messages are held, or were handed out and are not settled."""
        return bool(self.leases) or (self.fifo_queue is not None and self.fifo_queue.was_begun)

    def keep_order(self, *, fifo: bool) -> None:
        """From now on a FIFO group's, or no longer; nothing is `in_use`."""
        self.doubt_told()
        if self.fifo_queue is not None:
            self.position = self.fifo_queue.first
        self.fifo_queue = FifoQueue(self.position) if fifo else None

    def expire_below(self, offset: int) -> tuple[int, list[Lease]]:
        """Messages before `offset` are gone from the log: the group goes on behind them.

        Returns how many it had not settled, and leases nobody needs any more. Those that are held
        stay: whoever ends them counts them.
        """
        if self.fifo_queue is not None:
            lost = self.fifo_queue.expire_below(offset, self.position)
        else:
            lost = max(0, offset - self.position)
        self.expired += lost
        self.position = max(self.position, offset)
        if self.fifo_queue is not None:
            self.position = self.fifo_queue.end_of_known(self.position)
        else:
            self.advance(self.needed_from)
        return lost, self.pass_settled()

    def needed_leases(self) -> list[Lease]:
        """Those whose checkpoints a restart needs."""
        return list(self.leases.values()) if self.fifo_queue is None else self.fifo_queue.leases()

    def fence(self, to: int) -> list[Lease]:
        """Set the position outright; leases are dropped, those that were needed are returned."""
        dropped = self.needed_leases()
        times_ms = [lease.grant.pop_time_ms for lease in self.leases.values()]
        self.fenced_ms = max([self.fenced_ms, *(ms + 1 for ms in times_ms)])
        self.leases.clear()
        self._ended.clear()
        self.position = self.committed = to
        self.told, self.told_again = EVERYTHING, False
        if self.fifo_queue is not None:
            self.fifo_queue = FifoQueue(to)
        return dropped

    def doubt_told(self) -> None:
        """The position may have gone back before the record that told the way: tell it again."""
        self.told_again = self.told != EVERYTHING


class Due(NamedTuple):
    """Messages of one grant that are looked at when its time is over."""

    due_ms: int
    serial: int
    """Those that are due in the same millisecond go by age."""
    key: QueueKey
    offsets: tuple[int, ...]
    grant: Grant


class LeaseTable:
    """All group queues of a broker, and which lease is due next."""

    def __init__(self) -> None:
        self.queues: dict[QueueKey, GroupQueueState] = {}
        self.live_count = 0
        self.renewals = RenewableLeases()
        self._due: list[Due] = []
        self._due_offsets = 0
        self._serials = count()

    def add(self, queue: GroupQueueState, leases: Mapping[int, Lease]) -> None:
        """Leases by queue offset, all of one grant; each takes the place of an older one."""
        if not leases:
            return
        live = len(queue.leases)
        for offset in leases.keys() & queue.leases.keys():
            self.renewals.drop(queue.leases[offset].grant, (offset,))
        queue.leases.update(leases)
        self.live_count += len(queue.leases) - live
        grant = next(iter(leases.values())).grant
        self.renewals.add(queue.key, grant, leases)
        self._push(Due(grant.due_ms, next(self._serials), queue.key, tuple(leases), grant))
        if self._due_offsets > 4 * self.live_count + STALE_DUE_MIN:
            self._sweep()

    def _push(self, due: Due) -> None:
        heapq.heappush(self._due, due)
        self._due_offsets += len(due.offsets)

    def _pop(self) -> Due:
        due = heapq.heappop(self._due)
        self._due_offsets -= len(due.offsets)
        return due

    def _sweep(self) -> None:
        live = [(due, tuple(self._live(due))) for due in self._due]
        self._due = [due._replace(offsets=offsets) for due, offsets in live if offsets]
        self._due_offsets = sum(len(due.offsets) for due in self._due)
        heapq.heapify(self._due)

    def end(
        self, queue: GroupQueueState, queue_offsets: Sequence[int], outcome: LeaseOutcome
    ) -> Grant:
        """Live leases of one grant, which is returned."""
        self.live_count -= len(queue_offsets)
        grant = queue.end(queue_offsets, outcome)
        self.renewals.drop(grant, queue_offsets)
        return grant

    def fence(self, queue: GroupQueueState, to: int) -> list[Lease]:
        """Set a queue's position; its leases are dropped, those that were needed returned."""
        self._void(queue)
        return queue.fence(to)

    def forget(self, key: QueueKey) -> list[Lease]:
        """Drop all that is known of a queue; leases that were needed are returned.

        A pop that is still to be answered may have the queue in its hands, so it is emptied too.
        """
        queue = self.queues.pop(key, None)
        return [] if queue is None else self.fence(queue, queue.position)

    def _void(self, queue: GroupQueueState) -> None:
        self.live_count -= len(queue.leases)
        for offset, lease in queue.leases.items():
            self.renewals.drop(lease.grant, (offset,))

    def next_due_ms(self) -> int | None:
        while self._due and next(self._live(self._due[0]), None) is None:
            self._pop()
        return self._due[0].due_ms if self._due else None

    def late_ms(self, now_ms: int) -> int:
        """How long the oldest due lease has waited for its revival."""
        next_ms = self.next_due_ms()
        return 0 if next_ms is None else max(0, now_ms - next_ms)

    def overdue_count(self, now_ms: int) -> int:
        """Live leases whose time is over and that wait for their revival."""
        return sum(len(list(self._live(due))) for due in self._due if due.due_ms <= now_ms)

    def take_due(self, now_ms: int, count_max: int, bytes_max: int = NO_BOUND) -> list[Due]:
        """Live leases whose time is over, oldest first: `count_max` at most, and no further ones
        when their messages have `bytes_max` together.

        The caller ends each, or puts them back.
        """
        taken: list[Due] = []
        room, room_bytes = count_max, bytes_max
        while self._due and self._due[0].due_ms <= now_ms and room and room_bytes > 0:
            due = self._pop()
            offsets = tuple(self._live(due))
            fits = 0
            while fits < min(len(offsets), room) and room_bytes > 0:
                room_bytes -= self.queues[due.key].leases[offsets[fits]].size_bytes
                fits += 1
            if len(offsets) > fits:
                self._push(due._replace(offsets=offsets[fits:]))
            if fits:
                taken.append(due._replace(offsets=offsets[:fits]))
                room -= fits
        return taken

    def put_back(self, taken: list[Due], due_ms: int) -> None:
        """Look at these again at `due_ms`; the leases themselves do not change."""
        for due in taken:
            self._push(due._replace(due_ms=due_ms))

    def _live(self, due: Due) -> Iterator[int]:
        queue = self.queues.get(due.key)
        if queue is None:
            return
        for offset in due.offsets:
            lease = queue.leases.get(offset)
            if lease is not None and lease.grant is due.grant:  # else changed, or renewed
                yield offset
