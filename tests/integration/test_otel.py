"""Traces and metrics of a client, against a real broker and OpenTelemetry's own SDK."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator

import grpc
import pytest
from harness.telling import Telling, attributes, context_id, link_ids, parent_id
from integration.served import running, until
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from apache.rocketmq.v2 import service_pb2_grpc as service_grpc
from popmq import (
    App,
    Client,
    Message,
    OrderlyConsumer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
    Reject,
    Retry,
    Start,
    sync,
)
from popmq.testing import PopmqBroker

OLD = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OLD_ID = (0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331)


@pytest.fixture
def told() -> Telling:
    return Telling()


@contextlib.asynccontextmanager
async def client(popmq_broker: PopmqBroker, told: Telling) -> AsyncIterator[Client]:
    async with Client(popmq_broker.endpoint, instrumentation=told.otel) as made:
        yield made


async def test_a_message_is_one_trace_from_its_sender_to_its_ack(
    popmq_broker: PopmqBroker, told: Telling
) -> None:
    app = App(popmq_broker.endpoint, instrumentation=told.otel)
    tracer = told.tracer_provider.get_tracer("application")

    @app.handler("orders", "billing")
    async def bill(message: ReceivedMessage) -> None:
        with tracer.start_as_current_span("write to the database"):
            await asyncio.sleep(0)

    async with client(popmq_broker, told) as sender:
        with tracer.start_as_current_span("POST /orders"):
            sent = await sender.producer().send("orders", b"1", tag="new", keys=["order-1"])
    async with running(app):
        await until(lambda: bool(told.spans("ack orders")))

    root, send, process, work, ack = (
        told.span(name)
        for name in (
            "POST /orders",
            "send orders",
            "process orders",
            "write to the database",
            "ack orders",
        )
    )
    assert [parent_id(span) for span in (send, process, work, ack)] == [
        context_id(span) for span in (root, send, process, process)
    ]
    assert link_ids(process) == link_ids(ack) == [context_id(send)]
    assert [span.kind for span in (send, process, ack)] == [
        SpanKind.PRODUCER,
        SpanKind.CONSUMER,
        SpanKind.CLIENT,
    ]
    host, port = popmq_broker.endpoint.split(":")
    of_all = {
        "messaging.system": "rocketmq",
        "messaging.destination.name": "orders",
        "messaging.message.id": sent.message_id,
        "messaging.rocketmq.message.tag": "new",
        "messaging.rocketmq.message.keys": ("order-1",),
        "server.address": host,
        "server.port": int(port),
    }
    assert of_all.items() <= attributes(send).items()
    assert of_all.items() <= attributes(process).items()
    assert attributes(send)["messaging.rocketmq.message.type"] == "normal"
    assert attributes(send)["messaging.operation.type"] == "send"
    assert attributes(process)["messaging.consumer.group.name"] == "billing"
    assert attributes(process)["popmq.delivery_attempt"] == 1
    assert attributes(ack)["messaging.operation.type"] == "settle"
    assert attributes(ack)["messaging.client.id"] != attributes(send)["messaging.client.id"]
    assert told.measured("messaging.client.sent.messages") == {("send", ""): 1}
    assert told.measured("messaging.client.consumed.messages") == {("process", ""): 1}
    assert told.measured("messaging.process.duration") == {("process", ""): 1}
    assert told.measured("messaging.client.operation.duration") == {
        ("send", ""): 1,
        ("ack", ""): 1,
    }


async def test_each_message_of_a_batch_comes_from_a_span_of_its_own(
    popmq_broker: PopmqBroker, told: Telling
) -> None:
    async with client(popmq_broker, told) as made:
        await made.send_many("orders", [Message(body=b"1"), Message(body=b"2")])
        received = await made.receive("orders", "billing")
        await made.ack(*received)
    send, receive = told.span("send orders"), told.span("receive orders")
    creates = [context_id(span) for span in told.spans("create orders")]
    assert len(creates) == 2
    assert link_ids(send) == creates
    assert send.kind is receive.kind is SpanKind.CLIENT
    assert sorted(link_ids(receive)) == sorted(creates)
    assert attributes(send)["messaging.batch.message_count"] == 2
    assert attributes(receive)["messaging.batch.message_count"] == 2
    assert sorted(one for span in told.spans("ack orders") for one in link_ids(span)) == sorted(
        creates
    )
    assert told.measured("messaging.client.sent.messages") == {("send", ""): 2}
    assert told.measured("messaging.client.consumed.messages") == {("receive", ""): 2}


async def test_a_batch_may_share_the_span_of_its_call(popmq_broker: PopmqBroker) -> None:
    told = Telling(create_spans=False)
    async with client(popmq_broker, told) as made:
        await made.producer().send_many("orders", [Message(body=b"1"), Message(body=b"2")])
        await made.receive("orders", "billing")
    send = told.span("send orders")
    assert send.kind is SpanKind.PRODUCER
    assert link_ids(send) == []
    assert link_ids(told.span("receive orders")) == [context_id(send)] * 2
    assert told.spans("create orders") == []


async def test_where_a_message_says_it_comes_from_is_kept(
    popmq_broker: PopmqBroker, told: Telling
) -> None:
    """As an outbox sends it, long after the request that wrote it."""
    async with client(popmq_broker, told) as made:
        await made.producer().send("orders", b"1", properties={"traceparent": OLD})
        (message,) = await made.receive("orders", "billing")
    assert message.properties["traceparent"] == OLD
    send = told.span("send orders")
    assert (link_ids(send), send.kind) == ([OLD_ID], SpanKind.CLIENT)
    assert link_ids(told.span("receive orders")) == [OLD_ID]


async def test_the_protocols_own_field_is_written_and_read(
    popmq_broker: PopmqBroker, told: Telling
) -> None:
    """The official C++ client knows nothing else."""
    async with client(popmq_broker, told) as made:
        await made.send("orders", b"1")
        (ours,) = await made.receive("orders", "billing")
        assert ours.trace_context == ours.properties["traceparent"]
        trace_id, span_id = context_id(told.span("send orders"))
        assert ours.trace_context.startswith(f"00-{trace_id:032x}-{span_id:016x}-")

        system = v2.SystemProperties(message_id="01" + "0" * 32, trace_context=OLD)
        theirs = v2.Message(topic=v2.Resource(name="orders"), system_properties=system, body=b"2")
        async with grpc.aio.insecure_channel(popmq_broker.endpoint) as channel:
            stub = service_grpc.MessagingServiceStub(channel)
            metadata = (("x-mq-client-id", "cpp"), ("x-mq-language", "CPP"))
            await stub.SendMessage(service.SendMessageRequest(messages=[theirs]), metadata=metadata)
        (message,) = await made.receive("orders", "billing")
        with told.otel.process(message):
            await message.ack()
    assert "traceparent" not in message.properties
    process = told.span("process orders")
    assert parent_id(process) == OLD_ID
    assert parent_id(told.spans("ack orders")[0]) == context_id(process)


async def test_a_receive_that_finds_nothing_has_no_span(
    popmq_broker: PopmqBroker, told: Telling
) -> None:
    async with client(popmq_broker, told) as made:
        assert await made.receive("orders", "billing", wait_s=0) == []
    assert told.names == []
    assert told.measured("messaging.client.operation.duration") == {("receive", ""): 1}


async def test_what_a_handler_ends_with_is_recorded(
    popmq_broker: PopmqBroker, told: Telling
) -> None:
    app = App(popmq_broker.endpoint, instrumentation=told.otel)

    @app.handler("orders", "billing", retry=[3600])
    async def bill(message: ReceivedMessage) -> None:
        if message.body == b"value":
            raise ValueError("no such customer")
        if message.body == b"retry":
            raise Retry(3600, "bank is busy")
        raise Reject("not an order")

    for body in ("value", "retry", "reject"):
        popmq_broker.send("orders", body)
    async with running(app):
        await until(lambda: len(told.names) == 6)
    ends = {}
    for span in told.spans("process orders"):
        assert span.status.status_code is StatusCode.ERROR
        assert [event.name for event in span.events] == ["exception"]
        ends[attributes(span)["error.type"]] = span.status.description
    assert ends == {
        "ValueError": "no such customer",
        "popmq.outcome.Retry": "bank is busy",
        "popmq.outcome.Reject": "not an order",
    }
    assert (len(told.spans("nack orders")), len(told.spans("reject orders"))) == (2, 1)
    assert told.measured("messaging.process.duration") == {("process", error): 1 for error in ends}


async def test_what_is_logged_of_a_handler_is_logged_within_its_span(
    popmq_broker: PopmqBroker, told: Telling
) -> None:
    """So that whatever writes trace ids into logs writes the handler's."""
    app = App(popmq_broker.endpoint, instrumentation=told.otel)
    seen: list[int] = []

    class SpanIds(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(trace.get_current_span().get_span_context().span_id)

    @app.handler("orders", "billing", retry=[3600])
    async def bill(message: ReceivedMessage) -> None:
        raise ValueError("no such customer")

    popmq_broker.send("orders", "1")
    handler = SpanIds()
    logging.getLogger("popmq.app.handling").addHandler(handler)
    try:
        async with running(app):
            await until(lambda: bool(told.spans("nack orders")))
    finally:
        logging.getLogger("popmq.app.handling").removeHandler(handler)
    assert seen == [context_id(told.span("process orders"))[1]]


async def test_a_send_that_fails_says_why(popmq_broker: PopmqBroker, told: Telling) -> None:
    async with client(popmq_broker, told) as made:
        with pytest.raises(Exception, match="topic") as refused:
            await made.send("no such topic!", b"1")
        mixed = [Message(body=b"1"), Message(body=b"2", properties={"k": "v" * 40_000})]
        results = await made.producer().send_many("orders", mixed, return_exceptions=True)
    name = type(refused.value).__qualname__
    send = told.span("send no such topic!")
    assert attributes(send)["error.type"] == f"popmq.errors.{name}"
    assert send.status.status_code is StatusCode.ERROR
    failed = [type(one).__qualname__ for one in results if isinstance(one, Exception)]
    batch = told.span("send orders")
    assert batch.status.description is not None
    assert batch.status.description.startswith(f"{len(failed)} of 2 messages: ")
    counted = told.measured("messaging.client.sent.messages")
    assert counted[("send", "")] == 2 - len(failed)
    assert sum(counted.values()) == 3


async def test_a_server_that_does_not_answer(told: Telling) -> None:
    async with Client(
        "127.0.0.1:1", instrumentation=told.otel, request_timeout_s=0.2, send_attempts=1
    ) as made:
        with pytest.raises(Exception, match=r"127\.0\.0\.1:1"):
            await made.send("orders", b"1")
    error = "popmq.errors.ServerUnreachable"
    assert attributes(told.span("send orders"))["error.type"] == error
    assert told.measured("messaging.client.operation.duration") == {("send", error): 1}


async def test_a_handler_in_a_thread_is_part_of_its_span(
    popmq_broker: PopmqBroker, told: Telling
) -> None:
    app = App(popmq_broker.endpoint, instrumentation=told.otel)
    seen: list[int] = []

    @app.handler("orders", "billing")
    def bill(message: ReceivedMessage) -> None:
        seen.append(trace.get_current_span().get_span_context().span_id)

    popmq_broker.send("orders", "1")
    async with running(app):
        await until(lambda: bool(told.spans("process orders")))
    assert seen == [context_id(told.span("process orders"))[1]]


def test_the_client_without_asyncio(popmq_broker: PopmqBroker, told: Telling) -> None:
    tracer = told.tracer_provider.get_tracer("application")
    with (
        sync.SyncClient(popmq_broker.endpoint, instrumentation=told.otel) as made,
        tracer.start_as_current_span("script"),
    ):
        made.producer().send("orders", b"1")
        consumer = made.consumer("orders", "billing")
        (message,) = consumer.receive(wait_s=1)
        with told.otel.process(message):
            consumer.ack(message)
    root = context_id(told.span("script"))
    assert [parent_id(told.span(name)) for name in ("send orders", "receive orders")] == [root] * 2
    process = told.span("process orders")
    assert parent_id(process) == root  # there is a span around it, so it stays there
    assert link_ids(process) == [context_id(told.span("send orders"))]
    assert parent_id(told.span("ack orders")) == context_id(process)
    assert told.measured("messaging.client.consumed.messages") == {("receive", ""): 1}


async def test_pulling_consumers_tell_too(popmq_broker: PopmqBroker, told: Telling) -> None:
    options = {"start": Start.FIRST, "instrumentation": told.otel, "balance_s": 0.2}
    for topic in ("pulled", "pushed", "ordered"):
        popmq_broker.send(topic, "1")
    async with PullConsumer(popmq_broker.endpoint, "pulled", "a", **options) as pull:  # type: ignore[arg-type]
        found: list[ReceivedMessage] = []
        while not found:
            found = await pull.poll()
    assert len(told.spans("receive pulled")) == 1
    for kind, topic in ((PushConsumer, "pushed"), (OrderlyConsumer, "ordered")):

        async def handle(message: ReceivedMessage) -> None:
            await asyncio.sleep(0)

        async with kind(popmq_broker.endpoint, topic, topic, **options) as push:  # type: ignore[arg-type]
            work = asyncio.create_task(push.run(handle))
            await until(lambda name=f"process {topic}": bool(told.spans(name)))  # type: ignore[misc]
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
        assert attributes(told.span(f"process {topic}"))["messaging.consumer.group.name"] == topic
    assert told.measured("messaging.client.consumed.messages") == {
        ("receive", ""): 1,
        ("process", ""): 2,
    }


async def test_a_half_message(popmq_broker: PopmqBroker, told: Telling) -> None:
    async with client(popmq_broker, told) as made:
        async with made.transactions.begin("orders", b"1"):
            pass
        (message,) = await made.receive("orders", "billing")
    send = told.span("send orders")
    assert attributes(send)["messaging.rocketmq.message.type"] == "transaction"
    assert attributes(send)["messaging.message.id"] == message.message_id
    assert link_ids(told.span("receive orders")) == [context_id(send)]


async def test_two_clients_tell_whom_they_were_given(popmq_broker: PopmqBroker) -> None:
    one, other = Telling(), Telling()
    async with client(popmq_broker, one) as first, client(popmq_broker, other) as second:
        await first.send("orders", b"1")
        await second.send("bills", b"2", delay_s=60)
    assert (one.names, other.names) == (["send orders"], ["send bills"])
    assert attributes(other.span("send bills"))["messaging.rocketmq.message.type"] == "delay"
    assert "messaging.rocketmq.message.delivery_timestamp" in attributes(other.span("send bills"))
