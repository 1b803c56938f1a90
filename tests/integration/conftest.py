"""A standalone in this process and a raw v2 client: what an official client would send, and what
none would."""

import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from integration.served import serving

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from apache.rocketmq.v2 import service_pb2_grpc as service_grpc
from popmq import Client
from popmq_broker.config import BrokerConfig
from popmq_common.process.clock import SystemClock
from popmq_proxy.config import Front, ProxyConfig
from popmq_standalone.app import standalone

IDS = itertools.count(1)


def new_message_id() -> str:
    """What is sent under an id that was sent before is not stored again."""
    return f"01AB{next(IDS):08X}"


@dataclass
class Raw:
    """One client's view of the server, message by message."""

    stub: Any
    endpoint: str
    data_dir: Path
    client_id: str = "test@1@1@1"

    @property
    def metadata(self) -> Sequence[tuple[str, str]]:
        return (("x-mq-client-id", self.client_id),) if self.client_id else ()

    async def call(self, method: str, request: Any, timeout: float = 10) -> Any:
        return await getattr(self.stub, method)(request, timeout=timeout, metadata=self.metadata)

    async def send(
        self, topic: str, body: bytes = b"x", **system: Any
    ) -> service.SendMessageResponse:
        properties = system.pop("user_properties", {})
        message = v2.Message(
            topic=v2.Resource(name=topic),
            body=body,
            user_properties=properties,
            system_properties=v2.SystemProperties(**{"message_id": new_message_id(), **system}),
        )
        response: service.SendMessageResponse = await self.call(
            "SendMessage", service.SendMessageRequest(messages=[message])
        )
        return response

    async def receive(
        self, topic: str, group: str = "g", *, timeout: float = 10, poll_ms: int = 0, **fields: Any
    ) -> list[service.ReceiveMessageResponse]:
        request = service.ReceiveMessageRequest(
            group=v2.Resource(name=group),
            message_queue=v2.MessageQueue(topic=v2.Resource(name=topic)),
            **{"batch_size": 32, **fields},
        )
        request.long_polling_timeout.FromMilliseconds(poll_ms)
        call = self.stub.ReceiveMessage(request, timeout=timeout, metadata=self.metadata)
        return [response async for response in call]

    async def ack(self, topic: str, handle: str, group: str = "g") -> service.AckMessageResponse:
        request = service.AckMessageRequest(
            group=v2.Resource(name=group),
            topic=v2.Resource(name=topic),
            entries=[service.AckMessageEntry(message_id="01AB", receipt_handle=handle)],
        )
        response: service.AckMessageResponse = await self.call("AckMessage", request)
        return response


@asynccontextmanager
async def _through_http2(broker: BrokerConfig, proxy: ProxyConfig) -> AsyncIterator[int]:
    async with standalone(broker, proxy, SystemClock()) as serving:
        yield serving.proxy.port


@asynccontextmanager
async def _through_grpcio(broker: BrokerConfig, proxy: ProxyConfig) -> AsyncIterator[int]:
    async with standalone(broker, replace(proxy, front=Front.GRPCIO), SystemClock()) as serving:
        yield serving.proxy.port


SERVERS = [_through_http2, _through_grpcio]
"""(broker's configuration, proxy's) → a context whose value is the port."""


@pytest.fixture(params=SERVERS, ids=["http2", "grpcio"])
async def raw(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Raw]:
    broker = BrokerConfig(create_groups=True, data_dir=tmp_path / "data", disk_reserve_bytes=0)
    proxy = ProxyConfig(create_topics=True, port=0, invisible_ms_min=50, log_level="error")
    async with request.param(broker, proxy) as port:
        endpoint = f"127.0.0.1:{port}"
        async with grpc.aio.insecure_channel(endpoint) as channel:
            yield Raw(service_grpc.MessagingServiceStub(channel), endpoint, tmp_path / "data")


@pytest.fixture
async def client(raw: Raw) -> AsyncIterator[Client]:
    async with Client(raw.endpoint) as connected:
        yield connected


@pytest.fixture
async def endpoint(tmp_path: Path) -> AsyncIterator[str]:
    async with serving(tmp_path) as served:
        yield served
