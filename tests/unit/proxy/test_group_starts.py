"""When a group starts at two brokers: at its first receive, or when a consumer says hello."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from harness.broker import EngineDriver
from harness.names import GROUP, TOPIC
from harness.proxy import ProxyDriver

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq_broker.engine.starts import Starts as BrokerStarts
from popmq_common.errors import NotServed
from popmq_internal.v1 import link_pb2 as link

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


def settings(proxy: ProxyDriver, kind: "v2.ClientType.ValueType", *topics: str) -> v2.Status:
    """Says hello and waits for the answer."""
    expression = v2.FilterExpression(expression="*")
    entries = [
        v2.SubscriptionEntry(topic=v2.Resource(name=topic), expression=expression)
        for topic in topics
    ]
    subscription = v2.Subscription(group=v2.Resource(name=GROUP), subscriptions=entries)
    asked = v2.Settings(client_type=kind, subscription=subscription)

    async def commands() -> AsyncIterator[service.TelemetryCommand]:
        yield service.TelemetryCommand(settings=asked)
        await asyncio.Event().wait()

    async def first() -> v2.Status:
        stream = proxy.methods.client.telemetry(proxy.context, commands())
        answer = await anext(stream)
        await stream.aclose()  # type: ignore[attr-defined]
        return answer.status

    status: v2.Status = proxy.run(first())
    return status


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
    assert settings(proxy, kind, TOPIC).code == v2.OK
    for engine in engines:
        engine.send(engine.broker.name)
    assert everything(proxy, engines) == ["broker-a", "broker-b"]


def test_a_topic_that_is_made_after_the_hello_is_read_from_its_first_message(
    engines: Engines,
) -> None:
    proxy = ProxyDriver(*engines)
    for engine in engines:
        engine.call(delete_topic=link.DeleteTopic(topic=TOPIC))
    assert settings(proxy, v2.PUSH_CONSUMER, TOPIC).code == v2.OK
    for engine in engines:
        engine.make(queues=2, start="LAST")
        engine.send(engine.broker.name)
    assert everything(proxy, engines) == ["broker-a", "broker-b"]


def test_a_hello_with_an_illegal_topic_is_answered(engines: Engines) -> None:
    proxy = ProxyDriver(*engines)
    assert settings(proxy, v2.PUSH_CONSUMER, "no/topic", TOPIC).code == v2.OK


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
    assert not any(GROUP in engine.broker.state.groups for engine in engines)


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
