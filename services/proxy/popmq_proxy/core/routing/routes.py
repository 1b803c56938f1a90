"""Broker routes → message queues for clients; which queue a message goes to.

Source: RocketMQ RouteActivity, SendMessageActivity. Differs: ids are numbered as they are stored,
a row appears per queue only once, and brokers take turns.
"""

import zlib
from collections.abc import Sequence
from functools import cached_property

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq_internal.v1 import nameserver_pb2 as ns
from popmq_proxy.core.messages.message_types import accepted
from popmq_proxy.core.routing import order_conf

PERM_READ = 4
PERM_WRITE = 2
Routes = Sequence[ns.QueueRoute]


class TopicRoutes(tuple[ns.QueueRoute, ...]):
    """All routes of one topic, by broker, and what every send and receive asks of them.

    Computed once and kept: they are used some thousand times before they are asked for again.
    """

    @cached_property
    def writable(self) -> list[tuple[str, int]]:
        """(broker, queue id) of every queue that takes messages, in a stable order."""
        return [
            (route.broker.name, queue_id)
            for route in self
            if route.topic.perm & PERM_WRITE
            for queue_id in range(route.topic.write_queues)
        ]

    def writable_at(self, broker: str) -> list[tuple[str, int]]:
        """Those of `writable` at this broker."""
        return self._writable_by_broker.get(broker, [])

    @cached_property
    def is_on_several(self) -> bool:
        """Brokers that take messages."""
        return len(self._writable_by_broker) > 1

    @cached_property
    def _writable_by_broker(self) -> dict[str, list[tuple[str, int]]]:
        found: dict[str, list[tuple[str, int]]] = {}
        for place in self.writable:
            found.setdefault(place[0], []).append(place)
        return found

    @cached_property
    def group_places(self) -> list[tuple[str, int]]:
        """(broker, queue id) that message groups are spread over: also of brokers that are away,
        or take nothing just now. Raises `BadRequest` for a configuration that is none."""
        confs = sorted(route.topic.order_conf for route in self if route.topic.order_conf)
        return order_conf.places(confs[0]) if confs else self.writable

    @cached_property
    def readable_brokers(self) -> list[str]:
        return [route.broker.name for route in self if route.topic.perm & PERM_READ]

    @cached_property
    def topic_type(self) -> str:
        return self[0].topic.message_type


def with_those_away(found: Routes, before: Routes, away: set[str]) -> list[ns.QueueRoute]:
    """`found`, and what brokers that are `away` had before; by broker name."""
    kept = [route for route in before if route.broker.name in away]
    return sorted([*found, *kept], key=lambda route: route.broker.name)


def message_queues(
    routes: Routes, topic: v2.Resource, endpoints: v2.Endpoints
) -> list[v2.MessageQueue]:
    """One row per queue, each with the endpoints the client came through.

    Brokers take turns: clients go through the rows, one poll after the other, and a message at
    one broker does not wait until they have polled all queues of the other.
    """
    rows = []
    for route in routes:
        config = route.topic
        for queue_id in range(max(config.read_queues, config.write_queues)):
            readable = bool(config.perm & PERM_READ) and queue_id < config.read_queues
            writable = bool(config.perm & PERM_WRITE) and queue_id < config.write_queues
            rows.append(
                v2.MessageQueue(
                    topic=topic,
                    id=queue_id,
                    permission=_permission(readable, writable),
                    broker=v2.Broker(name=route.broker.name, id=0, endpoints=endpoints),
                    accept_message_types=accepted(config.message_type),
                )
            )
    rows.sort(key=lambda row: row.id)
    return rows


def assignments(
    routes: Routes, topic: v2.Resource, endpoints: v2.Endpoints, *, fifo: bool
) -> list[v2.Assignment]:
    """What a push consumer polls: a broker as a whole (queue −1), or each queue of a FIFO group."""
    found = []
    for route in routes:
        config = route.topic
        if not config.perm & PERM_READ or not config.read_queues:
            continue
        for queue_id in range(config.read_queues) if fifo else (-1,):
            queue = v2.MessageQueue(
                topic=topic,
                id=queue_id,
                permission=_permission(True, bool(config.perm & PERM_WRITE)),
                broker=v2.Broker(name=route.broker.name, id=0, endpoints=endpoints),
                accept_message_types=accepted(config.message_type),
            )
            found.append(v2.Assignment(message_queue=queue))
    return found


def place_of_group(queues: Sequence[tuple[str, int]], message_group: str) -> tuple[str, int]:
    """All messages of a group go to one queue, whatever the client hints at."""
    return queues[zlib.crc32(message_group.encode()) % len(queues)]


def _permission(readable: bool, writable: bool) -> "v2.Permission.ValueType":
    if readable and writable:
        return v2.READ_WRITE
    if readable:
        return v2.READ
    return v2.WRITE if writable else v2.NONE
