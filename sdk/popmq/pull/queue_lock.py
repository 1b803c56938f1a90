"""Queues that a consumer has alone, because it handles them in order: RocketMQ's queue lock.

The broker gives a queue to one consumer for a time (60 s), which is told with each answer. The
consumer asks again every few seconds, and does not rely on a queue for longer than half of that
time since it last asked with success.
"""

import asyncio
import time

from popmq.connection.connection import Connection
from popmq.errors import check
from popmq.pull.assignment import Assignment, Queue
from popmq.pull.offset_store import message_queue
from popmq_consumer.v1 import consumer_pb2 as consumer

TRUSTED = 0.5
"""Part of the broker's time."""


class LockedAssignment:
    """Of the share that others give it, the queues that it holds the lock of."""

    def __init__(
        self, connection: Connection, topic: str, group: str, assignment: Assignment
    ) -> None:
        self._connection, self._topic, self._group = connection, topic, group
        self._assignment = assignment
        self._until_s: dict[Queue, float] = {}
        """On time.monotonic(), of each queue that it has and has not given back."""
        self._one_at_a_time = asyncio.Lock()
        """An answer to an earlier question must not bring back what was given back since."""

    async def queues(self) -> list[Queue]:
        """What it loses is still its own until `release`."""
        share = await self._assignment.queues()
        async with self._one_at_a_time:
            wanted = list(dict.fromkeys([*share, *self._until_s]))
            asked_s = time.monotonic()
            held, life_s = await self._ask(wanted, release=False)
            for queue in wanted:
                if queue in held:
                    self._until_s[queue] = asked_s + life_s * TRUSTED
                else:
                    self._until_s.pop(queue, None)
        return [queue for queue in share if queue in held]

    def holds(self, queue: Queue) -> bool:
        return time.monotonic() < self._until_s.get(queue, float("-inf"))

    async def release(self, queue: Queue) -> None:
        """Another consumer may have it at once."""
        async with self._one_at_a_time:
            if self._until_s.pop(queue, None) is not None:
                await self._ask([queue], release=True)

    async def leave(self) -> None:
        await self._assignment.leave()

    async def _ask(self, queues: list[Queue], *, release: bool) -> tuple[set[Queue], float]:
        """(those that it has, for how long)"""
        if not queues:
            return set(), 0.0
        request = consumer.LockQueuesRequest(
            group=self._connection.resource(self._group),
            message_queues=[
                message_queue(self._connection, self._topic, queue) for queue in queues
            ],
            release=release,
        )
        response = await self._connection.ask(self._connection.consumer.LockQueues, request)
        check(response.status)
        found = {Queue(queue.broker.name, queue.id) for queue in response.message_queues}
        return found, response.life.ToMilliseconds() / 1000
