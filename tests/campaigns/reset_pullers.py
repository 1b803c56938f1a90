"""A consumer that pulls while its group is reset: what it must see is told by the order of offsets.

Each queue's offsets follow one another. Once after each reset, and no later than at the first poll
that began behind it, they go on at the offset of the reset.
"""

import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from campaigns.reset_book import Book, Reset
from campaigns.reset_consumers import TIMEOUT_S, Duties
from harness.queue_reader import Placed

from popmq import PullConsumer, ReceivedMessage, Start


class Came(NamedTuple):
    queue_id: int
    offset: int
    invoked_s: float
    answered_s: float


@dataclass
class Puller:
    endpoint: str
    name: str
    """Of the group, and of its topic."""
    duties: Duties
    book: Book = field(default_factory=Book)
    expected: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    """By queue, the offset that comes next."""
    _came: list[Came] = field(default_factory=list)
    """What nobody has looked at yet."""
    _wrong: list[str] = field(default_factory=list)
    _followed: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    """By queue, how many of its resets it has followed."""
    _ended: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    _again: int = 0
    _first_s: dict[int, float] = field(default_factory=dict)
    """By reset, by its place in the book, how long after its answer the first message came."""

    async def consume(self) -> None:
        """Until the end; then everything is committed."""
        duties, late = self.duties, list[ReceivedMessage]()
        async with PullConsumer(
            self.endpoint,
            self.name,
            self.name,
            queues="all",
            start=Start.FIRST,
            commit_s=0.2,
            request_timeout_s=TIMEOUT_S,
        ) as consumer:
            while not duties.stop.is_set():
                await duties.may_receive.wait()
                invoked_s = time.monotonic()
                messages = await consumer.poll(max_messages=8, wait_s=0.5)
                now_s = time.monotonic()
                self._came += [
                    Came(one.queue_id, one.queue_offset, invoked_s, now_s) for one in messages
                ]
                for message in late:  # perhaps of before a reset
                    consumer.done(message)
                late = duties.rng.sample(messages, len(messages) // 4)
                for message in messages:
                    if message not in late:
                        consumer.done(message)
            for message in late:
                consumer.done(message)

    def left(self, placed: Mapping[int, list[Placed]], mark: Mapping[int, int]) -> int:
        """Messages before `mark` that have not come since the last reset."""
        self._look()
        behind = 0
        for queue_id, end in mark.items():
            resets = [reset for reset in self.book.resets if queue_id in reset.to]
            at = self.expected[queue_id]
            if self._followed[queue_id] < len(resets):
                at = resets[-1].to[queue_id]
            behind += max(0, end - at)
        return behind

    def _look(self) -> None:
        for came in self._came:
            self._judge(came)
        self._came.clear()

    def _judge(self, came: Came) -> None:
        queue_id, offset = came.queue_id, came.offset
        resets = [reset for reset in self.book.resets if queue_id in reset.to]
        ahead = resets[self._followed[queue_id] :]
        ahead = [reset for reset in ahead if reset.began_s <= came.answered_s]
        overdue = any(reset.done_s <= came.invoked_s for reset in ahead)
        if ahead and offset == ahead[-1].to[queue_id]:
            self._follow(queue_id, ahead, came)
        elif offset != self.expected[queue_id] or overdue:
            self._wrong.append(
                f"queue {queue_id}: {offset} came, {self.expected[queue_id]} was next, "
                f"resets to {[reset.to[queue_id] for reset in ahead]}"
            )
        self._again += offset < self._ended[queue_id]
        self._ended[queue_id] = max(self._ended[queue_id], offset + 1)
        self.expected[queue_id] = offset + 1

    def _follow(self, queue_id: int, ahead: list[Reset], came: Came) -> None:
        self._followed[queue_id] += len(ahead)
        if ahead[-1].has(queue_id):
            number = self.book.resets.index(ahead[-1])
            after_s = max(0.0, came.answered_s - ahead[-1].done_s)
            self._first_s[number] = min(self._first_s.get(number, after_s), after_s)

    def verdict(self, placed: Mapping[int, list[Placed]]) -> list[str]:
        self._look()
        return self._wrong + self.book.times(placed)

    def again(self, placed: Mapping[int, list[Placed]]) -> int:
        return self._again

    def effective_s(self, placed: Mapping[int, list[Placed]]) -> float:
        return max(self._first_s.values(), default=0.0)
