"""Has every RPC a row that says what it needs, and does the row say the right thing?"""

from typing import Any

import pytest
from google.protobuf.descriptor_pool import Default
from google.protobuf.message_factory import GetMessageClass

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq_admin.v1 import admin_pb2 as admin
from popmq_consumer.v1 import consumer_pb2 as consumer
from popmq_proxy.core.access.needs import ADMIN, CONSUMER, MESSAGING, ROWS, of_settings
from popmq_proxy.core.messages.resource import stored_name

SERVICES = {
    MESSAGING: service.DESCRIPTOR.services_by_name["MessagingService"],
    ADMIN: admin.DESCRIPTOR.services_by_name["Admin"],
    CONSUMER: consumer.DESCRIPTOR.services_by_name["Consumer"],
}

ASK_NOTHING = {
    *("EndPolls", "Heartbeat", "NotifyClientTermination", "ReportCounts"),
    *("SendMessage", "TestAccess"),
}
"""If they are empty."""


def test_every_rpc_of_every_service_has_a_row() -> None:
    """A new RPC without one is refused to all, so it has to be thought about."""
    named = {(full, one.name) for full, found in SERVICES.items() for one in found.methods}
    assert set(ROWS) == named - {(MESSAGING, "Telemetry")}


@pytest.mark.parametrize(("service_name", "name"), sorted(ROWS))
def test_an_empty_request_asks_for_the_right_or_for_everything(
    service_name: str, name: str
) -> None:
    """Fields that are left out must not open anything: an empty topic is no topic of anybody's."""
    (method,) = [one for one in SERVICES[service_name].methods if one.name == name]
    request = GetMessageClass(Default().FindMessageTypeByName(method.input_type.full_name))()
    needs = list(ROWS[service_name, name](request, stored))
    if name in ASK_NOTHING:
        assert needs == []  # about the client itself; a send of nothing sends nothing
        return
    assert needs
    assert all(need.name in {"*", "DefaultCluster"} for need in needs)


def stored(resource: v2.Resource) -> str:
    return stored_name(resource, "")


def texts(service_name: str, name: str, request: Any) -> set[str]:
    return {
        f"{need} {'/'.join(action.value for action in need.actions)}"
        for need in ROWS[service_name, name](request, stored)
    }


def test_counts_need_what_sending_and_receiving_needs() -> None:
    sent = consumer.CountRow(topic=v2.Resource(name="orders"))
    acked = consumer.CountRow(topic=v2.Resource(name="bills"), group=v2.Resource(name="g"))
    asked = consumer.ReportCountsRequest(rows=[sent, acked, sent])
    assert texts(CONSUMER, "ReportCounts", asked) == {
        *texts(MESSAGING, "SendMessage", sending("orders")),
        *texts(CONSUMER, "Nack", consumer.NackRequest(topic=acked.topic, group=acked.group)),
    }


def sending(topic: str) -> service.SendMessageRequest:
    return service.SendMessageRequest(messages=[v2.Message(topic=v2.Resource(name=topic))])


def resource(name: str, namespace: str = "") -> v2.Resource:
    return v2.Resource(name=name, resource_namespace=namespace)


T, G = resource("t"), resource("g")
QUEUE = v2.MessageQueue(topic=T)


@pytest.mark.parametrize(
    ("name", "request_", "wanted"),
    [
        (
            "SendMessage",
            service.SendMessageRequest(
                messages=[v2.Message(topic=T), v2.Message(topic=resource("u", "ns"))]
            ),
            {"Topic:t Pub", "Topic:ns%u Pub"},
        ),
        (
            "ReceiveMessage",
            service.ReceiveMessageRequest(group=G, message_queue=QUEUE),
            {"Group:g Sub", "Topic:t Sub"},
        ),
        (
            "ReceiveMessage",
            service.ReceiveMessageRequest(
                group=G, message_queue=v2.MessageQueue(topic=resource("%RETRY%other"))
            ),
            {"Group:g Sub", "Group:%RETRY%other Sub"},
        ),
        ("QueryRoute", service.QueryRouteRequest(topic=T), {"Topic:t Pub/Sub"}),
        ("Heartbeat", service.HeartbeatRequest(group=G), {"Group:g Sub"}),
        (
            "ChangeInvisibleDuration",
            service.ChangeInvisibleDurationRequest(group=G, topic=T),
            {"Group:g Sub", "Topic:t Sub"},
        ),
        ("RecallMessage", service.RecallMessageRequest(topic=T), {"Topic:t Pub"}),
        (
            "UpdateOffset",
            service.UpdateOffsetRequest(group=G, message_queue=QUEUE),
            {"Group:g Sub/Update", "Topic:t Sub/Update"},
        ),
        ("QueryOffset", service.QueryOffsetRequest(message_queue=QUEUE), {"Topic:t Sub/Get"}),
    ],
)
def test_what_clients_need(name: str, request_: Any, wanted: set[str]) -> None:
    assert texts(MESSAGING, name, request_) == wanted


@pytest.mark.parametrize(
    ("name", "request_", "wanted"),
    [
        ("CreateTopic", admin.CreateTopicRequest(topic=admin.Topic(name="t")), {"Topic:t Create"}),
        ("DeleteGroup", admin.DeleteGroupRequest(name="g"), {"Group:g Delete"}),
        ("ListDeadLetters", admin.ListDeadLettersRequest(group="g"), {"Group:g Get"}),
        (
            "ListDeadLetters",
            admin.ListDeadLettersRequest(group="g", whole=True),
            {"Group:g Get", "Topic:* Get"},
        ),
        (
            "ListDeadLetters",
            admin.ListDeadLettersRequest(
                group="g", whole=True, filter=admin.DeadLetterFilter(topic="t")
            ),
            {"Group:g Get", "Topic:t Get"},
        ),
        (
            "Redrive",
            admin.RedriveRequest(which=admin.RedriveDeadLettersRequest(group="g")),
            {"Group:g Update"},
        ),
        (
            "Redrive",
            admin.RedriveRequest(which=admin.RedriveDeadLettersRequest(group="g"), to_topic=True),
            {"Group:g Update", "Topic:* Pub"},
        ),
        ("GetMessage", admin.GetMessageRequest(topic="t"), {"Topic:t Get"}),
        ("GetMessage", admin.GetMessageRequest(topic="t", system=True), {"Topic:* Get"}),
        ("Explain", admin.ExplainRequest(message_id="m"), {"Topic:* Get"}),
        ("RebuildQueue", admin.RebuildQueueRequest(begin=True), {"Cluster:DefaultCluster Update"}),
        ("PutAcl", admin.PutAclRequest(), {"Cluster:DefaultCluster Update"}),
    ],
)
def test_what_operators_need(name: str, request_: Any, wanted: set[str]) -> None:
    assert texts(ADMIN, name, request_) == wanted


def test_what_settings_need() -> None:
    publishing = v2.Settings(publishing=v2.Publishing(topics=[T, resource("u")]))
    assert [str(need) for need in of_settings(publishing, stored)] == ["Topic:t", "Topic:u"]
    subscription = v2.Settings(
        subscription=v2.Subscription(group=G, subscriptions=[v2.SubscriptionEntry(topic=T)])
    )
    assert [str(need) for need in of_settings(subscription, stored)] == ["Group:g", "Topic:t"]
