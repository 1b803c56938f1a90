"""Settings as official clients need them, and what happens when a client goes away."""

import asyncio
import time

import grpc
import pytest
from integration.conftest import Raw

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq_admin.v1 import admin_pb2 as admin
from popmq_admin.v1 import admin_pb2_grpc as admin_grpc


def producer() -> v2.Settings:
    topics = [v2.Resource(name="t")]
    return v2.Settings(client_type=v2.PRODUCER, publishing=v2.Publishing(topics=topics))


def consumer() -> v2.Settings:
    subscription = v2.Subscription(group=v2.Resource(name="g"))
    return v2.Settings(client_type=v2.PUSH_CONSUMER, subscription=subscription)


async def first_answer(raw: Raw, settings: v2.Settings) -> service.TelemetryCommand:
    stream = raw.stub.Telemetry(metadata=raw.metadata)
    await stream.write(service.TelemetryCommand(settings=settings))
    answer: service.TelemetryCommand = await stream.read()
    stream.cancel()
    return answer


async def test_a_producer_gets_limit_and_backoff(raw: Raw) -> None:
    answer = await first_answer(raw, producer())
    assert answer.status.code == v2.OK
    settings = answer.settings
    assert settings.publishing.max_body_size == 4 << 20
    assert settings.publishing.validate_message_type
    assert settings.backoff_policy.max_attempts == 3
    assert settings.backoff_policy.HasField("exponential_backoff")
    assert settings.HasField("metric")
    assert not settings.metric.on


async def test_a_consumer_gets_all_it_needs(raw: Raw) -> None:
    settings = (await first_answer(raw, consumer())).settings
    assert settings.subscription.HasField("fifo")
    assert settings.subscription.receive_batch_size == 32
    assert settings.subscription.long_polling_timeout.seconds == 20
    assert settings.backoff_policy.max_attempts == 16
    assert len(settings.backoff_policy.customized_backoff.next) == 18


async def test_a_consumer_is_told_its_groups_retry_policy(raw: Raw) -> None:
    growing = admin.RetryPolicy(initial_ms=1_500, max_ms=60_000, multiplier=3)
    async with grpc.aio.insecure_channel(raw.endpoint) as channel:
        stub = admin_grpc.AdminStub(channel)
        for policy in (admin.RetryPolicy(delays_ms=[500, 90_000]), growing):
            group = admin.Group(name=f"g{policy.max_ms}", retry_policy=policy)
            await stub.CreateGroup(admin.CreateGroupRequest(group=group))
    settings = consumer()
    settings.subscription.group.name = "g0"
    steps = (await first_answer(raw, settings)).settings.backoff_policy.customized_backoff.next
    assert [step.ToMilliseconds() for step in steps] == [500, 90_000]
    settings.subscription.group.name = "g60000"
    told = (await first_answer(raw, settings)).settings.backoff_policy.exponential_backoff
    assert (told.initial.ToMilliseconds(), told.max.ToMilliseconds()) == (1_500, 60_000)
    assert told.multiplier == 3


async def test_the_settings_come_once_more(raw: Raw) -> None:
    """The Node client with several topics would wait five minutes for them."""
    stream = raw.stub.Telemetry(metadata=raw.metadata)
    await stream.write(service.TelemetryCommand(settings=producer()))
    first, second = await stream.read(), await stream.read()
    assert first == second
    stream.cancel()


async def test_headers_come_before_any_settings(raw: Raw) -> None:
    stream = raw.stub.Telemetry(metadata=raw.metadata)
    async with asyncio.timeout(2):
        await stream.initial_metadata()
    stream.cancel()


async def test_settings_without_content_end_the_stream(raw: Raw) -> None:
    stream = raw.stub.Telemetry(metadata=raw.metadata)
    await stream.write(service.TelemetryCommand(settings=v2.Settings()))
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stream.read()
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_node_client_is_told_by_a_command(raw: Raw) -> None:
    """Its start would wait for ever for the Settings, if the stream ended with an error."""
    metadata = [*raw.metadata, ("x-mq-language", "HTTP")]
    stream = raw.stub.Telemetry(metadata=metadata)
    await stream.write(service.TelemetryCommand(settings=v2.Settings()))
    (told,) = [answer async for answer in stream]
    assert told.status.code == v2.BAD_REQUEST
    assert "neither publishing nor subscription" in told.status.message
    assert await stream.code() is grpc.StatusCode.OK


async def test_the_open_poll_of_a_client_that_leaves_ends(raw: Raw) -> None:
    began = time.monotonic()
    poll = asyncio.create_task(raw.receive("t", poll_ms=9_000))
    await asyncio.sleep(0.3)  # until it waits at the broker
    await raw.call("NotifyClientTermination", service.NotifyClientTerminationRequest())
    assert (await poll)[0].status.code == v2.MESSAGE_NOT_FOUND
    assert time.monotonic() - began < 3


async def test_messages_a_vanished_client_never_got_come_back_at_once(raw: Raw) -> None:
    """T40: the receive is cancelled while it waits; a message that arrives is not lost for 60 s."""
    await raw.receive("t")
    request = service.ReceiveMessageRequest(
        group=v2.Resource(name="g"),
        message_queue=v2.MessageQueue(topic=v2.Resource(name="t")),
        batch_size=1,
    )
    request.long_polling_timeout.FromSeconds(9)
    call = raw.stub.ReceiveMessage(request, timeout=10, metadata=raw.metadata)
    await asyncio.sleep(0.3)
    call.cancel()
    await raw.send("t", b"for somebody else")
    responses = await raw.receive("t", poll_ms=2_000)
    assert responses[1].message.body == b"for somebody else"
    assert responses[1].message.system_properties.delivery_attempt == 1


async def test_a_retry_wakes_a_waiting_poll(raw: Raw) -> None:
    await raw.receive("t")
    await raw.send("t", b"again")
    await raw.receive("t", invisible_duration={"nanos": 500_000_000})
    began = time.monotonic()
    responses = await raw.receive("t", poll_ms=5_000)
    assert responses[1].message.system_properties.delivery_attempt == 2
    assert time.monotonic() - began < 1.0
