"""A broker that is away: who waits for it, who goes elsewhere, and for how long."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import pytest

from popmq_common.errors import (
    BrokerUnreachable,
    GroupNotFound,
    NameserverDown,
    NoBroker,
    NotPrimary,
    NotServed,
    PopMQError,
    TopicNotFound,
)
from popmq_common.process import logs
from popmq_common.process.clock import VirtualClock
from popmq_common.records import receipt
from popmq_common.records.receipt import Receipt
from popmq_internal.v1 import link_pb2 as link
from popmq_internal.v1 import nameserver_pb2 as ns
from popmq_proxy.clients.nameservers import NameserverState
from popmq_proxy.clients.route_cache import RouteCache
from popmq_proxy.config import ProxyConfig
from popmq_proxy.rpc.shared.context import CallContext, Upstream

ACK = link.Call(ack=link.Ack())


class Brokers:
    """Two that keep topics; one may be away."""

    def __init__(self) -> None:
        self.away: set[str] = set()
        self.silent: set[str] = set()
        self.asked: list[str] = []
        self.topics: dict[str, link.TopicConfig] = {}
        self.groups: dict[str, dict[str, link.GroupConfig]] = {"a": {}, "b": {}}

    async def call(self, broker: str, call: link.Call, timeout_ms: int) -> link.Reply:
        self.asked.append(broker)
        if broker in self.away:
            raise BrokerUnreachable(broker=broker, reason="a test")
        if call.HasField("put_topic"):
            self.topics.setdefault(call.put_topic.topic.name, call.put_topic.topic)
        if call.HasField("describe"):
            topic = self.topics.get(call.describe.topic)
            if topic is None:
                raise TopicNotFound(topic=call.describe.topic)
            status = link.TopicStatus(config=topic)
            return link.Reply(describe=link.DescribeReply(topics=[status]))
        groups = self.groups.setdefault(broker, {})
        if call.HasField("put_group"):
            groups[call.put_group.group.name] = call.put_group.group
        if call.HasField("get_group"):
            return self._get_group(groups, call.get_group)
        return link.Reply(done=link.Done())

    def _get_group(self, groups: dict[str, link.GroupConfig], request: link.GetGroup) -> link.Reply:
        name = request.group
        if request.create:
            groups.setdefault(name, link.GroupConfig(name=name, consume_from="LAST"))
        if name not in groups:
            raise GroupNotFound(group=name)
        return link.Reply(get_group=link.GetGroupReply(group=groups[name]))

    def answers(self, broker: str) -> bool:
        return broker not in self.away | self.silent

    async def close(self) -> None:
        return


class Nameservers:
    def __init__(self) -> None:
        self.down = False

    async def changes(self, instance: str, after: int) -> ns.ChangesResponse:
        raise NotServed(what="changes")

    async def lookup(self, topic: str) -> list[ns.QueueRoute]:
        if self.down:
            raise NameserverDown(reason="a test")
        return []

    async def brokers(self) -> list[ns.BrokerInfo]:
        if self.down:
            raise NameserverDown(reason="a test")
        return [ns.BrokerInfo(name=name, address="h:1") for name in ("a", "b")]

    async def each(self) -> list[NameserverState]:
        return []

    async def close(self) -> None:
        return


class Proxy:
    def __init__(self, **settings: Any) -> None:
        self.brokers, self.nameservers = Brokers(), Nameservers()
        self.clock = VirtualClock()
        self.upstream = Upstream(
            config=ProxyConfig(create_topics=True, **settings),
            routes=RouteCache(self.nameservers),
            brokers=self.brokers,  # type: ignore[arg-type]
            clock=self.clock,
            log=logs.get("test"),
        )

    async def ack(
        self, broker: str = "b", within_s: float | None = None, handles: Sequence[str] = ()
    ) -> None:
        deadline_s = None if within_s is None else time.monotonic() + within_s
        context = CallContext({"x-mq-client-id": "c"}, "", deadline_s)
        await self.upstream.call_there(context, broker, ACK, handles=handles)

    def handle(self, invisible_ms: int) -> str:
        """Of a lease that begins now."""
        now_ms = self.clock.now_ms()
        lease = Receipt(0, now_ms, invisible_ms, 0, 0, "b", 0, 0, 0, 1)
        return receipt.encode(lease, "g", "t")


@pytest.fixture
async def proxy() -> Proxy:
    made = Proxy()
    await made.upstream.routes.brokers()
    return made


async def test_what_one_broker_alone_can_do_waits_for_it(proxy: Proxy) -> None:
    proxy.brokers.away = {"b"}
    waiting = asyncio.create_task(proxy.ack())
    while len(proxy.brokers.asked) < 3:  # noqa: ASYNC110 - nobody is told
        await asyncio.sleep(0.01)
    assert not waiting.done()
    proxy.brokers.away.clear()
    await asyncio.wait_for(waiting, 20)


@pytest.mark.parametrize(("setting_ms", "client_s"), [(50, None), (60_000, 0.4), (60_000, 0.1)])
async def test_not_longer_than_its_client_does_or_the_setting_says(
    setting_ms: int, client_s: float | None
) -> None:
    proxy = Proxy(broker_wait_ms=setting_ms)
    await proxy.upstream.routes.brokers()
    proxy.brokers.away = {"b"}
    async with asyncio.timeout(20):
        with pytest.raises(BrokerUnreachable):
            await proxy.ack(within_s=client_s)


async def test_an_ack_waits_until_the_last_of_its_leases_is_over() -> None:
    """The setting and the client would wait for longer; the clock of leases stands still."""
    proxy = Proxy(broker_wait_ms=600_000)
    await proxy.upstream.routes.brokers()
    proxy.brokers.away = {"b"}
    handles = [proxy.handle(1_000), proxy.handle(5_000), proxy.handle(2_000)]
    waiting = asyncio.create_task(proxy.ack(handles=handles))
    proxy.clock.advance(4_999)
    asked = len(proxy.brokers.asked)
    while len(proxy.brokers.asked) < asked + 3:  # noqa: ASYNC110 - nobody is told
        await asyncio.sleep(0.01)
    assert not waiting.done()
    proxy.clock.advance(1)
    async with asyncio.timeout(20):
        with pytest.raises(BrokerUnreachable):
            await waiting


async def test_an_ack_whose_lease_is_over_does_not_wait(proxy: Proxy) -> None:
    handle = proxy.handle(1_000)
    proxy.clock.advance(1_000)
    proxy.brokers.away = {"b"}
    with pytest.raises(BrokerUnreachable):
        await proxy.ack(handles=[handle])
    assert proxy.brokers.asked == ["b"]


async def test_a_lease_that_brokers_renew_is_not_over_when_its_handle_says_so(proxy: Proxy) -> None:
    handle = proxy.handle(1_000)
    proxy.upstream.sessions.seen("c", proxy.clock.now_ms()).renews = True
    proxy.clock.advance(60_000)
    proxy.brokers.away = {"b"}
    waiting = asyncio.create_task(proxy.ack(handles=[handle]))
    while len(proxy.brokers.asked) < 2:  # noqa: ASYNC110 - nobody is told
        await asyncio.sleep(0.01)
    proxy.brokers.away.clear()
    await asyncio.wait_for(waiting, 20)


async def test_nobody_waits_for_a_broker_that_never_was(proxy: Proxy) -> None:
    """Its name comes from a receipt handle: a client may make up any."""
    proxy.brokers.away = {"made-up"}
    with pytest.raises(BrokerUnreachable):
        await proxy.ack("made-up")
    assert proxy.brokers.asked == ["made-up"]


async def test_a_proxy_that_stops_keeps_nobody_waiting(proxy: Proxy) -> None:
    proxy.brokers.away = {"b"}
    waiting = asyncio.create_task(proxy.ack())
    await asyncio.sleep(0.01)
    proxy.upstream.stopping.set()
    async with asyncio.timeout(20):
        with pytest.raises(BrokerUnreachable):
            await waiting


async def test_only_so_many_wait(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("popmq_proxy.rpc.shared.context.WAITING_MAX", 2)
    proxy.brokers.away = {"b"}
    waiting = [asyncio.create_task(proxy.ack()) for _ in range(2)]
    await asyncio.sleep(0.01)
    with pytest.raises(BrokerUnreachable):
        await proxy.ack()
    proxy.brokers.away.clear()
    await asyncio.wait_for(asyncio.gather(*waiting), 20)


async def test_a_silent_broker_holds_up_no_first_use(proxy: Proxy) -> None:
    proxy.brokers.silent = {"a"}
    await proxy.upstream.on_reachable_brokers(ACK)
    assert proxy.brokers.asked == ["b"]
    proxy.brokers.silent = {"a", "b"}
    await proxy.upstream.on_reachable_brokers(ACK)
    assert proxy.brokers.asked == ["b", "a", "b"], "when none answers all are tried"


async def test_topics_are_found_and_made_while_no_nameserver_answers(proxy: Proxy) -> None:
    proxy.nameservers.down = True
    routes = await proxy.upstream.topic_routes("new", "")
    assert [route.broker.name for route in routes] == ["a", "b"]
    assert routes.topic_type == "MIXED"
    assert routes[0].topic.order_conf == "a:8;b:8"
    proxy.upstream.routes.forget("new")
    proxy.brokers.away = {"a"}
    assert [route.broker.name for route in await proxy.upstream.topic_routes("new", "")] == ["b"]
    proxy.upstream.routes.forget("new")
    proxy.brokers.away = {"a", "b"}
    with pytest.raises(NoBroker):
        await proxy.upstream.topic_routes("new", "")


async def test_a_proxy_that_never_heard_of_a_broker_says_that_nameservers_are_down() -> None:
    proxy = Proxy()
    proxy.nameservers.down = True
    failed: PopMQError | None = None
    try:
        await proxy.upstream.topic_routes("new", "")
    except PopMQError as error:
        failed = error
    assert isinstance(failed, NameserverDown)


async def test_a_group_is_made_with_the_defaults_when_nobody_has_it(proxy: Proxy) -> None:
    assert (await proxy.upstream.group("g", "")).consume_from == "LAST"
    assert all("g" in groups for groups in proxy.brokers.groups.values())


@pytest.mark.parametrize(
    "known",
    [
        link.GroupConfig(consume_from="FIRST"),
        link.GroupConfig(consume_from="TIME", consume_from_ms=7),
        link.GroupConfig(consume_from="LAST"),
    ],
    ids=["first", "time", "last"],
)
async def test_a_broker_that_was_added_gets_a_group_as_the_others_have_it(
    proxy: Proxy, known: link.GroupConfig
) -> None:
    known.name, known.fifo, known.max_attempts = "g", True, 1_000
    proxy.brokers.groups["a"]["g"] = known
    assert await proxy.upstream.group("g", "") == known
    assert proxy.brokers.groups["b"]["g"] == known


async def test_a_broker_that_is_away_gets_the_group_when_it_is_back(proxy: Proxy) -> None:
    proxy.brokers.groups["a"]["g"] = link.GroupConfig(name="g", fifo=True, consume_from="FIRST")
    proxy.brokers.away = {"b"}
    assert (await proxy.upstream.group("g", "")).fifo
    proxy.brokers.away.clear()
    proxy.upstream.forget_group("g")
    await proxy.upstream.group("g", "")
    assert proxy.brokers.groups["b"]["g"].fifo


async def test_a_poll_that_waited_at_a_primary_goes_on_at_the_next_one() -> None:
    """It has waited longer than a call waits for a broker, when its primary hands over."""
    proxy = Proxy(broker_wait_ms=300)
    await proxy.upstream.routes.brokers()
    polls_ms = [5_000, 4_000, 3_000]
    asked: list[int] = []

    async def call(broker: str, call: link.Call, timeout_ms: int) -> link.Reply:
        asked.append(timeout_ms)
        if len(asked) == 1:
            await asyncio.sleep(0.4)
        if len(asked) < 3:
            raise NotPrimary(broker=broker, reason="another replica is primary")
        return link.Reply(pop=link.PopReply())

    proxy.brokers.call = call  # type: ignore[method-assign]
    context = CallContext({"x-mq-client-id": "c"}, "", None)
    poll, first_ms = link.Call(pop=link.Pop(poll_ms=polls_ms[0])), polls_ms.pop(0)
    await proxy.upstream.call_there(context, "b", poll, first_ms, again=lambda: polls_ms.pop(0))
    assert asked == [5_000, 4_000, 3_000]
