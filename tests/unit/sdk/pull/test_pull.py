"""Where the pull consumer begins in its queues, and what it does when it cannot begin."""

import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq import PullConsumer, Queue, ServerUnreachable
from popmq.errors import BrokerUnavailable
from popmq.pull import pull as pull_module
from popmq.pull.offset_store import CLOCKS_DIFFER
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


class Refuses(AwayOnce):
    """Offsets of queues at brokers that are there."""

    def __init__(self, *away: Queue) -> None:
        super().__init__()
        self.away = set(away)

    async def load(self, queue: Queue) -> int | None:
        self.asked.append(queue)
        if queue in self.away:
            raise BrokerUnavailable(v2.PROXY_TIMEOUT, "its broker is away")
        return 7


def refused(*away: Queue) -> tuple[PullConsumer, Refuses]:
    made = PullConsumer("127.0.0.1:1", "t", "g", queues=QUEUES, balance_s=0.0)
    inner: Any = made
    inner._offsets = store = Refuses(*away)

    async def pull(queue: Queue, max_messages: int, wait_s: float) -> consumer.PullResponse:
        status = v2.Status(code=v2.MESSAGE_NOT_FOUND)
        return consumer.PullResponse(status=status, next_offset=7)

    inner._pull = pull
    return made, store


async def test_a_queue_whose_broker_is_away_does_not_hold_up_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is told once, and begins when its broker is back."""
    made, store = refused(QUEUES[0])
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert await made.poll(wait_s=0) == []
            assert made.queues == [QUEUES[1]]
    assert [record.name for record in caplog.records] == ["popmq.pull.pull"]
    store.away.clear()
    assert await made.poll(wait_s=0) == []
    assert sorted(made.queues) == QUEUES


async def test_who_can_begin_nowhere_is_told_why() -> None:
    made, _ = refused(*QUEUES)
    with pytest.raises(BrokerUnavailable):
        await made.poll(wait_s=0)


async def test_a_queue_that_could_not_begin_is_tried_again_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Long before it is time to look who else is in the group."""
    monkeypatch.setattr(pull_module, "LATE_S", 0.0)
    made, store = refused(QUEUES[0])
    made._balance_s = 1_000.0
    await made.poll(wait_s=0)
    store.away.clear()
    await made.poll(wait_s=0)
    assert sorted(made.queues) == QUEUES
    asked = len(store.asked)
    await made.poll(wait_s=0)
    assert len(store.asked) == asked


async def test_a_queue_that_nobody_could_tell_the_start_of_begins_at_the_consumers() -> None:
    """By the time, so that nothing is skipped that was sent since."""
    made = PullConsumer("127.0.0.1:1", "t", "g", queues=QUEUES[:1])
    asked: list[service.QueryOffsetRequest] = []
    ok = v2.Status(code=v2.OK)

    async def ask(method: Any, request: Any, **options: Any) -> Any:
        if isinstance(request, consumer.FixStartRequest):
            return consumer.FixStartResponse(status=ok)
        if isinstance(request, service.GetOffsetRequest):
            return service.GetOffsetResponse(status=v2.Status(code=v2.OFFSET_NOT_FOUND))
        if isinstance(request, service.QueryOffsetRequest):
            asked.append(request)
            return service.QueryOffsetResponse(status=ok, offset=3)
        if isinstance(request, service.UpdateOffsetRequest):
            return service.UpdateOffsetResponse(status=ok)
        status = v2.Status(code=v2.MESSAGE_NOT_FOUND)
        return consumer.PullResponse(status=status, next_offset=request.offset)

    connection: Any = made.connection
    connection.ask = ask
    before = datetime.now(UTC)
    async with made:
        assert await made.poll(wait_s=0) == []
        assert made.positions() == {QUEUES[0]: 3}
    (query,) = asked
    assert query.query_offset_policy == v2.TIMESTAMP
    started = query.timestamp.ToDatetime(UTC) + CLOCKS_DIFFER
    assert before <= started <= datetime.now(UTC)


async def test_a_queue_that_could_not_begin_begins_at_the_next_poll() -> None:
    made = PullConsumer("127.0.0.1:1", "t", "g", queues=QUEUES)
    inner: Any = made
    inner._offsets = AwayOnce()
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
