"""Random histories of a broker that does everything right, and faults to plant in them.

Each history has a topic and a group of its own, so hundreds of them are one log, one snapshot and
one audit, and a finding says whose it is.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from harness.snapshot_rows import Lease, RowLog

from popmq_common.records.names import dead_letter_topic, retry_topic

MAX_ATTEMPTS = 3
QUEUES = 2
FIFO_EVERY = 3
"""Every third history without a planted fault is of a FIFO group."""
FAULT_QUEUE = 7
"""Of the same topic; whatever else happens in the history leaves it alone."""

Found = tuple[str, str, int, int, int]
"""kind, topic, queue, offset, how many offsets."""


@dataclass
class History:
    log: RowLog
    number: int
    rng: random.Random
    open: dict[Lease, tuple[str, int]] = field(default_factory=dict)
    """Lease → message id and attempt."""
    ids: dict[tuple[str, int, int], tuple[str, int]] = field(default_factory=dict)
    """Place → message id and how often it was handed out before."""
    sent: int = 0

    @property
    def topic(self) -> str:
        return f"topic-{self.number}"

    @property
    def group(self) -> str:
        return f"group-{self.number}"

    @property
    def retry(self) -> str:
        return retry_topic(self.group, self.topic)

    def step(self) -> None:
        self.log.now_ms += self.rng.randint(1, 40)
        self.revive()
        deeds: list[Callable[[], None]] = [
            *(self.send_one, self.pop, self.ack) * 3,
            self.change,
            self.renew,
            self.move,
        ]
        self.rng.choice(deeds)()

    def send_one(self) -> None:
        self.send()

    def send(self, queue_id: int | None = None) -> int:
        if queue_id is None:
            queue_id = self.rng.randrange(QUEUES)
        self.sent += 1
        message_id = f"{self.topic}-{self.sent}"
        row = self.log.record(self.topic, queue_id, message_id)
        offset = int(row["queue_offset"])
        self.ids[self.topic, queue_id, offset] = (message_id, 0)
        return offset

    def pop(self) -> None:
        topic = self.rng.choice([self.topic, self.topic, self.retry])
        queue_id = self.rng.randrange(QUEUES) if topic == self.topic else 0
        at = self.log.positions.get((topic, self.group, queue_id), 0)
        until = min(self.log.stored[topic, queue_id], at + self.rng.randint(1, 4))
        if until > at:
            self.lease(range(at, until), queue_id, topic=topic)

    def lease(
        self,
        offsets: Sequence[int],
        queue_id: int,
        *,
        topic: str | None = None,
        invisible_ms: int = 0,
        generation: int = 1,
    ) -> list[Lease]:
        """Made now, in one checkpoint."""
        topic = topic or self.topic
        due_ms = self.log.now_ms + (invisible_ms or self.rng.randint(2_000, 20_000))
        made = [
            Lease(topic, self.group, queue_id, at, self.log.now_ms, generation, due_ms)
            for at in offsets
        ]
        for lease in made:
            message_id, tries = self.ids[topic, queue_id, lease.queue_offset]
            self.open[lease] = (message_id, tries + 1)
        self.checkpoint(made)
        key = (topic, self.group, queue_id)
        self.log.positions[key] = max(self.log.positions.get(key, 0), offsets[-1] + 1)
        return made

    def checkpoint(self, leases: Sequence[Lease]) -> None:
        self.log.checkpoint(leases)

    def ack(self) -> None:
        """Of some that were popped together: one record."""
        if not self.open:
            return
        one = self.rng.choice(list(self.open))
        together = [
            lease
            for lease in self.open
            if (lease.topic, lease.queue_id, lease.pop_time_ms, lease.generation)
            == (one.topic, one.queue_id, one.pop_time_ms, one.generation)
        ]
        self.end(together[: self.rng.randint(1, len(together))])

    def end(self, leases: Sequence[Lease]) -> None:
        self.log.ack(leases)
        for lease in leases:
            del self.open[lease]

    def change(self) -> None:
        """As a nack or a change of the invisible time: a new lease, then the old one's end."""
        if not self.open:
            return
        old = self.rng.choice(list(self.open))
        new = replace(
            old,
            pop_time_ms=self.log.now_ms,
            generation=old.generation + 1,
            due_ms=self.log.now_ms + self.rng.randint(1_000, 20_000),
        )
        self.open[new] = self.open.pop(old)
        self.checkpoint([new])
        if self.rng.random() < 0.8:  # a crash may fall between the two
            self.log.ack([old])

    def renew(self) -> None:
        """The same lease, due later."""
        if not self.open:
            return
        old = self.rng.choice(list(self.open))
        new = replace(old, due_ms=old.due_ms + self.rng.randint(1, 10_000))
        self.open[new] = self.open.pop(old)
        self.checkpoint([new])

    def move(self) -> None:
        """A reset: what is held of the queue is forgotten."""
        if self.rng.random() < 0.7:
            return
        queue_id = self.rng.randrange(QUEUES)
        to = self.rng.randint(0, self.log.stored[self.topic, queue_id])
        self.log.move(self.topic, self.group, queue_id, to)
        self.forget(queue_id)

    def forget(self, queue_id: int) -> None:
        for lease in [one for one in self.open if one.topic == self.topic]:
            if lease.queue_id == queue_id:
                del self.open[lease]

    def revive(self) -> None:
        """What is due is copied for redelivery, or becomes a dead letter."""
        for lease in [one for one in self.open if one.due_ms <= self.log.now_ms]:
            self.expire(lease)

    def expire(self, lease: Lease) -> None:
        message_id, attempt = self.open.pop(lease)
        dead = attempt >= MAX_ATTEMPTS
        topic = dead_letter_topic(self.group) if dead else self.retry
        row = self.log.record(topic, 0, message_id, tries=attempt, is_copy=True)
        if not dead:
            self.ids[topic, 0, int(row["queue_offset"])] = (message_id, attempt)
        self.log.ack([lease], expired=True)


@dataclass
class FifoHistory(History):
    """Of a FIFO group: what ran out is handed out again where it lies, and nothing tells before."""

    again: dict[tuple[int, int], int] = field(default_factory=dict)
    """Queue and offset that wait in place → generation of the lease that ran out."""

    def pop(self) -> None:
        """What has failed comes alone; what is handed out together has one generation."""
        queue_id = self.rng.randrange(QUEUES)
        failed = sorted(at for queue, at in self.again if queue == queue_id)
        if not failed:
            super().pop()
            return
        offsets = failed[: self.rng.randint(1, 4)]
        generation = 1 + max(self.again.pop((queue_id, at)) for at in offsets)
        self.lease(offsets, queue_id, generation=generation)

    def checkpoint(self, leases: Sequence[Lease]) -> None:
        self.log.checkpoint(leases, [self.open[lease][1] for lease in leases])

    def forget(self, queue_id: int) -> None:
        super().forget(queue_id)
        for waiting in [one for one in self.again if one[0] == queue_id]:
            del self.again[waiting]
        for place in [one for one in self.ids if one[:2] == (self.topic, queue_id)]:
            self.ids[place] = (self.ids[place][0], 0)

    def expire(self, lease: Lease) -> None:
        message_id, attempt = self.open[lease]
        if attempt >= MAX_ATTEMPTS:
            super().expire(lease)
            return
        del self.open[lease]
        self.ids[lease.topic, lease.queue_id, lease.queue_offset] = (message_id, attempt)
        self.again[lease.queue_id, lease.queue_offset] = lease.generation


def lost_message(of: History) -> list[Found]:
    of.send(FAULT_QUEUE)
    missing = of.send(FAULT_QUEUE)
    of.log.tables["commitlog_index"].pop()
    of.send(FAULT_QUEUE)
    return [("message missing", of.topic, FAULT_QUEUE, missing, 1)]


def gap_in_a_queue(of: History) -> list[Found]:
    of.send(FAULT_QUEUE)
    count = of.rng.randint(2, 200_000)
    of.log.stored[of.topic, FAULT_QUEUE] += count
    of.send(FAULT_QUEUE)
    return [("message missing", of.topic, FAULT_QUEUE, 1, count)]


def message_stored_twice(of: History) -> list[Found]:
    twice = of.send(FAULT_QUEUE)
    of.log.stored[of.topic, FAULT_QUEUE] -= 1
    of.send(FAULT_QUEUE)
    of.send(FAULT_QUEUE)
    return [("stored twice", of.topic, FAULT_QUEUE, twice, 1)]


def stuck_checkpoint(of: History) -> list[Found]:
    """Neither acked nor revived: revive passed it over, or its ack never reached the disk."""
    at = of.send(FAULT_QUEUE)
    (lease,) = of.lease([at], FAULT_QUEUE)
    del of.open[lease]
    return [("lease overdue", of.topic, FAULT_QUEUE, at, 1)]


def lost_ack(of: History) -> list[Found]:
    """One of three that were acked by one record: its row is gone, the others' are there."""
    offsets = [of.send(FAULT_QUEUE) for _ in range(3)]
    of.end(of.lease(offsets, FAULT_QUEUE))
    lost = of.rng.randrange(3)
    del of.log.tables["pop_acks"][lost - 3]
    return [("lease overdue", of.topic, FAULT_QUEUE, offsets[lost], 1)]


def ack_of_an_unknown_lease(of: History) -> list[Found]:
    at = of.send(FAULT_QUEUE)
    (lease,) = of.lease([at], FAULT_QUEUE)
    of.log.ack([replace(lease, pop_time_ms=lease.pop_time_ms - 1)])
    of.end([lease])
    return [("ack without checkpoint", of.topic, FAULT_QUEUE, at, 1)]


def two_holders(of: History) -> list[Found]:
    at = of.send(FAULT_QUEUE)
    first = of.lease([at], FAULT_QUEUE, invisible_ms=600_000)
    of.log.now_ms += 1
    second = of.lease([at], FAULT_QUEUE, invisible_ms=600_000)
    of.end(first)
    of.end(second)
    return [("leased while held", of.topic, FAULT_QUEUE, at, 1)]


def delivered_after_its_ack(of: History) -> list[Found]:
    at = of.send(FAULT_QUEUE)
    of.end(of.lease([at], FAULT_QUEUE))
    of.log.now_ms += 1
    of.end(of.lease([at], FAULT_QUEUE))
    return [("leased after its end", of.topic, FAULT_QUEUE, at, 1)]


def second_dead_letter(of: History) -> list[Found]:
    """One message, two dead letters; the second has nothing that it ends."""
    at = of.send(FAULT_QUEUE)
    (lease,) = of.lease([at], FAULT_QUEUE)
    of.open[lease] = (of.open[lease][0], MAX_ATTEMPTS)
    of.expire(lease)
    message_id = of.ids[of.topic, FAULT_QUEUE, at][0]
    dead = dead_letter_topic(of.group)
    row = of.log.record(dead, 0, message_id, tries=MAX_ATTEMPTS, is_copy=True)
    of.send(FAULT_QUEUE)
    return [("copy without end", dead, 0, int(row["queue_offset"]), 1)]


def expired_without_a_copy(of: History) -> list[Found]:
    at = of.send(FAULT_QUEUE)
    (lease,) = of.lease([at], FAULT_QUEUE)
    of.send(FAULT_QUEUE)
    of.log.ack([lease], expired=True)
    del of.open[lease]
    return [("copy missing", of.topic, FAULT_QUEUE, at, 1)]


def clock_skew(of: History) -> list[Found]:
    """One record is ten seconds older than those before it."""
    of.send(FAULT_QUEUE)
    message_id = f"{of.topic}-late"
    row = of.log.record(of.topic, FAULT_QUEUE, message_id, late_ms=10_000)
    return [("clock went back", of.topic, FAULT_QUEUE, int(row["queue_offset"]), 1)]


FAULTS: tuple[Callable[[History], list[Found]], ...] = (
    lost_message,
    gap_in_a_queue,
    message_stored_twice,
    stuck_checkpoint,
    lost_ack,
    ack_of_an_unknown_lease,
    two_holders,
    delivered_after_its_ack,
    second_dead_letter,
    expired_without_a_copy,
    clock_skew,
)


@dataclass
class World:
    """Many histories in one log, one step here and one there."""

    seed: int
    count: int
    log: RowLog = field(default_factory=RowLog)
    expected: list[Found] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.histories = [
            (FifoHistory if number >= len(FAULTS) and number % FIFO_EVERY == 0 else History)(
                self.log, number, self.rng
            )
            for number in range(self.count)
        ]
        for history in self.histories:  # so that clocks and journals have a past
            history.send()

    def live(self, steps: int) -> None:
        for _ in range(steps):
            self.rng.choice(self.histories).step()

    def plant(self, faults: Sequence[Callable[[History], list[Found]]]) -> None:
        """One in each of the first histories, with life in between."""
        for history, fault in zip(self.histories, faults, strict=False):
            self.log.now_ms += 1
            self.expected += fault(history)
            self.live(3)

    def settle(self) -> None:
        """What is due is revived, as a broker that works does before anyone looks."""
        for history in self.histories:
            history.revive()

    def pass_time(self, ms: int) -> None:
        """Until everything that is held has run out; the last copies are left alone."""
        self.log.now_ms += ms
        self.settle()
