"""Does a proxy serve clients it knows nothing of, tell them what is wrong, and keep nothing that
another proxy would need?"""

from itertools import combinations, product
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from harness.broker import EngineDriver
from harness.proxy import GROUP, TOPIC, ProxyDriver
from prometheus_client import generate_latest

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq_admin.v1 import admin_pb2 as admin
from popmq_proxy.core.messages import settings
from popmq_proxy.core.messages.settings import GroupSettings
from popmq_proxy.metrics import ProxyMetrics

REMAPPED = v2.Endpoints(scheme=v2.IPv4, addresses=[v2.Address(host="203.0.113.9", port=18_081)])
NAMED = v2.Endpoints(
    scheme=v2.DOMAIN_NAME, addresses=[v2.Address(host="queue.example.org", port=443)]
)
SIX = v2.Endpoints(scheme=v2.IPv6, addresses=[v2.Address(host="2001:db8::7", port=8_081)])


def test_t41_a_receive_of_a_client_that_never_sent_settings_is_served(
    proxy: ProxyDriver,
) -> None:
    """The proxy has just started, or the client lost its stream."""
    assert proxy.send(b"served").code == v2.OK
    assert proxy.upstream.sessions.get("client") is None
    (message,) = proxy.receive()
    assert message.body == b"served"
    assert [status.code for status in proxy.ack(message)] == [v2.OK]


@pytest.mark.parametrize("kind", [v2.PRODUCER, v2.PUSH_CONSUMER, v2.SIMPLE_CONSUMER])
def test_t41_settings_are_complete_whatever_the_client_said(
    kind: "v2.ClientType.ValueType",
) -> None:
    asked = v2.Settings(client_type=kind)
    if kind == v2.PRODUCER:
        asked.publishing.SetInParent()
    else:
        asked.subscription.SetInParent()
    answer = settings.merge(asked, group=GroupSettings(), body_bytes_max=1, poll_ms_max=1)
    assert answer.HasField("metric")
    assert answer.HasField("backoff_policy")
    assert answer.backoff_policy.WhichOneof("strategy")
    assert answer.WhichOneof("pub_sub")


def test_t45_every_proxy_tells_the_same_of_a_group_that_consumes(driver: EngineDriver) -> None:
    """The broker knows what is held and how far a group is; who talks to which proxy is all one."""
    driver.make(queues=1)
    mine, other = ProxyDriver(driver), ProxyDriver(driver)
    mine.send(b"a")
    mine.send(b"b")
    assert len(mine.receive(batch_size=1)) == 1
    found = [
        proxy.admin("DescribeGroup", admin.DescribeGroupRequest(name="g"))
        for proxy in (mine, other)
    ]
    assert found[0] == found[1]
    (queue,) = found[0].queues
    assert (queue.in_flight, queue.committed_offset, queue.lag) == (1, 1, 2)


def test_t45_a_client_that_consumes_counts_as_connected(
    driver: EngineDriver, proxy: ProxyDriver
) -> None:
    """Without Telemetry or a heartbeat, until it says goodbye or is silent for long."""
    metrics = ProxyMetrics(proxy.upstream.sessions)
    assert b"popmq_clients 0.0" in generate_latest(metrics.registry)
    proxy.receive()
    assert b"popmq_clients 1.0" in generate_latest(metrics.registry)
    proxy.call("NotifyClientTermination", service.NotifyClientTerminationRequest())
    assert b"popmq_clients 0.0" in generate_latest(metrics.registry)


SYSTEM: dict[str, dict[str, Any]] = {
    "NORMAL": {},
    "FIFO": {"message_group": "line"},
    "DELAY": {"delivery_timestamp": Timestamp(seconds=1)},  # long past: it comes at once
    "TRANSACTION": {"message_type": v2.TRANSACTION},
}


@pytest.mark.parametrize(
    ("topic_type", "kind"),
    [*product(["NORMAL", "FIFO", "DELAY", "MIXED"], ["NORMAL", "FIFO", "DELAY"])],
)
@pytest.mark.parametrize("declared", [True, False])
def test_t48_a_topic_takes_its_own_type_of_message(
    proxy: ProxyDriver, topic_type: str, kind: str, declared: bool
) -> None:
    name = f"only-{topic_type}"
    topic = admin.Topic(name=name, message_type=topic_type, queues=1)
    proxy.admin("CreateTopic", admin.CreateTopicRequest(topic=topic))
    system = dict(SYSTEM[kind])
    if declared:
        system["message_type"] = v2.MessageType.Value(kind)
    status = proxy.send(b"x", v2.Resource(name=name), **system)
    fits = topic_type in (kind, "MIXED")
    assert status.code == (v2.OK if fits else v2.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE)


@pytest.mark.parametrize("kinds", [*combinations(["FIFO", "DELAY", "TRANSACTION"], 2)], ids=str)
def test_t48_a_message_of_two_types_is_refused(
    driver: EngineDriver, proxy: ProxyDriver, kinds: tuple[str, str]
) -> None:
    system = SYSTEM[kinds[0]] | SYSTEM[kinds[1]]
    refused = proxy.send(b"x", **system)
    assert refused.code == v2.MESSAGE_CORRUPTED
    assert "as well" in refused.message
    driver.advance(60_000)
    assert proxy.receive() == []


@pytest.mark.parametrize("said", ["FIFO", "DELAY", "NORMAL"])
def test_t48_what_a_message_says_it_is_must_be_true(proxy: ProxyDriver, said: str) -> None:
    other = "FIFO" if said != "FIFO" else "NORMAL"
    refused = proxy.send(b"x", **SYSTEM[other], message_type=v2.MessageType.Value(said))
    assert refused.code == v2.MESSAGE_CORRUPTED
    assert said in refused.message
    assert other in refused.message


def test_t49_a_wrong_type_is_told_with_topic_types_and_the_command_that_helps(
    proxy: ProxyDriver,
) -> None:
    topic = admin.Topic(name="orders", message_type="NORMAL")
    proxy.admin("CreateTopic", admin.CreateTopicRequest(topic=topic))
    refused = proxy.send(b"x", v2.Resource(name="orders"), message_group="line")
    assert refused.code == v2.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
    for part in ("orders", "NORMAL", "FIFO", "popmq topic create NAME --type FIFO"):
        assert part in refused.message


def test_t49_a_first_message_without_a_type_is_taken(proxy: ProxyDriver) -> None:
    """Into a topic that nobody has made: its type is never unspecified."""
    new = v2.Resource(name="first-run")
    assert proxy.send(b"x", new, message_type=v2.MESSAGE_TYPE_UNSPECIFIED).code == v2.OK
    route = proxy.call("QueryRoute", service.QueryRouteRequest(topic=new))
    for queue in route.message_queues:
        assert v2.NORMAL in queue.accept_message_types
        assert v2.MESSAGE_TYPE_UNSPECIFIED not in queue.accept_message_types


@pytest.mark.parametrize("through", [REMAPPED, NAMED, SIX], ids=["remapped", "name", "IPv6"])
def test_t50_a_route_leads_back_through_the_door_the_client_came_through(
    proxy: ProxyDriver, through: v2.Endpoints
) -> None:
    route = proxy.call("QueryRoute", service.QueryRouteRequest(topic=TOPIC, endpoints=through))
    assert len(route.message_queues) == 2
    assert all(queue.broker.endpoints == through for queue in route.message_queues)
    asked = service.QueryAssignmentRequest(topic=TOPIC, group=GROUP, endpoints=through)
    assigned = proxy.call("QueryAssignment", asked).assignments
    assert assigned
    assert all(one.message_queue.broker.endpoints == through for one in assigned)
