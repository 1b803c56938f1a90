"""What a user gets hold of that belongs to another one: handles, transactions, offsets, client ids.

Mallory may use a topic and a group of her own, and knows all that Alice's client was told.
"""

import asyncio
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from harness.access import allow, context
from unit.proxy.rpc.access.conftest import ROOT, TwoBrokers

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq_admin.v1 import admin_pb2 as admin
from popmq_consumer.v1 import consumer_pb2 as consumer

ALICE, MALLORY = context("alice", "alice-secret"), context("mallory", "mallory-secret")
ALICES, MALLORYS = v2.Resource(name="alices"), v2.Resource(name="mallorys")


@pytest.fixture
def two(cluster: TwoBrokers) -> TwoBrokers:
    ask = cluster.proxy.ask
    for user in ("alice", "mallory"):
        ask(ROOT, "CreateUser", admin.CreateUserRequest(username=user, secret=f"{user}-secret"))
        topic = admin.Topic(name=f"{user}s", queues=1, message_type="MIXED")
        ask(ROOT, "CreateTopic", admin.CreateTopicRequest(topic=topic))
        group = admin.Group(name=f"{user}s", consume_from="FIRST")
        ask(ROOT, "CreateGroup", admin.CreateGroupRequest(group=group))
        rights = (f"Topic:{user}s", "Pub,Sub"), (f"Group:{user}s", "Sub")
        allow(cluster.proxy, ROOT, user, *rights)
    return cluster


def send(two: TwoBrokers, **system: Any) -> service.SendResultEntry:
    message = v2.Message(
        topic=ALICES, body=b"x", system_properties=v2.SystemProperties(message_id="m", **system)
    )
    request = service.SendMessageRequest(messages=[message])
    response = two.proxy.ask(ALICE, "SendMessage", request)
    assert response.status.code == v2.OK
    entry: service.SendResultEntry = service.SendMessageResponse.FromString(
        response.SerializeToString()
    ).entries[0]
    return entry


def receive(two: TwoBrokers) -> list[v2.Message]:
    request = service.ReceiveMessageRequest(
        group=ALICES,
        message_queue=v2.MessageQueue(topic=ALICES),
        batch_size=32,
        invisible_duration=Duration(seconds=20),
        long_polling_timeout=Duration(),
    )
    answer = two.proxy.ask(ALICE, "ReceiveMessage", request)
    found = [service.ReceiveMessageResponse.FromString(one) for one in answer.responses]
    return [one.message for one in found if one.HasField("message")]


def refused(two: TwoBrokers, name: str, request: Any) -> bool:
    """Mallory got neither what she asked for nor a hint that it exists."""
    code: int = two.proxy.ask(MALLORY, name, request).status.code
    assert code in (
        v2.UNAUTHORIZED,
        v2.INVALID_RECEIPT_HANDLE,
        v2.INVALID_TRANSACTION_ID,
        v2.BAD_REQUEST,
    ), code
    return True


@pytest.mark.parametrize("topic", [ALICES, MALLORYS], ids=["hers", "own topic"])
@pytest.mark.parametrize("group", [ALICES, MALLORYS], ids=["her group", "own group"])
def test_a_receipt_handle_is_of_no_use_to_others(
    two: TwoBrokers, group: v2.Resource, topic: v2.Resource
) -> None:
    send(two)
    (message,) = receive(two)
    handle = message.system_properties.receipt_handle
    entry = service.AckMessageEntry(message_id="m", receipt_handle=handle)
    ack = service.AckMessageRequest(group=group, topic=topic, entries=[entry])
    assert refused(two, "AckMessage", ack)
    run = consumer.RunPart(receipt_handle=handle, queue_offsets=[0])
    assert refused(two, "AckRuns", consumer.AckRunsRequest(group=group, topic=topic, runs=[run]))
    change = service.ChangeInvisibleDurationRequest(
        group=group, topic=topic, receipt_handle=handle, invisible_duration=Duration(seconds=40)
    )
    assert refused(two, "ChangeInvisibleDuration", change)
    forward = service.ForwardMessageToDeadLetterQueueRequest(
        group=group, topic=topic, receipt_handle=handle, message_id="m"
    )
    assert refused(two, "ForwardMessageToDeadLetterQueue", forward)
    nack = consumer.NackRequest(
        group=group, topic=topic, entries=[consumer.NackEntry(receipt_handle=handle)]
    )
    assert refused(two, "Nack", nack)
    own = service.AckMessageRequest(group=ALICES, topic=ALICES, entries=[entry])
    assert two.proxy.ask(ALICE, "AckMessage", own).status.code == v2.OK


@pytest.mark.parametrize("topic", [ALICES, MALLORYS, v2.Resource()], ids=["hers", "own", "none"])
def test_a_transaction_is_settled_by_who_may_send_to_its_topic(
    two: TwoBrokers, topic: v2.Resource
) -> None:
    half = send(two, message_type=v2.TRANSACTION)
    end = service.EndTransactionRequest(
        topic=topic, transaction_id=half.transaction_id, message_id="m", resolution=v2.COMMIT
    )
    assert refused(two, "EndTransaction", end)
    assert receive(two) == []
    end.topic.CopyFrom(ALICES)
    assert two.proxy.ask(ALICE, "EndTransaction", end).status.code == v2.OK
    assert len(receive(two)) == 1


@pytest.mark.parametrize("topic", [ALICES, MALLORYS], ids=["hers", "own"])
def test_a_delayed_message_is_recalled_by_who_may_send_to_its_topic(
    two: TwoBrokers, topic: v2.Resource
) -> None:
    delayed = v2.SystemProperties(message_type=v2.DELAY)
    delayed.delivery_timestamp.FromMilliseconds(two.a.clock.now_ms() + 60_000)
    entry = send(two, message_type=v2.DELAY, delivery_timestamp=delayed.delivery_timestamp)
    recall = service.RecallMessageRequest(topic=topic, recall_handle=entry.recall_handle)
    assert refused(two, "RecallMessage", recall)
    recall.topic.CopyFrom(ALICES)
    assert two.proxy.ask(ALICE, "RecallMessage", recall).status.code == v2.OK


@pytest.mark.parametrize(
    ("group", "topic"), [(ALICES, ALICES), (ALICES, MALLORYS), (MALLORYS, ALICES)]
)
def test_offsets_are_moved_and_read_by_who_may_receive(
    two: TwoBrokers, group: v2.Resource, topic: v2.Resource
) -> None:
    queue = v2.MessageQueue(topic=topic, id=0, broker=v2.Broker(name="a"))
    update = service.UpdateOffsetRequest(group=group, message_queue=queue, offset=7)
    assert refused(two, "UpdateOffset", update)
    assert refused(two, "GetOffset", service.GetOffsetRequest(group=group, message_queue=queue))


def test_a_client_that_calls_itself_like_another_users_ends_none_of_its_polls(
    two: TwoBrokers,
) -> None:
    methods = two.proxy.methods
    request = service.ReceiveMessageRequest(
        group=ALICES,
        message_queue=v2.MessageQueue(topic=ALICES),
        batch_size=1,
        attempt_id="attempt",
        invisible_duration=Duration(seconds=20),
        long_polling_timeout=Duration(seconds=1),
    )

    async def attack() -> bool:
        poll = asyncio.ensure_future(methods.answers["ReceiveMessage"](ALICE, request))
        await asyncio.sleep(0.05)
        gone = service.NotifyClientTerminationRequest()
        await methods.unary["NotifyClientTermination"](MALLORY, gone)
        ends = consumer.EndPollsRequest(attempt_ids=["attempt"])
        await methods.unary["EndPolls"](MALLORY, ends)
        await asyncio.sleep(0.05)
        waits = not poll.done()
        await poll
        return waits

    assert MALLORY.metadata["x-mq-client-id"] == ALICE.metadata["x-mq-client-id"]
    assert two.proxy.run(attack())
