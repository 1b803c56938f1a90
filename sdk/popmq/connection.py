"""A connection to one endpoint: the stubs, each request's metadata, and trying again."""

import asyncio
import os
import socket
import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, TypeVar

import grpc

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2_grpc as service_grpc
from popmq._core.signature import Credentials, metadata
from popmq.errors import ServerUnreachable
from popmq_consumer.v1 import consumer_pb2_grpc as consumer_grpc

T = TypeVar("T")
ATTEMPTS = 3
BACKOFF_S = 0.05
MESSAGE_BYTES_MAX = 130 * 1024 * 1024


class Connection:
    """Opened and closed by its client. One client id for all that goes over it."""

    def __init__(
        self,
        endpoint: str,
        *,
        tls: bool,
        namespace: str,
        credentials: Credentials | None,
        timeout_s: float,
    ) -> None:
        self.endpoint = endpoint
        self.timeout_s = timeout_s
        self._tls = tls
        self._namespace = namespace
        self._credentials = credentials
        self._client_id = f"{socket.gethostname()}@{os.getpid()}@{uuid.uuid4().hex[:12]}"

    def open(self) -> None:
        options = [
            ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
            ("grpc.max_send_message_length", -1),
        ]
        if self._tls:
            credentials = grpc.ssl_channel_credentials()
            self._channel = grpc.aio.secure_channel(self.endpoint, credentials, options)
        else:
            self._channel = grpc.aio.insecure_channel(self.endpoint, options)
        self.stub = service_grpc.MessagingServiceStub(self._channel)
        self.consumer = consumer_grpc.ConsumerStub(self._channel)
        """What a PopMQ server knows beyond the public protocol."""

    async def close(self) -> None:
        await self._channel.close(None)

    async def ask(
        self, method: Any, request: Any, *, wait_s: float = 0.0, attempts: int = ATTEMPTS
    ) -> Any:
        """One unary call; `wait_s`: how long the server may take over it. Raises
        `ServerUnreachable`."""
        timeout_s = wait_s + self.timeout_s
        return await self.retrying(
            lambda: method(request, timeout=timeout_s, metadata=self.metadata()), attempts
        )

    async def retrying(self, attempt: Callable[[], Awaitable[T]], attempts: int = ATTEMPTS) -> T:
        """Try again what did not reach the server; the same ids go out each time."""
        for number in range(1, attempts + 1):
            try:
                return await attempt()
            except grpc.aio.AioRpcError as failed:
                if number == attempts:
                    text = f"{self.endpoint}: {failed.details() or failed.code().name}"
                    raise ServerUnreachable(text) from failed
                await asyncio.sleep(BACKOFF_S * 2**number)
        raise AssertionError("at least one attempt is made")

    def resource(self, name: str) -> v2.Resource:
        """A topic or group in this client's namespace."""
        return v2.Resource(resource_namespace=self._namespace, name=name)

    def metadata(self) -> Any:
        """The metadata of one request."""
        return metadata(
            client_id=self._client_id,
            namespace=self._namespace,
            request_id=str(uuid.uuid4()),
            date_time=datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ"),
            version=version("popmq"),
            credentials=self._credentials,
        )
