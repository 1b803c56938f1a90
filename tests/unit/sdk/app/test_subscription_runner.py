"""How many receives does a handler have under way at a broker?"""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq.app.subscription import Subscription
from popmq.app.subscription_runner import BATCH_MAX, POLLS_MAX, SubscriptionRunner

CAPACITY = 4 * BATCH_MAX


async def turns() -> None:
    """Whoever can go on has done so."""
    for _ in range(100):
        await asyncio.sleep(0)


class Server:
    """Answers each receive when it is told to, with as many messages as it says."""

    def __init__(self, *, fifo: bool = False) -> None:
        self.fifo = fifo
        self.waiting: list[tuple[int, float, asyncio.Future[int]]] = []
        self.acked = 0
        self.given_back = 0

    async def subscribe(self, _wanted: Any) -> None:
        pass

    async def brokers(self, _topic: str) -> list[v2.MessageQueue]:
        return [v2.MessageQueue(broker=v2.Broker(name="a"))]

    def is_fifo(self, _group: str) -> bool:
        return self.fifo

    def policy(self, _group: str) -> None:
        pass

    async def receive_at(
        self, _queue: Any, _wanted: Any, count: int, wait_s: float, _holder: Any, **_: Any
    ) -> list[Any]:
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.waiting.append((count, wait_s, answer))
        return [
            SimpleNamespace(
                message_group=None, body_error="", broker="a", queue_id=0, delivery_attempt=1
            )
            for _ in range(await answer)
        ]

    def hold(self, *_: Any) -> None:
        pass

    def ack_now(self, _message: Any, tell: Any) -> bool:
        self.acked += 1
        tell(None)
        return True

    async def nack(self, _message: Any, _delay_s: float, _reason: str, *, counted: bool) -> None:
        await turns()
        self.given_back += not counted

    async def answers(self, *founds: int | None) -> None:
        """Of the receives under way, in their order; None: all that it asks for."""
        asked, self.waiting = self.waiting, []
        for (count, _, answer), found in zip(asked, founds, strict=True):
            answer.set_result(count if found is None else found)
        await turns()


async def _handle(_: Any) -> None:
    pass


async def polled(server: Server, *answers: list[int | None]) -> list[tuple[int, float]]:
    """What is asked for, and how long it waits, after these rounds of answers."""
    client: Any = SimpleNamespace(receiving=server, leases=server, settling=server, observer=None)
    how = Subscription(topic="t", group="g", handler=_handle, concurrency=CAPACITY)
    handling = SubscriptionRunner(client, how)
    running = asyncio.create_task(handling.run())
    await turns()
    for round_ in answers:
        await server.answers(*round_)
    found = [(count, wait_s) for count, wait_s, _ in server.waiting]
    await handling.stop(1.0)
    await running
    return found


async def test_a_broker_that_has_little_is_asked_once_and_waited_at() -> None:
    assert await polled(Server(), [3], [0], [BATCH_MAX - 1]) == [(BATCH_MAX, 15.0)]


async def test_one_that_has_plenty_is_asked_for_more_before_its_answer_is_there() -> None:
    server = Server()
    asked = await polled(server, [None])
    assert [wait_s for _, wait_s in asked] == [15.0] + [0.0] * (POLLS_MAX - 1)
    assert server.acked == BATCH_MAX


async def test_an_answer_that_is_not_full_ends_that() -> None:
    assert len(await polled(Server(), [None], [None, None, 7])) == 1


async def test_together_they_ask_for_no_more_than_there_is_room_for() -> None:
    assert sum(count for count, _ in await polled(Server(), [None], [None] * POLLS_MAX)) <= CAPACITY


async def test_a_fifo_group_has_one_receive_under_way() -> None:
    """A lost answer is asked for again under its attempt's id, and one is kept."""
    assert len(await polled(Server(fifo=True), [None])) == 1


@pytest.mark.parametrize("fifo", [False, True])
async def test_each_message_is_handled_once(fifo: bool) -> None:
    server = Server(fifo=fifo)
    rounds: list[list[int | None]] = [[None], [None] * (1 if fifo else POLLS_MAX)]
    await polled(server, *rounds)
    assert server.acked == sum(map(len, rounds)) * BATCH_MAX


async def test_a_stop_that_is_cancelled_gives_back_before_it_ends() -> None:
    """The client is closed next: what came later would find it closed, or the loop."""
    server = Server()
    client: Any = SimpleNamespace(receiving=server, leases=server, settling=server, observer=None)

    async def endless(_: Any) -> None:
        await asyncio.Event().wait()

    how = Subscription(topic="t", group="g", handler=endless, concurrency=CAPACITY)
    handling = SubscriptionRunner(client, how)
    running = asyncio.create_task(handling.run())
    await turns()
    await server.answers(3)
    stopping = asyncio.create_task(handling.stop(60.0))
    await turns()
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    assert server.given_back == 3
    await running
