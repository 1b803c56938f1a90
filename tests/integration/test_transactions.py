"""Transactions as their producers see them, through any of several proxies."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest
from integration.conftest import Raw

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from apache.rocketmq.v2 import service_pb2_grpc as service_grpc
from popmq import Client, ReceivedMessage, RefusedByServer, Resolution
from popmq_admin.v1 import admin_pb2 as admin
from popmq_admin.v1 import admin_pb2_grpc as admin_grpc
from popmq_broker.config import BrokerConfig
from popmq_common.process.clock import SystemClock
from popmq_common.records.transaction_id import TransactionId, encode
from popmq_proxy.app import proxy
from popmq_proxy.config import ProxyConfig
from popmq_standalone.app import Beside, broker_beside

INTERVAL_MS = 900
INTERVAL_S = INTERVAL_MS / 1000


class Cluster:
    """A broker that asks soon, and as many proxies before it as a test wants."""

    def __init__(self, beside: Beside, stack: AsyncExitStack) -> None:
        self._beside = beside
        self._stack = stack
        self.ends: dict[str, AsyncExitStack] = {}

    async def proxy(self) -> str:
        """Where it listens; `ends` has what ends it."""
        own, beside = AsyncExitStack(), self._beside
        config = ProxyConfig(create_topics=True, port=0, transaction_poll_ms=100, log_level="error")
        serving = await own.enter_async_context(
            proxy(config, SystemClock(), nameservers=beside.nameservers, brokers=beside.brokers)
        )
        self._stack.push_async_callback(own.aclose)
        endpoint = f"127.0.0.1:{serving.port}"
        self.ends[endpoint] = own
        return endpoint

    async def client(self, endpoint: str) -> Client:
        return await self._stack.enter_async_context(Client(endpoint))

    async def raw(self, endpoint: str) -> Raw:
        channel = await self._stack.enter_async_context(grpc.aio.insecure_channel(endpoint))
        return Raw(service_grpc.MessagingServiceStub(channel), endpoint, Path())

    async def admin(self, endpoint: str) -> Any:
        channel = await self._stack.enter_async_context(grpc.aio.insecure_channel(endpoint))
        return admin_grpc.AdminStub(channel)


@pytest.fixture
async def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Cluster]:
    """A test that is to see one interval alone asks for a long one: parametrize(indirect=True)."""
    broker = BrokerConfig(
        create_groups=True,
        data_dir=tmp_path / "data",
        disk_reserve_bytes=0,
        transaction_immunity_ms=300,
        transaction_check_interval_ms=getattr(request, "param", INTERVAL_MS),
    )
    async with (
        broker_beside(broker, ProxyConfig(create_topics=True), SystemClock()) as beside,
        AsyncExitStack() as stack,
    ):
        yield Cluster(beside, stack)


class Checker:
    """Answers with what it is told to, and remembers what it was asked."""

    def __init__(self, *answers: Resolution) -> None:
        self.asked: list[ReceivedMessage] = []
        self._answers = list(answers)

    async def __call__(self, message: ReceivedMessage) -> Resolution:
        self.asked.append(message)
        return self._answers.pop(0) if self._answers else Resolution.UNKNOWN


async def until_asked(*checkers: Checker, count: int = 1) -> None:
    for _ in range(250):
        if sum(len(checker.asked) for checker in checkers) >= count:
            return
        await asyncio.sleep(0.02)
    raise AssertionError("nobody was asked")


async def group_of(client: Client) -> None:
    """The group begins here."""
    assert await client.receive("t", "g", wait_s=0) == []


async def test_what_is_committed_comes_once_and_what_is_rolled_back_never(cluster: Cluster) -> None:
    client = await cluster.client(await cluster.proxy())
    await group_of(client)
    async with client.transactions.begin("t", b"paid", tag="a", keys=["k"], properties={"p": "v"}):
        assert await client.receive("t", "g", wait_s=0) == []
    with pytest.raises(ZeroDivisionError):
        async with client.transactions.begin("t", b"never"):
            raise ZeroDivisionError
    (message,) = await client.receive("t", "g", wait_s=2)
    assert (message.body, message.tag, message.keys) == (b"paid", "a", ("k",))
    assert message.properties == {"p": "v"}
    await client.ack(message)
    assert await client.receive("t", "g", wait_s=INTERVAL_S) == []


async def test_any_proxy_settles_it(cluster: Cluster) -> None:
    first, second = await cluster.proxy(), await cluster.proxy()
    client, other = await cluster.client(first), await cluster.raw(second)
    await group_of(client)
    half = await client.transactions.send("t", b"x")
    await cluster.ends[first].aclose()
    request = service.EndTransactionRequest(
        topic=v2.Resource(name="t"), transaction_id=half.transaction_id, resolution=v2.COMMIT
    )
    for _ in range(2):  # the first answer may have been lost
        assert (await other.call("EndTransaction", request)).status.code == v2.OK
    request.resolution = v2.ROLLBACK
    refused = (await other.call("EndTransaction", request)).status
    assert refused.code == v2.PRECONDITION_FAILED
    assert "was committed before" in refused.message
    found = await other.receive("t", poll_ms=1_000)
    (message,) = [one.message for one in found if one.HasField("message")]
    assert message.body == b"x"
    assert message.system_properties.message_type == v2.TRANSACTION
    assert dict(message.user_properties) == {}


@pytest.mark.parametrize("cluster", [60_000], indirect=True)
async def test_one_producer_is_asked_once_per_interval(cluster: Cluster) -> None:
    """Two proxies, four producers, three transactions."""
    endpoints = [await cluster.proxy(), await cluster.proxy()]
    checkers = [Checker() for _ in range(4)]
    for i, checker in enumerate(checkers):
        client = await cluster.client(endpoints[i % 2])
        await client.transactions.answer("t", checker)
    halves = [await client.transactions.send("t", body) for body in (b"1", b"2", b"3")]
    await until_asked(*checkers, count=3)
    await asyncio.sleep(1)  # several turns of each proxy's poll
    asked = [message for checker in checkers for message in checker.asked]
    assert sorted(message.body for message in asked) == [b"1", b"2", b"3"]
    assert {message.message_id for message in asked} == {half.message_id for half in halves}


async def test_the_answer_to_a_check_settles_it(cluster: Cluster) -> None:
    endpoint = await cluster.proxy()
    client = await cluster.client(endpoint)
    await group_of(client)
    checker = Checker(Resolution.UNKNOWN, Resolution.COMMIT)
    await client.transactions.answer("t", checker)
    await client.transactions.send("t", b"late")
    (message,) = await client.receive("t", "g", wait_s=5)
    assert message.body == b"late"
    await client.ack(message)
    await asyncio.sleep(1.5 * INTERVAL_S)
    assert len(checker.asked) == 2
    response = await (await cluster.admin(endpoint)).ListTransactions(
        admin.ListTransactionsRequest()
    )
    assert response.count == 0


async def test_another_producer_is_asked_when_the_sender_and_its_proxy_are_gone(
    cluster: Cluster,
) -> None:
    first, second = await cluster.proxy(), await cluster.proxy()
    sender, other = await cluster.client(first), await cluster.client(second)
    await group_of(other)
    await sender.transactions.send("t", b"orphan")
    await cluster.ends[first].aclose()
    checker = Checker(Resolution.ROLLBACK)
    await other.transactions.answer("t", checker)
    await until_asked(checker)
    assert checker.asked[0].body == b"orphan"
    assert await other.receive("t", "g", wait_s=1.2 * INTERVAL_S) == []
    assert len(checker.asked) == 1


async def test_who_publishes_to_another_topic_is_not_asked(cluster: Cluster) -> None:
    endpoint = await cluster.proxy()
    other, right = Checker(), Checker()
    await (await cluster.client(endpoint)).transactions.answer("u", other)
    client = await cluster.client(endpoint)
    await client.transactions.answer("t", right)
    await client.transactions.send("t", b"x")
    await until_asked(right)
    assert other.asked == []


async def test_an_operator_settles_it(cluster: Cluster) -> None:
    endpoint = await cluster.proxy()
    client, stub = await cluster.client(endpoint), await cluster.admin(endpoint)
    await group_of(client)
    for body in (b"1", b"2"):
        await client.transactions.send("t", body, keys=["k" + body.decode()], ask_after_s=60)
    listed = await stub.ListTransactions(admin.ListTransactionsRequest(topic="t"))
    one, two = listed.transactions
    assert (one.keys, two.keys, one.topic, one.checks) == ("k1", "k2", "t", 0)
    for transaction, commit in ((one, True), (two, False)):
        await stub.SettleTransaction(
            admin.SettleTransactionRequest(transaction_id=transaction.transaction_id, commit=commit)
        )
    (message,) = await client.receive("t", "g", wait_s=2)
    assert message.body == b"1"
    assert (await stub.ListTransactions(admin.ListTransactionsRequest())).count == 0


@pytest.mark.parametrize(
    ("transaction_id", "reason"),
    [
        ("", "blank"),
        ("01AB", "not one of this server's"),
        ("broker-a:0:0:00000000", "not one of this server's"),
        (encode(TransactionId("broker-a", 7, 1_000)), "knows no such"),
        (encode(TransactionId("nobody", 0, 0)), "no broker nobody"),
    ],
)
async def test_ids_that_mean_nothing(cluster: Cluster, transaction_id: str, reason: str) -> None:
    client = await cluster.raw(await cluster.proxy())
    await client.send("t")
    for resolution in (v2.COMMIT, v2.ROLLBACK):
        request = service.EndTransactionRequest(
            topic=v2.Resource(name="t"), transaction_id=transaction_id, resolution=resolution
        )
        status = (await client.call("EndTransaction", request)).status
        assert status.code == v2.INVALID_TRANSACTION_ID
        assert reason in status.message


async def test_it_is_settled_for_its_own_topic_alone(cluster: Cluster) -> None:
    endpoint = await cluster.proxy()
    client, raw = await cluster.client(endpoint), await cluster.raw(endpoint)
    half = await client.transactions.send("t", b"x")
    request = service.EndTransactionRequest(
        topic=v2.Resource(name="u"), transaction_id=half.transaction_id, resolution=v2.COMMIT
    )
    status = (await raw.call("EndTransaction", request)).status
    assert status.code == v2.INVALID_TRANSACTION_ID
    await half.commit()


async def test_a_recovery_time_beyond_an_hour_is_refused(cluster: Cluster) -> None:
    client = await cluster.client(await cluster.proxy())
    await client.transactions.send("t", b"x", ask_after_s=3_600)
    with pytest.raises(RefusedByServer, match=r"3601000 ms, 0 to 3600000 ms\. \(BAD_REQUEST\)"):
        await client.transactions.send("t", b"x", ask_after_s=3_601)


async def test_a_topic_takes_transactions_if_its_type_says_so(cluster: Cluster) -> None:
    endpoint = await cluster.proxy()
    client, stub = await cluster.client(endpoint), await cluster.admin(endpoint)
    for name in ("NORMAL", "TRANSACTION"):
        topic = admin.Topic(name=name, message_type=name)
        await stub.CreateTopic(admin.CreateTopicRequest(topic=topic))
    await (await client.transactions.send("TRANSACTION", b"x")).commit()
    with pytest.raises(RefusedByServer, match="takes NORMAL messages, this one is TRANSACTION"):
        await client.transactions.send("NORMAL", b"x")
    with pytest.raises(RefusedByServer, match="takes TRANSACTION messages, this one is NORMAL"):
        await client.send("TRANSACTION", b"x")
