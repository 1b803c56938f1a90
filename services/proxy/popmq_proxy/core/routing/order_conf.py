"""Where message groups are: brokers and their queues, fixed when a topic is made.

    broker-a:8;broker-b:8

Without it they would be spread over the brokers that are registered just now: one that is away for
a moment would send all groups elsewhere, where new messages overtake those that lie on it.

Source: RocketMQ's ORDER_TOPIC_CONFIG, which an operator sets. Differs: every topic has it, its
brokers keep it, and it is only made anew when the number of queues changes or it is asked for.
"""

from collections.abc import Iterable

from popmq_common.errors import BadRequest

BROKERS_MAX = 1_000


def conf_of(brokers: Iterable[str], queues: int) -> str:
    return ";".join(f"{broker}:{queues}" for broker in sorted(brokers))


def places(conf: str) -> list[tuple[str, int]]:
    """(broker, queue id), in a stable order. Raises `BadRequest`."""
    found = []
    for part in conf.split(";")[:BROKERS_MAX]:
        broker, _, count = part.rpartition(":")
        if not broker or not count.isdecimal():
            raise BadRequest(reason=f"order configuration {conf!r}, not broker:queues;…")
        found += [(broker, queue_id) for queue_id in range(int(count))]
    return found
