"""How a topic changes. One that gets fewer queues hides no message: the queues that are too many
take no more messages, and are read as long as they hold any.

Source: RocketMQ's readQueueNums and writeQueueNums, which its operators change one after the other.
"""

from collections.abc import Callable
from dataclasses import replace

from popmq_broker.core.catalog.tables import TopicConfig

Holds = Callable[[int], bool]
"""Whether the queue with this id holds messages."""


def changed(before: TopicConfig | None, wanted: TopicConfig, holds: Holds) -> TopicConfig:
    """`wanted`, with the queues of `before` that are still to be read."""
    if before is None or before.read_queues <= wanted.read_queues:
        return wanted
    return _reading(wanted, wanted.read_queues, before.read_queues, holds)


def drained(topic: TopicConfig, holds: Holds) -> TopicConfig:
    """The topic without the queues at its end that hold nothing any more."""
    if not topic.drains:
        return topic
    return _reading(topic, topic.write_queues, topic.read_queues, holds)


def _reading(topic: TopicConfig, fewest: int, most: int, holds: Holds) -> TopicConfig:
    count = max((i + 1 for i in range(fewest, most) if holds(i)), default=fewest)
    return replace(topic, read_queues=count, drains=count > fewest)


def is_alike(topic: TopicConfig, other: TopicConfig) -> bool:
    """In what their maker chose, but for the owner (core/catalog/ownership.py)."""
    return (topic.message_type, topic.write_queues) == (other.message_type, other.write_queues)
