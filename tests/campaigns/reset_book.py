"""What a group that is reset again and again may receive, and what it must.

Between two resets of a queue lies an epoch. In each epoch, of the queue's messages

    before the offset of the reset    none comes
    from it on                        each comes, first with attempt 1; again only when it was not
                                      acked, and then with an attempt more

A receive that was under way while a reset was may belong to either epoch. Its messages are acked
after the reset, and the answer says which: OK is the new one, superseded the old one.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from harness.queue_reader import Placed

ACKED, SUPERSEDED, EXPIRED, NOT_ACKED = "acked", "superseded", "expired", "not acked"


@dataclass
class Delivery:
    """Times are of one monotonic clock, in seconds."""

    body: str
    attempt: int
    invoked_s: float
    answered_s: float
    leased_until_s: float
    """At least so long."""
    settled_s: float = 0.0
    """When its ack was called."""
    outcome: str = NOT_ACKED


@dataclass
class Reset:
    began_s: float
    done_s: float
    to: Mapping[int, int]
    """By queue; a queue that is not named goes on as before."""
    ends: Mapping[int, int] = field(default_factory=dict)
    """Where each queue ended before it."""
    time_ms: int | None = None
    """The time that was asked for."""

    def has(self, queue_id: int) -> bool:
        """There was something to receive from it on."""
        return queue_id in self.to and self.to[queue_id] < self.ends[queue_id]


class Place(NamedTuple):
    queue_id: int
    offset: int
    stored_ms: int


@dataclass
class Book:
    deliveries: dict[str, list[Delivery]] = field(default_factory=lambda: defaultdict(list))
    resets: list[Reset] = field(default_factory=list)
    drained: list[tuple[float, dict[int, int]]] = field(default_factory=list)
    """When, and up to which offset of each queue everything was acked then."""

    def judge(self, placed: Mapping[int, list[Placed]]) -> list[str]:
        """Everything that is wrong."""
        where = places(placed)
        wrong = [f"{body} was never sent" for body in self.deliveries.keys() - where.keys()]
        wrong += self.times(placed)
        for queue_id in placed:
            resets = [reset for reset in self.resets if queue_id in reset.to]
            for body, place in where.items():
                if place.queue_id == queue_id:
                    told = self.deliveries.get(body, [])
                    wrong += _message(f"{body} at {place}", place, told, resets)
                    wrong += self._missing(f"{body} at {place}", place, told, resets)
        return wrong

    def times(self, placed: Mapping[int, list[Placed]]) -> list[str]:
        """A reset to a time goes to the first message stored then or later."""
        wrong = []
        for reset in self.resets:
            for place in places(placed).values():
                if reset.time_ms is None or place.queue_id not in reset.to:
                    continue
                since = place.stored_ms >= reset.time_ms
                if since != (place.offset >= reset.to[place.queue_id]):
                    wrong.append(f"{place}: reset to {reset.to} for {reset.time_ms} ms")
        return wrong

    def _missing(
        self, name: str, place: Place, told: list[Delivery], resets: list[Reset]
    ) -> list[str]:
        """Epochs in which it had to come, and did not."""
        came = {epoch_of(one, resets) for one in told}
        wrong = []
        for epoch in range(len(resets) + 1):
            first = resets[epoch - 1].to[place.queue_id] if epoch else 0
            began_s = resets[epoch - 1].done_s if epoch else 0.0
            ended_s = resets[epoch].began_s if epoch < len(resets) else float("inf")
            marks = [mark for at, mark in self.drained if began_s <= at <= ended_s]
            last = marks[-1][place.queue_id] if marks else 0
            if first <= place.offset < last and epoch not in came:
                wrong.append(f"{name} did not come after reset {epoch}")
        return wrong

    def again(self, placed: Mapping[int, list[Placed]]) -> int:
        """How often a message came that had come in an earlier epoch."""
        count, where = 0, places(placed)
        for body, told in self.deliveries.items():
            resets = [reset for reset in self.resets if where[body].queue_id in reset.to]
            count += len({epoch_of(one, resets) for one in told}) - 1
        return count

    def effective_s(self, placed: Mapping[int, list[Placed]]) -> float:
        """The longest time from the answer of a reset until the first message came, where there
        was one."""
        firsts, where = [], places(placed)
        told = [one for some in self.deliveries.values() for one in some]
        for reset in self.resets:
            after = [
                one.answered_s - reset.done_s
                for one in told
                if reset.has(where[one.body].queue_id)
                and one.answered_s >= reset.began_s
                and one.outcome != SUPERSEDED
            ]
            if any(reset.has(queue_id) for queue_id in reset.to):
                firsts.append(max(0.0, min(after, default=float("inf"))))
        return max(firsts, default=0.0)


def places(placed: Mapping[int, list[Placed]]) -> dict[str, Place]:
    """By body."""
    return {
        one.body: Place(queue_id, offset, one.stored_ms)
        for queue_id, messages in placed.items()
        for offset, one in enumerate(messages)
    }


def epoch_of(one: Delivery, resets: list[Reset]) -> int:
    """How many resets of its queue came before it."""
    sure = bisect_right([reset.done_s for reset in resets], one.invoked_s)
    maybe = bisect_right([reset.began_s for reset in resets], one.answered_s)
    return sure if one.outcome == SUPERSEDED else maybe


def is_sure(one: Delivery, resets: list[Reset]) -> bool:
    """No reset of its queue was under way while it was received."""
    sure = bisect_right([reset.done_s for reset in resets], one.invoked_s)
    return sure == bisect_right([reset.began_s for reset in resets], one.answered_s)


def _message(name: str, place: Place, told: list[Delivery], resets: list[Reset]) -> list[str]:
    """What one message must not do."""
    wrong = []
    seen: dict[int, list[Delivery]] = defaultdict(list)
    for one in told:
        epoch = epoch_of(one, resets)
        earlier = seen[epoch]
        if epoch and place.offset < resets[epoch - 1].to[place.queue_id]:
            wrong.append(f"{name} came after reset {epoch} to {resets[epoch - 1].to}")
        if one.attempt != len(earlier) + 1:
            wrong.append(f"{name}: attempt {one.attempt} after {len(earlier)} of epoch {epoch}")
        if any(before.outcome == ACKED for before in earlier):
            wrong.append(f"{name} came again in epoch {epoch}, after its ack")
        earlier.append(one)
        if epoch < len(resets):
            wrong += _fenced(name, one, resets[epoch])
    return wrong


def _fenced(name: str, one: Delivery, reset: Reset) -> list[str]:
    """What its consumer was told when it acked behind the next reset."""
    if one.outcome == NOT_ACKED or one.settled_s < reset.done_s:
        return []
    if one.outcome == SUPERSEDED:
        return []
    if one.outcome == EXPIRED and one.leased_until_s <= reset.done_s:
        return []
    return [f"{name}: held at a reset, and its ack found {one.outcome!r}"]
