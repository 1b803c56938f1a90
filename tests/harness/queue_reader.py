"""What lies where: a topic's queues, read by a group of the test's own that commits nothing."""

from dataclasses import dataclass, field
from typing import NamedTuple

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq import Client
from popmq.errors import check
from popmq_consumer.v1 import consumer_pb2 as consumer

READER = "reader"


class Placed(NamedTuple):
    body: str
    stored_ms: int


@dataclass
class QueueReader:
    client: Client
    topic: str
    broker: str
    queues: int
    placed: dict[int, list[Placed]] = field(init=False)
    """Of each queue, the messages by offset."""

    def __post_init__(self) -> None:
        self.placed = {i: [] for i in range(self.queues)}

    async def catch_up(self, queue_id: int) -> None:
        """Learn what has come in the queue. Raises the errors of `popmq.errors`; what was learned
        until then is kept."""
        connection, found = self.client.connection, self.placed[queue_id]
        while True:
            request = consumer.PullRequest(
                group=connection.resource(READER),
                message_queue=self.queue(queue_id),
                offset=len(found),
                batch_size=32,
            )
            response = await connection.ask(connection.consumer.Pull, request)
            if response.status.code == v2.MESSAGE_NOT_FOUND:
                return
            check(response.status)
            for message in response.messages:
                system = message.system_properties
                assert system.queue_offset == len(found), f"queue {queue_id} has a gap"
                stored_ms = system.store_timestamp.ToMilliseconds()
                found.append(Placed(message.body.decode(), stored_ms))

    def queue(self, queue_id: int) -> v2.MessageQueue:
        topic = self.client.connection.resource(self.topic)
        return v2.MessageQueue(topic=topic, id=queue_id, broker=v2.Broker(name=self.broker))
