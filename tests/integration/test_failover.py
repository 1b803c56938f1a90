"""One broker of two is down: sends of free messages go to the other at once, groups stay put."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import pytest
from integration.conftest import Raw

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2_grpc as service_grpc
from popmq_common.errors import BrokerDown, BrokerUnreachable, DiskFull, NoPermission, PopMQError
from popmq_common.link.sends import SendCall
from popmq_common.process.clock import SystemClock
from popmq_internal.v1 import link_pb2 as link
from popmq_internal.v1 import nameserver_pb2 as ns
from popmq_proxy.app import proxy
from popmq_proxy.clients.broker_link import OnReply
from popmq_proxy.clients.nameservers import LocalNameservers
from popmq_proxy.config import ProxyConfig


class OneDown:
    """Two brokers, of which one fails as it is told to."""

    def __init__(self, failure: type[PopMQError]) -> None:
        self.stored: list[tuple[str, int]] = []
        self._failure = failure

    def send(self, broker: str, call: SendCall, timeout_ms: int, on_reply: OnReply) -> bool:
        def tell() -> None:
            try:
                on_reply(self._stored(broker, call))
            except PopMQError as error:
                on_reply(error)

        asyncio.get_running_loop().call_soon(tell)
        return True

    async def call(self, broker: str, call: link.Call | SendCall, timeout_ms: int) -> link.Reply:
        return self._stored(broker, call)

    def _stored(self, broker: str, call: link.Call | SendCall) -> link.Reply:
        if broker == "broker-a":
            fields = {"path": "/data", "topic": "t", "action": "writable"}
            raise self._failure(broker=broker, reason="it is down", **fields)
        self.stored += [(broker, call.send.queue_id)] * len(call.send.records)
        return link.Reply(send=link.SendReply(queue_id=call.send.queue_id))

    def answers(self, broker: str) -> bool:
        return True  # nobody has noticed yet

    async def close(self) -> None:
        return


def lookup(topic: str) -> list[ns.QueueRoute]:
    config = link.TopicConfig(
        name=topic, read_queues=2, write_queues=2, perm=6, message_type="MIXED"
    )
    return [
        ns.QueueRoute(broker=ns.BrokerInfo(name=name), topic=config)
        for name in ("broker-a", "broker-b")
    ]


@asynccontextmanager
async def serving(brokers: OneDown) -> AsyncIterator[Raw]:
    nameservers = LocalNameservers(lookup, lambda: [route.broker for route in lookup("")])
    config = ProxyConfig(create_topics=True, port=0)
    async with (
        proxy(config, SystemClock(), nameservers=nameservers, brokers=brokers) as running,
        grpc.aio.insecure_channel(f"127.0.0.1:{running.port}") as channel,
    ):
        yield Raw(service_grpc.MessagingServiceStub(channel), "", None)  # type: ignore[arg-type]


@pytest.mark.parametrize("failure", [BrokerUnreachable, DiskFull, NoPermission])
async def test_free_messages_go_to_the_broker_that_takes_them(failure: type[PopMQError]) -> None:
    """The other one is away, full, or read only: it has stored nothing."""
    brokers = OneDown(failure)
    async with serving(brokers) as raw:
        codes = [(await raw.send("t")).status.code for _ in range(8)]
    assert codes == [v2.OK] * 8
    assert {broker for broker, _ in brokers.stored} == {"broker-b"}


@pytest.mark.parametrize("failure", [BrokerUnreachable, BrokerDown])
async def test_a_message_group_stays_where_it_is(failure: type[BrokerDown]) -> None:
    async with serving(OneDown(failure)) as raw:
        codes = {
            group: {(await raw.send("t", message_group=group)).status.code for _ in range(3)}
            for group in "abcdefgh"
        }
    assert {frozenset(found) for found in codes.values()} == {
        frozenset({v2.OK}),
        frozenset({v2.PROXY_TIMEOUT}),
    }


async def test_a_lost_answer_is_not_sent_again() -> None:
    """It may be stored: only the client, who knows the message id, may repeat it."""
    async with serving(OneDown(BrokerDown)) as raw:
        codes = {(await raw.send("t")).status.code for _ in range(8)}
    assert codes == {v2.OK, v2.PROXY_TIMEOUT}


async def test_a_full_disk_is_told_as_something_to_try_later() -> None:
    async with serving(OneDown(DiskFull)) as raw:
        statuses = [(await raw.send("t", message_group=group)).status for group in "abcdefgh"]
    refused = [status for status in statuses if status.code != v2.OK]
    assert {status.code for status in refused} == {v2.TOO_MANY_REQUESTS}
    assert "nothing was stored" in refused[0].message
