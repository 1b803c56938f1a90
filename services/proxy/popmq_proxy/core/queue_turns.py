"""Which queue a message goes to that may go to any.

Brokers take turns message by message. At a broker the queues take turns by time: messages of a
topic that come within a few milliseconds go to one queue. A pop then finds what came together in
one place, where eight messages in eight queues would cost it eight checkpoints and eight acks.
A producer that sends more slowly fills one queue after the other.

Source: Kafka's sticky partitioner (KIP-480) has the same reason. RocketMQ takes the next queue
with each message.
"""

from collections.abc import Sequence
from typing import Final

STAY_MS: Final = 10
TOPICS_MAX: Final = 10_000
"""Then all are forgotten, and begin anew."""


class Stay:
    """The queue that is filled at one broker just now."""

    __slots__ = ("at", "since_ms")

    def __init__(self) -> None:
        self.at = -1
        """Its index among all queues of the topic."""
        self.since_ms = 0


class TopicTurns:
    __slots__ = ("number", "stays")

    def __init__(self) -> None:
        self.number = 0
        """Messages, or requests of several, so far."""
        self.stays: dict[str, Stay] = {}


class QueueTurns:
    def __init__(self) -> None:
        self._topics: dict[str, TopicTurns] = {}

    def next(self, topic: str, queues: Sequence[tuple[str, int]], now_ms: int) -> tuple[str, int]:
        """One of `queues`, (broker, queue id) of every queue that may be taken; not empty."""
        turns = self._topics.get(topic)
        if turns is None:
            turns = self._begin(topic)
        count = len(queues)
        broker = queues[turns.number % count][0]
        turns.number += 1
        stay = turns.stays.get(broker)
        if stay is None:
            stay = turns.stays[broker] = Stay()
        at = stay.at
        stays = 0 <= now_ms - stay.since_ms < STAY_MS
        if stays and 0 <= at < count and queues[at][0] == broker:
            return queues[at]
        at = (at + 1) % count
        while queues[at][0] != broker:
            at = (at + 1) % count
        stay.at, stay.since_ms = at, now_ms
        return queues[at]

    def _begin(self, topic: str) -> TopicTurns:
        if len(self._topics) >= TOPICS_MAX:
            self._topics.clear()
        turns = self._topics[topic] = TopicTurns()
        return turns
