"""Are users, topics and clients held to their limits, and told when to come back?"""

import asyncio
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from harness.access import allow, context
from unit.proxy.rpc.access.conftest import ROOT, TwoBrokers

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq_admin.v1 import admin_pb2 as admin
from popmq_proxy.rpc.access import limiter
from popmq_proxy.rpc.shared.context import CallContext

ALICE = context("alice", "alice-secret")


class Time:
    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    made = Time()
    monkeypatch.setattr(limiter, "time", made)
    return made


@pytest.fixture
def two(cluster: TwoBrokers) -> TwoBrokers:
    ask = cluster.proxy.ask
    for user in ("alice", "bob"):
        ask(ROOT, "CreateUser", admin.CreateUserRequest(username=user, secret=f"{user}-secret"))
        allow(cluster.proxy, ROOT, user, ("*", "All"))
    for topic in ("t", "u"):
        ask(ROOT, "CreateTopic", admin.CreateTopicRequest(topic=admin.Topic(name=topic, queues=1)))
    ask(ROOT, "CreateGroup", admin.CreateGroupRequest(group=admin.Group(name="g")))
    return cluster


def limit(two: TwoBrokers, subject: str, **limits: int) -> None:
    request = admin.SetLimitsRequest(limits=admin.Limits(subject=subject, **limits))
    two.proxy.ask(ROOT, "SetLimits", request)


def send(two: TwoBrokers, ctx: CallContext, topic: str = "t", count: int = 1, size: int = 1) -> Any:
    message = v2.Message(
        topic=v2.Resource(name=topic),
        body=b"x" * size,
        system_properties=v2.SystemProperties(message_id="m"),
    )
    request = service.SendMessageRequest(messages=[message] * count)
    return two.proxy.ask(ctx, "SendMessage", request).status


def test_a_user_sends_so_many_a_second_and_is_told_when_to_come_back(
    two: TwoBrokers, time: Time
) -> None:
    limit(two, "User:alice", messages_per_s=3)
    assert [send(two, ALICE).code for _ in range(3)] == [v2.OK] * 3
    refused = send(two, ALICE)
    assert refused.code == v2.TOO_MANY_REQUESTS
    assert "User:alice may send 3 messages a second" in refused.message
    assert "try again in 33" in refused.message
    assert send(two, context("bob", "bob-secret")).code == v2.OK
    time.now_s += 0.34
    assert send(two, ALICE).code == v2.OK
    assert send(two, ALICE).code == v2.TOO_MANY_REQUESTS


def test_bytes_count_as_messages_do(two: TwoBrokers, time: Time) -> None:
    limit(two, "User:*", bytes_per_s=1_000)
    assert send(two, ALICE, size=900).code == v2.OK
    assert send(two, ALICE, size=200).code == v2.TOO_MANY_REQUESTS
    assert send(two, context("bob", "bob-secret"), size=900).code == v2.OK


def test_a_topics_limit_is_for_all_who_send_to_it(two: TwoBrokers, time: Time) -> None:
    limit(two, "Topic:t", messages_per_s=2)
    bob = context("bob", "bob-secret")
    codes = [send(two, one).code for one in (ALICE, bob, ALICE)]
    assert codes == [v2.OK, v2.OK, v2.TOO_MANY_REQUESTS]
    assert send(two, ALICE, "u").code == v2.OK


def test_each_client_has_limits_of_its_own(two: TwoBrokers, time: Time) -> None:
    limit(two, "Client:*", messages_per_s=1)
    other = context("alice", "alice-secret", client_id="other")
    codes = [send(two, one).code for one in (ALICE, other, ALICE)]
    assert codes == [v2.OK, v2.OK, v2.TOO_MANY_REQUESTS]


def test_own_limits_count_instead_of_those_of_everybody(two: TwoBrokers, time: Time) -> None:
    limit(two, "User:*", messages_per_s=1)
    limit(two, "User:alice", messages_per_s=100)
    assert send(two, ALICE, count=50).code == v2.OK
    limit(two, "User:alice")  # none of its own any more
    assert send(two, ALICE).code == v2.OK
    assert send(two, ALICE).code == v2.TOO_MANY_REQUESTS
    listed = two.proxy.ask(ROOT, "ListLimits", admin.ListLimitsRequest())
    assert [one.subject for one in listed.limits] == ["User:*"]


def test_a_refused_send_has_taken_nothing(two: TwoBrokers, time: Time) -> None:
    limit(two, "User:alice", messages_per_s=2)
    limit(two, "Topic:t", messages_per_s=1)
    assert send(two, ALICE).code == v2.OK
    assert send(two, ALICE).code == v2.TOO_MANY_REQUESTS  # of the topic
    assert send(two, ALICE, "u").code == v2.OK  # so the user's second one is left


def test_only_so_many_receives_wait_at_a_time(two: TwoBrokers) -> None:
    limit(two, "User:alice", waiting_receives=2)
    receive = two.proxy.methods.answers["ReceiveMessage"]
    request = service.ReceiveMessageRequest(
        group=v2.Resource(name="g"),
        message_queue=v2.MessageQueue(topic=v2.Resource(name="t")),
        batch_size=1,
        invisible_duration=Duration(seconds=20),
        long_polling_timeout=Duration(nanos=300_000_000),
    )

    async def three() -> list[int]:
        answers = await asyncio.gather(*(receive(ALICE, request) for _ in range(3)))
        return sorted(answer.code for answer in answers)

    assert two.proxy.run(three()) == sorted([v2.MESSAGE_NOT_FOUND] * 2 + [v2.TOO_MANY_REQUESTS])
    assert two.proxy.run(three()) == sorted([v2.MESSAGE_NOT_FOUND] * 2 + [v2.TOO_MANY_REQUESTS])
