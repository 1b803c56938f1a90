"""SendBack, LockQueues and the group's retry topic before two brokers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness.broker import EngineDriver
from harness.broker_calls import send_body
from harness.proxy import GROUP, ProxyDriver

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq_common.errors import BrokerUnreachable
from popmq_consumer.v1 import consumer_pb2 as consumer
from popmq_internal.v1 import link_pb2 as link

TOPIC = v2.Resource(name="t")
RETRIES = v2.Resource(name="%RETRY%g")


@pytest.fixture
def engines(tmp_path: Path) -> Iterator[list[EngineDriver]]:
    first = EngineDriver(tmp_path / "a", name="broker-a")
    second = EngineDriver(tmp_path / "b", like=first, name="broker-b")
    for engine in (first, second):
        engine.make(queues=2)
    yield [first, second]
    second.close()
    first.close()


@pytest.fixture
def proxy(engines: list[EngineDriver]) -> ProxyDriver:
    return ProxyDriver(*engines)


def queue(broker: str, id: int = 0, topic: v2.Resource = TOPIC) -> v2.MessageQueue:
    return v2.MessageQueue(topic=topic, id=id, broker=v2.Broker(name=broker))


def pulled(proxy: ProxyDriver, of: v2.MessageQueue) -> list[v2.Message]:
    request = consumer.PullRequest(group=GROUP, message_queue=of, batch_size=32)
    response = proxy.call("Pull", request)
    assert response.status.code in (v2.OK, v2.MESSAGE_NOT_FOUND), response.status
    return list(response.messages)


def send_back(proxy: ProxyDriver, of: v2.MessageQueue, **fields: Any) -> Any:
    request = consumer.SendBackRequest(group=GROUP, message_queue=of, **fields)
    return proxy.call("SendBack", request)


def join(proxy: ProxyDriver, topic: v2.Resource) -> list[tuple[str, int]]:
    response = proxy.call("Join", consumer.JoinRequest(group=GROUP, topic=topic))
    assert response.status.code == v2.OK, response.status
    return [(one.broker.name, one.id) for one in response.queues]


def held(response: Any) -> list[tuple[str, int]]:
    assert response.status.code == v2.OK, response.status
    return [(one.broker.name, one.id) for one in response.message_queues]


def test_who_joins_the_retries_finds_them_on_every_broker(
    proxy: ProxyDriver, engines: list[EngineDriver]
) -> None:
    assert join(proxy, RETRIES) == [("broker-a", 0), ("broker-b", 0)]
    other = v2.Resource(name="%RETRY%other")
    response = proxy.call("Join", consumer.JoinRequest(group=GROUP, topic=other))
    assert response.status.code == v2.TOPIC_NOT_FOUND


def test_a_broker_that_came_later_has_them_too(engines: list[EngineDriver]) -> None:
    alone = ProxyDriver(engines[0])
    assert join(alone, RETRIES) == [("broker-a", 0)]
    both = ProxyDriver(*engines)
    both.upstream.routes = alone.upstream.routes  # what it knew is kept
    both.upstream.routes._nameservers = ProxyDriver(*engines).upstream.routes._nameservers
    assert join(both, RETRIES) == [("broker-a", 0), ("broker-b", 0)]


def test_a_message_comes_again_from_its_broker_under_its_own_topic(
    proxy: ProxyDriver, engines: list[EngineDriver]
) -> None:
    join(proxy, RETRIES)
    engines[1].call(**send_body("a", queue_id=1))
    (message,) = pulled(proxy, queue("broker-b", 1))
    offset = message.system_properties.queue_offset
    response = send_back(proxy, queue("broker-b", 1), offset=offset, reason="no connection")
    assert (response.status.code, response.dead, response.level) == (v2.OK, False, 3)
    engines[1].advance(10_000)
    assert pulled(proxy, queue("broker-a", 0, RETRIES)) == []
    (again,) = pulled(proxy, queue("broker-b", 0, RETRIES))
    assert again.topic == TOPIC
    assert again.system_properties.message_id == message.system_properties.message_id
    assert again.system_properties.delivery_attempt == 2
    assert dict(again.user_properties) == {"colour": "blue"}
    response = send_back(proxy, queue("broker-b", 0, RETRIES), offset=0, level=-1)
    assert (response.status.code, response.dead, response.level) == (v2.OK, True, 0)


def test_in_a_namespace(proxy: ProxyDriver, engines: list[EngineDriver]) -> None:
    def named(name: str) -> v2.Resource:
        return v2.Resource(resource_namespace="shop", name=name)

    sent = proxy.send(b"a", topic=named("orders"))
    assert sent.code == v2.OK
    group, retries = named("billing"), named("%RETRY%billing")
    request = consumer.JoinRequest(group=group, topic=retries)
    assert len(proxy.call("Join", request).queues) == 2
    assert "%RETRY%shop%billing" in engines[0].broker.state.catalog_state.topics
    for engine in engines:
        for id in range(2):
            place = queue(engine.broker.name, id, named("orders"))
            back = consumer.SendBackRequest(group=group, message_queue=place)
            proxy.call("SendBack", back)
        engine.deliver_due()
    engines[0].clock.advance(10_000)
    found: list[v2.Message] = []
    for engine in engines:
        engine.deliver_due()
        place = queue(engine.broker.name, 0, retries)
        pull = consumer.PullRequest(group=group, message_queue=place, batch_size=32)
        found += proxy.call("Pull", pull).messages
    assert [message.topic for message in found] == [named("orders")]


def test_what_is_refused(proxy: ProxyDriver) -> None:
    assert send_back(proxy, queue("broker-a"), offset=0).status.code == v2.ILLEGAL_OFFSET
    assert send_back(proxy, queue(""), offset=0).status.code == v2.BAD_REQUEST
    assert send_back(proxy, queue("broker-a"), level=-2).status.code == v2.BAD_REQUEST
    long = "x" * 20_000
    assert send_back(proxy, queue("broker-a"), reason=long).status.code == v2.BAD_REQUEST
    empty = consumer.LockQueuesRequest(group=GROUP)
    assert proxy.call("LockQueues", empty).status.code == v2.BAD_REQUEST
    many = [queue("broker-a")] * 1_025
    request = consumer.LockQueuesRequest(group=GROUP, message_queues=many)
    assert proxy.call("LockQueues", request).status.code == v2.BAD_REQUEST


def test_queues_are_locked_at_all_their_brokers_that_answer(
    proxy: ProxyDriver, engines: list[EngineDriver], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = [queue("broker-a", 0), queue("broker-b", 1)]
    request = consumer.LockQueuesRequest(group=GROUP, message_queues=wanted)
    response = proxy.call("LockQueues", request)
    assert held(response) == [("broker-a", 0), ("broker-b", 1)]
    assert response.life.ToSeconds() == 60

    async def is_down(_: link.Call) -> link.Reply:
        raise BrokerUnreachable(broker="broker-a", reason="it is down")

    monkeypatch.setattr(engines[0].broker, "handle", is_down)
    assert held(proxy.call("LockQueues", request)) == [("broker-b", 1)]
    request.release = True
    assert held(proxy.call("LockQueues", request)) == []
    state = engines[1].broker.state
    assert state.consumer_state.queue_locks.held(state.runtime.clock.now_ms()) == 0
