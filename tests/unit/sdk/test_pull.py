"""The pull consumer when the server is away just when it begins."""

from collections.abc import Mapping
from typing import Any

import pytest

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq import PullConsumer, Queue, ServerUnreachable
from popmq_consumer.v1 import consumer_pb2 as consumer

QUEUES = [Queue("b", 0), Queue("b", 1)]


class AwayOnce:
    """Offsets that cannot be had when the second queue is asked for first."""

    def __init__(self) -> None:
        self.asked: list[Queue] = []

    async def load(self, queue: Queue) -> int | None:
        self.asked.append(queue)
        if self.asked == QUEUES:
            raise ServerUnreachable("away")
        return 7

    async def save(self, offsets: Mapping[Queue, int]) -> None:
        return


async def test_a_queue_that_could_not_begin_begins_at_the_next_poll() -> None:
    made = PullConsumer("127.0.0.1:1", "t", "g", queues=QUEUES)
    inner: Any = made
    inner._places = AwayOnce()
    pulled: list[Queue] = []

    async def pull(queue: Queue, max_messages: int, wait_s: float) -> consumer.PullResponse:
        pulled.append(queue)
        status = v2.Status(code=v2.MESSAGE_NOT_FOUND)
        return consumer.PullResponse(status=status, next_offset=7)

    inner._pull = pull
    with pytest.raises(ServerUnreachable):
        await made.poll(wait_s=0)
    assert await made.poll(wait_s=0) == []
    assert sorted(pulled) == QUEUES
    assert made.positions() == dict.fromkeys(QUEUES, 7)
