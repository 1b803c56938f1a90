"""Brokers of one topic and group, and receives through proxies that wait at all of them."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from harness.broker import EngineDriver
from harness.broker_calls import send_body
from harness.names import GROUP, TOPIC
from harness.proxy import ProxyDriver

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq_internal.v1 import link_pb2 as link

NAMES = ("broker-a", "broker-b", "broker-c", "broker-d")
POLL_S = 60
"""No test waits so long: what comes ends the poll."""
INVISIBLE_S = 30


class Cluster:
    def __init__(self, folder: Path, brokers: int, *, fifo: bool = False) -> None:
        self.away: set[str] = set()
        self.engines: list[EngineDriver] = []
        for name in NAMES[:brokers]:
            like = self.engines[0] if self.engines else None
            engine = EngineDriver(folder / name, like=like, name=name, wake_gap_ms=0)
            engine.make(queues=2, fifo=fifo)
            self.engines.append(engine)
        self.proxy = self.another_proxy()

    def another_proxy(self, away: set[str] | None = None) -> ProxyDriver:
        """`away`: the brokers that this one does not reach, if not those of all."""
        return ProxyDriver(*self.engines, away=self.away if away is None else away)

    def run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.engines[0].run(work())

    async def send(self, broker: int, body: str, tag: str = "", message_group: str = "") -> None:
        engine = self.engines[broker]
        call = link.Call(**send_body(body, tag, message_group, queue_id=0))
        await engine.handle(call)

    def held(self) -> int:
        return sum(engine.broker.state.lease_state.table.live_count for engine in self.engines)

    def close(self) -> None:
        for engine in reversed(self.engines):
            engine.close()


async def until(reached: Callable[[], bool]) -> None:
    while not reached():  # noqa: ASYNC110 - in the tables of brokers and proxies, which tell nobody
        await asyncio.sleep(0)


async def receive_messages(
    proxy: ProxyDriver, broker: int, poll_s: int = POLL_S, tag: str = "*", **fields: Any
) -> list[v2.Message]:
    """The receive names `broker`."""
    request = service.ReceiveMessageRequest(
        group=v2.Resource(name=GROUP),
        message_queue=v2.MessageQueue(
            topic=v2.Resource(name=TOPIC), broker=v2.Broker(name=NAMES[broker])
        ),
        filter_expression=v2.FilterExpression(type=v2.TAG, expression=tag),
        **{"batch_size": 1, **fields},
    )
    request.long_polling_timeout.seconds = poll_s
    request.invisible_duration.seconds = INVISIBLE_S
    answer = await proxy.methods.answers["ReceiveMessage"](proxy.context, request)
    found = [service.ReceiveMessageResponse.FromString(one) for one in answer.responses]
    assert found[0].status.code in (v2.OK, v2.MESSAGE_NOT_FOUND), found[0]
    return [one.message for one in found if one.HasField("message")]


async def receive(
    proxy: ProxyDriver, broker: int, poll_s: int = POLL_S, tag: str = "*", **fields: Any
) -> list[str]:
    """Bodies; the receive names `broker`."""
    found = await receive_messages(proxy, broker, poll_s, tag, **fields)
    return [message.body.decode() for message in found]
