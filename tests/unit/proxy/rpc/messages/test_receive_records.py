"""Whom a receive asks; an answer of several pops: when its client goes in between, all that came is
given back."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq_common.errors import TooManyInFlight
from popmq_common.process import logs
from popmq_common.process.clock import SystemClock
from popmq_common.records.receipt import of_run
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.config import ProxyConfig
from popmq_proxy.core.messages.popped import handles_of
from popmq_proxy.rpc.messages.receive import BATCH_MAX, ReceiveHandler
from popmq_proxy.rpc.shared.broker_watches import BrokerWatches
from popmq_proxy.rpc.shared.context import CallContext
from popmq_proxy.sessions import Sessions

CONTEXT = CallContext({"x-mq-client-id": "c"}, "peer", None)
REQUEST = service.ReceiveMessageRequest(
    group=v2.Resource(name="g"),
    message_queue=v2.MessageQueue(topic=v2.Resource(name="t")),
    batch_size=80,
)
ONE = service.ReceiveMessageRequest(
    group=REQUEST.group, message_queue=REQUEST.message_queue, batch_size=1
)


class Brokers:
    """A broker whose first pops are answered at once, one that fails, and the rest never."""

    def __init__(self, answered: int, *, fails: bool = False, fifo: bool = False) -> None:
        self.config, self.clock = ProxyConfig(), SystemClock()
        self.sessions = Sessions(9, 60_000)
        self.pops: list[link.Pop] = []
        self.names = ["b"]
        self.asked: list[str] = []
        """By name, in order; the same length as `pops`."""
        self.given_back: list[str] = []
        self.popped = False
        self.hangs = asyncio.Event()
        self.may_come = asyncio.Event()
        self.may_come.set()
        self._answered, self._fails, self._fifo = answered, fails, fifo
        self.brokers = self
        self.starts = SimpleNamespace(fix=self._fix)
        self.watches = BrokerWatches(
            self.call, self.answers, lambda _: self.names, logs.get("test")
        )

    async def _fix(self, group: str, topic: str, brokers: list[str]) -> None:
        pass

    def answers(self, broker: str) -> bool:
        return True

    async def topic_routes(self, topic: str, user: str) -> Any:
        return SimpleNamespace(readable_brokers=self.names)

    async def group(self, group: str, user: str) -> link.GroupConfig:
        return link.GroupConfig(name=group, fifo=self._fifo)

    async def call_there(
        self, ctx: CallContext, broker: str, call: link.Call, timeout_ms: int, again: Any
    ) -> link.Reply:
        return await self.call(broker, call, timeout_ms)

    async def call(self, broker: str, call: link.Call, timeout_ms: int = 0) -> link.Reply:
        if call.HasField("release"):
            self.given_back += call.release.handles
            return link.Reply()
        self.pops.append(call.pop)
        self.asked.append(broker)
        number = len(self.pops)
        if number > self._answered and self._fails:
            raise TooManyInFlight(group="g", topic="t", count=1, limit=1)
        if number > self._answered:
            self.hangs.set()
            await asyncio.Event().wait()
        await self.may_come.wait()
        self.popped = True
        reply = link.Reply()
        offsets = range(call.pop.batch_size)
        assert call.pop.by_runs
        reply.pop.runs.add(handle=str(number), records=[b""] * len(offsets), queue_offsets=offsets)
        return reply


def of(brokers: Brokers) -> ReceiveHandler:
    return ReceiveHandler(brokers)  # type: ignore[arg-type]


def handles(number: int, count: int = BATCH_MAX) -> list[str]:
    return [of_run(str(number), i) for i in range(count)]


async def test_what_came_before_the_client_went_is_given_back() -> None:
    brokers = Brokers(answered=2)
    asking = asyncio.create_task(of(brokers).receive_records(CONTEXT, REQUEST))
    await brokers.hangs.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert brokers.given_back == [*handles(1), *handles(2)]


async def test_the_other_pops_do_not_wait_and_take_no_more_than_was_asked_for() -> None:
    brokers = Brokers(answered=2)
    asking = asyncio.create_task(of(brokers).receive_records(CONTEXT, REQUEST))
    await brokers.hangs.wait()
    assert [pop.batch_size for pop in brokers.pops] == [32, 32, 16]
    assert [pop.poll_ms for pop in brokers.pops[1:]] == [0, 0]
    assert [pop.attempt_id for pop in brokers.pops[1:]] == ["", ""]
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)


async def test_a_pop_that_fails_brings_nothing() -> None:
    found = await taken(Brokers(answered=2, fails=True))
    assert found == [*handles(1), *handles(2)]


async def test_a_group_in_order_gets_one_pop() -> None:
    brokers = Brokers(answered=9, fifo=True)
    assert await taken(brokers) == handles(1)
    assert len(brokers.pops) == 1


async def taken(brokers: Brokers) -> list[str]:
    """What an answer is made of, seen by what taking it back gives back."""
    receive = of(brokers)
    pop = receive._pop_call(CONTEXT, REQUEST)
    delivery = await receive._whole(CONTEXT, REQUEST, pop)
    return handles_of(delivery.replies).each()


@pytest.mark.parametrize("turns", range(6))
async def test_a_client_that_goes_when_its_messages_come(turns: int) -> None:
    """Whichever of the tasks between broker and client has run by then."""
    brokers = Brokers(answered=1)
    brokers.may_come.clear()
    receive = of(brokers)
    pop = receive._pop_call(CONTEXT, ONE)
    asking = asyncio.create_task(receive._whole(CONTEXT, ONE, pop))
    await asyncio.sleep(0.01)
    brokers.may_come.set()
    for _ in range(turns):
        await asyncio.sleep(0)
    asking.cancel()
    try:
        seen = handles_of((await asking).replies).each()
    except asyncio.CancelledError:
        seen = brokers.given_back
    assert seen == (handles(1, 1) if brokers.popped else [])


async def test_groups_that_receive_by_turns_and_name_no_broker_begin_at_each() -> None:
    brokers = Brokers(answered=9)
    brokers.names = ["b", "c"]
    receive = of(brokers)
    for group in ("g", "h") * 4:
        request = service.ReceiveMessageRequest()
        request.CopyFrom(ONE)
        request.group.name = group
        await receive._whole(CONTEXT, request, receive._pop_call(CONTEXT, request))
    assert brokers.asked[::2] == ["b", "c", "b", "c"]
    assert brokers.asked[1::2] == ["c", "b", "c", "b"]
