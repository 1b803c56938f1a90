"""A connection to the servers: the stubs, each request's metadata, and trying again."""

import asyncio
import os
import random
import socket
import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from typing import Any, NamedTuple, TypeVar

import grpc

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2_grpc as service_grpc
from popmq._core.backoff import Backoff
from popmq._core.signature import Credentials, metadata
from popmq.endpoints import InTurn, Tls, addresses, channel
from popmq.errors import ServerUnreachable
from popmq_consumer.v1 import consumer_pb2_grpc as consumer_grpc

T = TypeVar("T")
ATTEMPTS = 3
NO_ANSWER = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
"""Another server may give one: this one is away, or it is paused or cut off."""
BACKOFF = Backoff(first_s=0.1, longest_s=1.0)


class _Opened(NamedTuple):
    channel: Any
    stub: Any
    consumer: Any


class _Calls:
    """A stub whose methods go to the server that is in turn when they are called."""

    def __init__(self, current: Callable[[], Any]) -> None:
        self._current = current

    def __getattr__(self, method: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            return getattr(self._current(), method)(*arguments, **options)

        setattr(self, method, call)
        return call


class Connection:
    """Opened when it is first used, closed by its client. Its client id goes with each request."""

    def __init__(
        self,
        endpoint: str,
        *,
        tls: bool | Tls,
        namespace: str,
        credentials: Credentials | None,
        timeout_s: float,
    ) -> None:
        self.endpoint = endpoint
        self.timeout_s = timeout_s
        self.tls = (tls if isinstance(tls, Tls) else Tls()) if tls else None
        self._namespace = namespace
        self._credentials = credentials
        self._client_id = f"{socket.gethostname()}@{os.getpid()}@{uuid.uuid4().hex[:12]}"
        self.addresses = addresses(endpoint)
        self._servers = InTurn(self.addresses, self._open)
        self.stub: Any = _Calls(lambda: self._servers.current().stub)
        self.consumer: Any = _Calls(lambda: self._servers.current().consumer)
        """What a PopMQ server knows beyond the public protocol."""

    def _open(self, address: str) -> _Opened:
        opened = channel(grpc.aio, address, self.tls)
        return _Opened(
            opened, service_grpc.MessagingServiceStub(opened), consumer_grpc.ConsumerStub(opened)
        )

    async def close(self) -> None:
        for opened in self._servers.made.values():
            await opened.channel.close(None)
        self._servers.made.clear()

    async def ask(
        self,
        method: Any,
        request: Any,
        *,
        wait_s: float = 0.0,
        attempts: int = ATTEMPTS,
    ) -> Any:
        """One unary call; `wait_s`: how long the server may take over it. Raises
        `ServerUnreachable`."""
        timeout_s = wait_s + self.timeout_s
        return await self.retrying(
            lambda: method(request, timeout=timeout_s, metadata=self.metadata()),
            attempts,
        )

    async def retrying(self, attempt: Callable[[], Awaitable[T]], attempts: int = ATTEMPTS) -> T:
        """Try again what was not answered; the same ids go out each time. Raises
        `ServerUnreachable`."""
        for number in range(1, attempts + 1):
            address = self._servers.name
            try:
                return await attempt()
            except grpc.aio.AioRpcError as failed:
                if failed.code() in NO_ANSWER:
                    self._servers.failed(address)
                if number == attempts:
                    text = f"{address}: {failed.details() or failed.code().name}"
                    raise ServerUnreachable(text) from failed
                await asyncio.sleep(BACKOFF.after(number, random.random()))
        raise AssertionError("at least one attempt is made")

    def go_elsewhere(self) -> None:
        """On to the next server, if there are several: from there a broker may be reached."""
        self._servers.failed(self._servers.name)

    def resource(self, name: str) -> v2.Resource:
        """A topic or group in this client's namespace."""
        return v2.Resource(resource_namespace=self._namespace, name=name)

    def metadata(self) -> Any:
        """The metadata of one request; any thread may ask."""
        return metadata(
            client_id=self._client_id,
            namespace=self._namespace,
            request_id=str(uuid.uuid4()),
            date_time=datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ"),
            version=_version(),
            credentials=self._credentials,
        )


@cache
def _version() -> str:
    """Read from the installation's files once, not with each request."""
    return version("popmq")
