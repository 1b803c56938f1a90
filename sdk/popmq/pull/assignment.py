"""Which queues of a topic a pull consumer has: a share of its group's, some by hand, or all."""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq.connection.connection import Connection
from popmq.errors import check
from popmq_consumer.v1 import consumer_pb2 as consumer


class Queue(NamedTuple):
    broker: str
    id: int


class Strategy(Enum):
    """How the queues are shared out; the same in all consumers of a group."""

    AVERAGE = consumer.STRATEGY_AVERAGE
    CIRCLE = consumer.STRATEGY_CIRCLE
    CONSISTENT_HASH = consumer.STRATEGY_CONSISTENT_HASH


class Assignment(Protocol):
    async def queues(self) -> list[Queue]:
        """Those to pull from now on."""

    async def leave(self) -> None:
        """The others may have them."""


class GroupAssignment:
    """Among the consumers of the group that said within `session_s` that they live."""

    def __init__(
        self, connection: Connection, topic: str, group: str, strategy: Strategy, session_s: float
    ) -> None:
        self._connection = connection
        self._topic, self._group = topic, group
        self._strategy, self._session_s = strategy, session_s

    async def queues(self) -> list[Queue]:
        found = (await self._join(leave=False)).queues
        return [Queue(queue.broker.name, queue.id) for queue in found]

    async def leave(self) -> None:
        await self._join(leave=True)

    async def _join(self, *, leave: bool) -> consumer.JoinResponse:
        request = consumer.JoinRequest(
            group=self._connection.resource(self._group),
            topic=self._connection.resource(self._topic),
            strategy=self._strategy.value,
            leave=leave,
        )
        request.session.FromMilliseconds(int(self._session_s * 1000))
        response: consumer.JoinResponse = await self._connection.ask(
            self._connection.consumer.Join, request
        )
        check(response.status)
        return response


class ManualAssignment:
    def __init__(self, queues: Sequence[Queue]) -> None:
        self._queues = list(queues)

    async def queues(self) -> list[Queue]:
        return self._queues

    async def leave(self) -> None:
        return


class AllQueues:
    """All queues of the topic that can be read, new ones too."""

    def __init__(self, connection: Connection, topic: str) -> None:
        self._connection, self._topic = connection, topic

    async def queues(self) -> list[Queue]:
        request = service.QueryRouteRequest(topic=self._connection.resource(self._topic))
        response = await self._connection.ask(self._connection.stub.QueryRoute, request)
        check(response.status)
        return [
            Queue(queue.broker.name, queue.id)
            for queue in response.message_queues
            if queue.permission in (v2.READ, v2.READ_WRITE)
        ]

    async def leave(self) -> None:
        return
