"""Whatever a client asks: the answer is no internal error, no traceback is logged, and what others
ask beside it is served."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator, MutableMapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2
from harness.broker import QUICK_DISK, EngineDriver
from harness.hostile import Messages
from harness.proxy import ProxyDriver
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq_admin.v1 import admin_pb2 as admin
from popmq_common.errors import PopMQError
from popmq_common.records import transaction_id
from popmq_common.records.receipt import Receipt
from popmq_common.records.receipt import encode as encode_receipt
from popmq_common.records.transaction_id import TransactionId
from popmq_consumer.v1 import consumer_pb2 as consumer
from popmq_proxy.core.messages import recall_handle
from popmq_proxy.core.messages.recall_handle import RecallHandle
from popmq_proxy.front.rpcs import INTERNAL, Rpc, RpcKind, grpc_code, rpcs
from popmq_proxy.metrics import ProxyMetrics
from popmq_proxy.rpc.shared.answer import Answer
from popmq_proxy.rpc.shared.context import CallContext

NUMBERS = (0, 1, -1, 2**31, 2**63 - 1, 2**63, 10**30)
HANDLES = [
    encode_receipt(Receipt(n, n, n, queue, mark, "broker-a", queue, n, n, 1), "g", "t")
    for n in NUMBERS
    for queue, mark in ((0, 0), (-1, 1), (2**31, 2))
]
KNOWN: dict[str, list[Any]] = {
    "name": ["t", "t", "g", "g", "broker-a", "broker-a", "new"],
    "resource_namespace": ["", "", ""],
    "topic": ["t", "t"],
    "group": ["g", "g"],
    "broker": ["broker-a"],
    "receipt_handle": HANDLES,
    "receipt_handles": HANDLES,
    "handle": HANDLES,
    "transaction_id": [
        transaction_id.encode(TransactionId("broker-a", n, m)) for n in NUMBERS for m in NUMBERS
    ],
    "recall_handle": [
        recall_handle.encode(RecallHandle("t", "broker-a", n, "id")) for n in (0, 1, 10**14)
    ],
    "message_id": ["id", "01" * 16],
    "id": [0, 0],
    "batch_size": [1, 32],
    "body": [b"x", b"x"],
    "message_type": [v2.NORMAL, v2.DELAY, v2.FIFO, v2.TRANSACTION, "NORMAL", "MIXED"],
    "seconds": [0, 30, 4_000_000_000, 2**63 - 1, -(2**63), 315_576_000_001, -1],
    "nanos": [0, 0, 999_999_999, 1_000_000_000],
    "expression": ["*", "a", "a = 1", "TRUE"],
    "count_max": [1, 10],
    "strategy": [0],
}
INPUTS = {
    (found.name, method.name): method.input_type
    for module in (service, admin, consumer, health_pb2)
    for found in module.DESCRIPTOR.services_by_name.values()
    for method in found.methods
    if method.name != "List"  # of the health service, not served
}
HOSTILE = Messages(KNOWN)
FRAMES_MAX = 3
NEIGHBOUR = v2.Resource(name="neighbour")


class Served:
    """All public RPCs of a proxy before a real broker, without a network."""

    def __init__(self, folder: Path) -> None:
        self.engine = EngineDriver(folder, topics_max=300, groups_max=300)
        self.engine.make()
        self.proxy = ProxyDriver(self.engine, poll_ms_max=5, broker_wait_ms=0)
        table = rpcs(self.proxy.methods, ProxyMetrics(self.proxy.upstream.sessions))
        self.rpcs = {(rpc.service.rpartition(".")[2], rpc.name): rpc for rpc in table}
        assert self.rpcs.keys() == INPUTS.keys()
        self._bodies = count()

    def ask(self, rpc: Rpc, requests: list[Message], context: CallContext) -> list[Message]:
        """All responses, with their gRPC status looked at."""
        return self.engine.run(self._ask(rpc, requests, context))

    async def _ask(self, rpc: Rpc, requests: list[Message], ctx: CallContext) -> list[Message]:
        try:
            sent = [rpc.decode(request.SerializeToString()) for request in requests]
            if rpc.begin is not None:
                told, sent[0] = await self._begun(rpc, ctx, sent[0])
                if told is not None:
                    return [told]
            if rpc.kind is RpcKind.UNARY:
                response = await rpc.handler(ctx, sent[0])
                return [_parsed(rpc, response.SerializeToString())]
            if rpc.kind is RpcKind.ANSWER:
                answer: Answer = await rpc.handler(ctx, sent[0])
                return [_parsed(rpc, data) for data in answer.responses]
            return await self._streamed(rpc, ctx, sent)
        except PopMQError as refused:
            if grpc_code(refused) == INTERNAL:
                raise AssertionError("an internal error") from refused
        except DecodeError:  # a nest too deep
            pass
        return []

    async def _begun(self, rpc: Rpc, ctx: CallContext, request: Any) -> tuple[Message | None, Any]:
        """As our own front does it, without a task. Without a response: what the handler is to go
        on with."""
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        assert rpc.begin is not None
        declined = rpc.begin(ctx, request, lambda *reply: answered.set_result(reply))
        if declined is not None:
            return None, declined
        response, declined = await answered
        if response is None:
            return None, declined
        return _parsed(rpc, response.SerializeToString()), None

    async def _streamed(self, rpc: Rpc, ctx: CallContext, sent: list[Any]) -> list[Message]:
        async def each() -> AsyncIterator[Any]:
            for request in sent:
                yield request

        answers = rpc.handler(ctx, sent[0] if rpc.kind is RpcKind.STREAM else each())
        found = []
        try:
            async for answer in answers:
                found.append(answer)
                if rpc.kind is RpcKind.STREAM:
                    break
        finally:
            await answers.aclose()
        return found

    def serves_neighbours(self) -> None:
        """Another client sends, receives and acks as if nothing were."""
        self.proxy.admin(
            "SetPermission", admin.SetPermissionRequest(broker="broker-a", permission="read-write")
        )
        body = b"%d" % next(self._bodies)
        self.engine.clock.advance(1_100)  # a topic that was missing is looked for again
        assert self.proxy.send(body, NEIGHBOUR).code == v2.OK
        bodies: list[bytes] = []
        for _ in range(10):
            queue = v2.MessageQueue(topic=NEIGHBOUR)
            group = v2.Resource(name="neighbours")
            found = self.proxy.receive(group=group, message_queue=queue)
            bodies += [message.body for message in found]
            handles = [one.system_properties.receipt_handle for one in found]
            entries = [service.AckMessageEntry(receipt_handle=handle) for handle in handles]
            if entries:
                request = service.AckMessageRequest(group=group, topic=NEIGHBOUR, entries=entries)
                assert self.proxy.call("AckMessage", request).status.code == v2.OK
            if body in bodies:
                return
        raise AssertionError("the neighbour's message did not come")


def _parsed(rpc: Rpc, data: bytes) -> Message:
    modules = {"MessagingService": service, "Admin": admin, "Consumer": consumer}
    module: Any = modules.get(rpc.service.rpartition(".")[2], health_pb2)
    method = module.DESCRIPTOR.services_by_name[rpc.service.rpartition(".")[2]].methods_by_name
    return GetMessageClass(method[rpc.name].output_type).FromString(data)


@contextmanager
def served() -> Iterator[Served]:
    with tempfile.TemporaryDirectory(dir=QUICK_DISK) as folder:
        found = Served(Path(folder))
        group = admin.CreateGroupRequest(group=admin.Group(name="neighbours", consume_from="FIRST"))
        found.proxy.admin("CreateGroup", group)
        try:
            yield found
        finally:
            found.engine.close()


def statuses(message: Any) -> Iterator[v2.Status]:
    if isinstance(message, v2.Status):
        yield message
        return
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        for inner in value if field.is_repeated else [value]:
            yield from statuses(inner)


def check_quiet(lines: list[MutableMapping[str, Any]]) -> None:
    assert [line for line in lines if "exc_info" in line or line["log_level"] == "critical"] == []


CONTEXTS = [
    CallContext({"x-mq-client-id": "client"}, "192.0.2.7:4711", None),
    CallContext({"x-mq-client-id": "client", "x-mq-language": "GO"}, "192.0.2.7:4711", None),
    CallContext({"x-mq-client-id": "\0" * 300, "x-mq-namespace": "a%b"}, "nowhere", None),
    CallContext({}, "", None),
]


@pytest.mark.parametrize("name", sorted(INPUTS), ids="/".join)
def test_any_request_has_an_answer_and_harms_nobody(name: tuple[str, str]) -> None:
    with served() as server:
        rpc = server.rpcs[name]

        @given(
            st.lists(HOSTILE.of(INPUTS[name]), min_size=1, max_size=FRAMES_MAX),
            st.sampled_from([0, 0, 0, 0, 1, 2, 3]),
        )
        def check(requests: list[Message], who: int) -> None:
            with capture_logs() as lines:
                for response in server.ask(rpc, requests, CONTEXTS[who]):
                    for status in statuses(response):
                        assert status.code != v2.INTERNAL_SERVER_ERROR, status
                server.serves_neighbours()
            check_quiet(lines)

        check()
