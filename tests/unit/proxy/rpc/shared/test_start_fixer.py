"""When a group starts at two brokers: at its first receive, or when a consumer says hello."""

import asyncio
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from harness.broker import EngineDriver
from harness.names import GROUP, TOPIC
from harness.proxy import ProxyDriver
from harness.settings import say_hello

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq_broker.core.groups.starts import CLOCKS_DIFFER_MS_MAX
from popmq_broker.engine.groups.starts import Starts as BrokerStarts
from popmq_common.errors import NotServed
from popmq_consumer.v1 import consumer_pb2 as consumer
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.core.routing import order_conf
from popmq_proxy.rpc.clients import client as client_module
from popmq_proxy.rpc.shared import context as context_module

Engines = list[EngineDriver]
AWAY = "broker-b"


@pytest.fixture
def engines(tmp_path: Path) -> Iterator[Engines]:
    first = EngineDriver(tmp_path / "a", name="broker-a")
    second = EngineDriver(tmp_path / "b", like=first, name=AWAY)
    for engine in (first, second):
        engine.make(queues=2, start="LAST")
    yield [first, second]
    second.close()
    first.close()


def receive_at(proxy: ProxyDriver, broker: str) -> list[str]:
    queue = v2.MessageQueue(topic=v2.Resource(name=TOPIC), broker=v2.Broker(name=broker))
    return [message.body.decode() for message in proxy.receive(message_queue=queue)]


def everything(proxy: ProxyDriver, engines: Engines) -> list[str]:
    return sorted(body for one in engines for body in receive_at(proxy, one.broker.name))


def test_an_empty_receive_at_one_broker_starts_the_group_at_both(engines: Engines) -> None:
    proxy = ProxyDriver(*engines)
    assert receive_at(proxy, "broker-a") == []
    for number in range(4):
        engines[number % 2].send(f"{number}")
    assert everything(proxy, engines) == list("0123")


@pytest.mark.parametrize("kind", [v2.PUSH_CONSUMER, v2.SIMPLE_CONSUMER])
def test_a_consumer_that_says_hello_starts_its_group(
    engines: Engines, kind: "v2.ClientType.ValueType"
) -> None:
    proxy = ProxyDriver(*engines)
    engines[0].send("before")
    assert say_hello(proxy, GROUP, TOPIC, kind=kind).code == v2.OK
    for engine in engines:
        engine.send(engine.broker.name)
    assert everything(proxy, engines) == ["broker-a", "broker-b"]


def test_a_topic_that_is_made_after_the_hello_is_read_from_its_first_message(
    engines: Engines,
) -> None:
    proxy = ProxyDriver(*engines)
    for engine in engines:
        engine.call(delete_topic=link.DeleteTopic(topic=TOPIC))
    assert say_hello(proxy, GROUP, TOPIC).code == v2.OK
    for engine in engines:
        engine.make(queues=2, start="LAST")
        engine.send(engine.broker.name)
    assert everything(proxy, engines) == ["broker-a", "broker-b"]


def test_a_hello_with_an_illegal_topic_is_answered(engines: Engines) -> None:
    proxy = ProxyDriver(*engines)
    assert say_hello(proxy, GROUP, "no/topic", TOPIC).code == v2.OK


@pytest.mark.parametrize("asked_again", [False, True])
def test_a_broker_that_was_away_is_told_when_it_is_back(
    engines: Engines, *, asked_again: bool
) -> None:
    """Without a receive; or by a proxy that has never heard of the group."""
    away = {AWAY}
    proxy = ProxyDriver(*engines, away=away)
    assert receive_at(proxy, "broker-a") == []
    engines[1].send("while it was away from this proxy")
    away.clear()
    if asked_again:
        proxy = ProxyDriver(*engines)
    else:
        proxy.run(proxy.upstream.starts.pay())
        engines[1].crash(random.Random(1))
    assert everything(proxy, engines) == ["while it was away from this proxy"]


@pytest.mark.parametrize("has_group", [True, False])
def test_a_broker_that_is_asked_before_it_was_told_is_told_first(
    engines: Engines, *, has_group: bool
) -> None:
    """By the proxy that remembers the start, while the broker that knows it is away in its turn;
    also if the group was made when the broker was away."""
    away = {AWAY}
    if not has_group:
        for engine in engines:
            engine.call(delete_group=link.DeleteGroup(group=GROUP))
    proxy = ProxyDriver(*engines, away=away)
    assert receive_at(proxy, "broker-a") == []
    engines[1].send("after the start")
    engines[1].clock.advance(CLOCKS_DIFFER_MS_MAX + 1)
    away ^= {"broker-a", AWAY}
    assert receive_at(proxy, AWAY) == ["after the start"]


@pytest.mark.parametrize("remembers", [True, False])
def test_a_broker_is_told_the_group_with_what_it_is_owed(
    engines: Engines, *, remembers: bool
) -> None:
    """As the proxy remembers it, long after; else what is owed stays owed, until a broker that
    knows the group is there."""
    away = {AWAY}
    proxy = ProxyDriver(*engines, away=away)
    engines[1].call(delete_group=link.DeleteGroup(group=GROUP))
    assert receive_at(proxy, "broker-a") == []
    engines[1].send("after the start")
    away ^= {"broker-a", AWAY}
    with patch.object(context_module, "GROUP_KEPT_S", -1.0):
        proxy.upstream.forget_unused()
        if not remembers:
            proxy.upstream.forget_group(GROUP)
        assert proxy.run(proxy.upstream.starts.pay()) == remembers
    away.clear()
    assert proxy.run(proxy.upstream.starts.pay())
    assert (
        engines[1].broker.state.catalog_state.groups[GROUP]
        == engines[0].broker.state.catalog_state.groups[GROUP]
    )
    engines[1].clock.advance(CLOCKS_DIFFER_MS_MAX + 1)
    assert receive_at(ProxyDriver(*engines), AWAY) == ["after the start"]


def test_a_proxy_that_cannot_know_the_start_skips_nothing_of_the_last_seconds(
    engines: Engines,
) -> None:
    """The proxy that knows it tells the broker within a second. This one is asked sooner."""
    away = {AWAY}
    assert receive_at(ProxyDriver(*engines, away=away), "broker-a") == []
    engines[1].send("long before")
    engines[1].clock.advance(CLOCKS_DIFFER_MS_MAX + 1)
    engines[1].send("after the start")
    engines[1].clock.advance(1_000)
    other = ProxyDriver(*engines, away={"broker-a"})
    assert receive_at(other, AWAY) == ["after the start"]


def test_a_broker_that_is_away_for_long_may_know_a_start(engines: Engines) -> None:
    """It is not registered any more, but the topic was made on it."""
    topic = link.TopicConfig(
        name=TOPIC,
        read_queues=2,
        write_queues=2,
        message_type="MIXED",
        order_conf=order_conf.conf_of(["broker-a", AWAY], 2),
    )
    engines[1].call(put_topic=link.PutTopic(topic=topic))
    engines[1].send("perhaps after the start")
    assert receive_at(ProxyDriver(engines[1]), AWAY) == ["perhaps after the start"]


def test_new_settings_of_the_group_take_nothing_from_what_is_owed(engines: Engines) -> None:
    away = {AWAY}
    proxy = ProxyDriver(*engines, away=away)
    assert receive_at(proxy, "broker-a") == []
    engines[1].send("after the start")
    engines[1].clock.advance(CLOCKS_DIFFER_MS_MAX + 1)
    proxy.upstream.forget_group(GROUP)
    away ^= {"broker-a", AWAY}
    assert receive_at(proxy, AWAY) == ["after the start"]


def test_a_start_that_the_consumer_named_is_owed_as_it_was_named(engines: Engines) -> None:
    """Also by a proxy that has learned it from a broker."""
    away = {AWAY}
    engines[1].send("before")
    engines[1].clock.advance(CLOCKS_DIFFER_MS_MAX + 1)
    proxy = ProxyDriver(*engines, away=away)
    first = consumer.FixStartRequest(
        group=v2.Resource(name=GROUP), topic=v2.Resource(name=TOPIC), policy=v2.BEGINNING
    )
    assert proxy.call("FixStart", first).status.code == v2.OK
    engines[0].restart()
    engines[0].crash(random.Random(1))
    away.clear()
    assert everything(ProxyDriver(*engines), engines) == ["before"]


@contextmanager
def slow(name: str) -> Iterator[asyncio.Event]:
    """The broker neither tells nor fixes a start before the event."""
    go, whole = asyncio.Event(), BrokerStarts.fix

    async def fix(self: BrokerStarts, request: link.FixStart) -> link.FixStartReply:
        if self._runtime.config.name == name:
            await go.wait()
        return await whole(self, request)

    with patch.object(BrokerStarts, "fix", fix), patch.object(client_module, "START_S", 0.01):
        yield go


@pytest.mark.parametrize("name", ["broker-a", AWAY])
def test_settings_that_are_answered_before_the_start_is_fixed_skip_nothing(
    engines: Engines, name: str
) -> None:
    """A broker is slow: the app's messages come before it has fixed the start."""
    engines[0].clock.advance(CLOCKS_DIFFER_MS_MAX + 1)
    with slow(name) as go:
        for engine in engines:
            engine.restart()
        proxy = ProxyDriver(*engines)
        assert say_hello(proxy, GROUP, TOPIC).code == v2.OK
        for engine in engines:
            assert not engine.broker.state.catalog_state.starts
            engine.send(engine.broker.name)
        engines[0].clock.advance(3_000)
        go.set()
        assert everything(proxy, engines) == ["broker-a", "broker-b"]


def test_a_hello_that_could_fix_nothing_counts_at_the_first_receive(engines: Engines) -> None:
    """No nameserver answered in time. Nothing is skipped that was sent since the hello."""
    for engine in engines:
        engine.send("long before")
    engines[0].clock.advance(CLOCKS_DIFFER_MS_MAX + 1)
    proxy = ProxyDriver(*engines)

    async def never(topic: str) -> None:
        await asyncio.Event().wait()

    with patch.object(proxy.upstream.routes, "routes", never), slow(""):
        assert say_hello(proxy, GROUP, TOPIC).code == v2.OK
    for engine in engines:
        engine.send(engine.broker.name)
    engines[0].clock.advance(60_000)
    assert everything(proxy, engines) == ["broker-a", "broker-b"]


def offset(proxy: ProxyDriver, queue_id: int) -> service.GetOffsetResponse:
    """Of the second broker's queue."""
    place = v2.Broker(name=AWAY)
    queue = v2.MessageQueue(topic=v2.Resource(name=TOPIC), id=queue_id, broker=place)
    request = service.GetOffsetRequest(group=v2.Resource(name=GROUP), message_queue=queue)
    response: service.GetOffsetResponse = proxy.call("GetOffset", request)
    return response


@pytest.mark.parametrize("has_group", [True, False])
@pytest.mark.parametrize("remembers", [True, False])
def test_the_offset_at_a_broker_that_came_later_is_known_at_once(
    engines: Engines, *, has_group: bool, remembers: bool
) -> None:
    """The broker was away, or is new; the proxy that is asked remembers the start, or learns it."""
    away = {AWAY}
    if not has_group:
        engines[1].call(delete_group=link.DeleteGroup(group=GROUP))
    proxy = ProxyDriver(*engines, away=away)
    assert offset(proxy, 0).status.code != v2.OK
    start = consumer.FixStartRequest(
        group=v2.Resource(name=GROUP), topic=v2.Resource(name=TOPIC), policy=v2.END
    )
    assert proxy.call("FixStart", start).status.code == v2.OK
    engines[1].send("after the start")
    away.clear()
    if not remembers:
        proxy = ProxyDriver(*engines)
    found = [offset(proxy, i) for i in range(2)]
    assert [(one.status.code, one.offset) for one in found] == [(v2.OK, 0), (v2.OK, 0)]


def test_to_ask_for_an_offset_starts_no_group(engines: Engines) -> None:
    proxy = ProxyDriver(*engines)
    engines[1].send("a")
    assert offset(proxy, 0).status.code == v2.OFFSET_NOT_FOUND
    assert not any(engine.broker.state.catalog_state.starts for engine in engines)


def test_a_group_that_was_deleted_through_another_proxy_starts_anew(engines: Engines) -> None:
    proxy = ProxyDriver(*engines)
    receive_at(proxy, "broker-a")
    for engine in engines:
        engine.call(delete_group=link.DeleteGroup(group=GROUP))
        engine.send("between")
        engine.make(queues=2, start="LAST")
    assert receive_at(proxy, "broker-a") == []
    for engine in engines:
        engine.send(engine.broker.name)
    assert everything(proxy, engines) == ["broker-a", "broker-b"]


def test_a_deleted_group_is_not_made_again_for_what_it_was_owed(engines: Engines) -> None:
    away = {AWAY}
    proxy = ProxyDriver(*engines, away=away)
    receive_at(proxy, "broker-a")
    for engine in engines:
        engine.call(delete_group=link.DeleteGroup(group=GROUP))
    away.clear()
    assert proxy.run(proxy.upstream.starts.pay())
    assert not list(proxy.upstream.starts._table.owed())
    assert not any(GROUP in engine.broker.state.catalog_state.groups for engine in engines)


def test_a_broker_of_an_older_version_is_not_asked_again(engines: Engines) -> None:
    asked = []

    async def refuse(self: BrokerStarts, request: Any) -> Any:
        asked.append(request)
        raise NotServed(what="fix_start")

    with patch.object(BrokerStarts, "fix", refuse):
        for engine in engines:
            engine.restart()
        proxy = ProxyDriver(*engines)
        proxy.run(proxy.upstream.starts.fix(GROUP, TOPIC, ["broker-a", AWAY]))
        proxy.run(proxy.upstream.starts.fix(GROUP, TOPIC, ["broker-a", AWAY]))
    assert len(asked) == 2
