"""A connection to the servers: the stubs, each request's metadata, and trying again."""

import logging
import os
import socket
import time
import uuid
from collections.abc import Awaitable, Callable
from functools import cache
from importlib.metadata import version
from typing import Any, NamedTuple, TypeVar

import grpc

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from apache.rocketmq.v2 import service_pb2_grpc as service_grpc
from popmq._core.signature import client_headers
from popmq.access.credentials import Credentials, signed_headers
from popmq.connection.endpoints import Endpoints, ServerRotation, Tls, channel, hint
from popmq.connection.pause import pause
from popmq.connection.unknown_calls import UnknownCalls
from popmq.errors import (
    AccessDenied,
    Forbidden,
    RefusedByServer,
    ServerUnreachable,
    Unauthorized,
    check,
)
from popmq.log_fields import fields
from popmq_admin.v1 import admin_pb2_grpc as admin_grpc
from popmq_consumer.v1 import consumer_pb2_grpc as consumer_grpc

log = logging.getLogger(__name__)
T = TypeVar("T")
ATTEMPTS = 3
NO_ANSWER = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
"""Another server may give one: this one is away, or it is paused or cut off."""
DENIED: dict[Any, type[AccessDenied]] = {
    grpc.StatusCode.UNAUTHENTICATED: Unauthorized,
    grpc.StatusCode.PERMISSION_DENIED: Forbidden,
    v2.UNAUTHORIZED: Unauthorized,
    v2.FORBIDDEN: Forbidden,
}
"""By gRPC's code, or by the status of an answer."""
MOVE_GAP_S = 1.0
"""Between two moves to another server because this one does not reach a broker."""


class _Opened(NamedTuple):
    channel: Any
    stub: Any
    consumer: Any
    admin: Any


class _Calls:
    """A stub whose methods go to the server that is in turn when they are called."""

    def __init__(self, current: Callable[[], Any]) -> None:
        self._current = current

    def __getattr__(self, method: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            return getattr(self._current(), method)(*arguments, **options)

        call.__name__ = method
        setattr(self, method, call)
        return call


class Connection:
    """Opened when it is first used, closed by its client. Its client id goes with each request."""

    def __init__(
        self,
        endpoint: str,
        *,
        tls: bool | Tls | None,
        namespace: str,
        credentials: Credentials | None,
        timeout_s: float,
        admin_secret: str = "",
    ) -> None:
        self.endpoint = endpoint
        self._admin_secret = admin_secret
        self.timeout_s = timeout_s
        self.namespace = namespace
        self.user = None if credentials is None else credentials.access_key
        self.client_id = f"{socket.gethostname()}@{os.getpid()}@{uuid.uuid4().hex[:12]}"
        self._headers = client_headers(
            client_id=self.client_id, namespace=namespace, version=_version()
        )
        self._signed = signed_headers(credentials)
        self.addresses, self.tls = Endpoints.of(endpoint, tls)
        self._servers = ServerRotation(self.addresses, self._open)
        self._moved_s = float("-inf")
        self._silent_since_s: float | None = None
        """Since when no server answers; None: one does."""
        self.stub: Any = _Calls(lambda: self._servers.current().stub)
        self.consumer: Any = _Calls(lambda: self._servers.current().consumer)
        """What a PopMQ server knows beyond the public protocol."""
        self.unknown = UnknownCalls()
        """Calls of `consumer` that the servers do not know."""
        self.admin: Any = _Calls(lambda: self._servers.current().admin)

    def _open(self, address: str) -> _Opened:
        opened = channel(grpc.aio, address, self.tls)
        stub: Any = service_grpc.MessagingServiceStub(opened)
        stub.SendMessage = opened.unary_unary(
            "/apache.rocketmq.v2.MessagingService/SendMessage",
            request_serializer=_as_bytes,
            response_deserializer=service.SendMessageResponse.FromString,
        )
        beyond = consumer_grpc.ConsumerStub(opened), admin_grpc.AdminStub(opened)
        return _Opened(opened, stub, *beyond)

    @property
    def address(self) -> str:
        """Of the server that is in turn."""
        return self._servers.name

    def consumer_at(self, address: str) -> Any:
        """`consumer` for a server that was in turn when it was asked something."""
        left = None if address == self._servers.name else self._servers.made.get(address)
        return self.consumer if left is None else left.consumer

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
        `ServerUnreachable`, `AccessDenied`, `RefusedByServer`."""
        timeout_s = wait_s + self.timeout_s
        asked = method.__name__
        answer = await self.retrying(
            lambda: method(request, timeout=timeout_s, metadata=self.metadata()),
            attempts,
            asked=asked,
        )
        if answer.status.code in DENIED:
            self.check(answer.status, asked)
        return answer

    async def retrying(
        self, attempt: Callable[[], Awaitable[T]], attempts: int = ATTEMPTS, *, asked: str
    ) -> T:
        """Try again what was not answered; the same ids go out each time. Where there are several
        servers, one that could not be connected to is no attempt, for `timeout_s`: in a rolling
        restart the other one may be just about to come back. `asked`: the name of the call. Raises
        `ServerUnreachable`, `AccessDenied`, `RefusedByServer`."""
        made = failures = 0
        told = ""
        patience_s = self.timeout_s if len(self.addresses) > 1 else 0.0
        connect_until_s = time.monotonic() + patience_s
        while True:
            address = self._servers.name
            try:
                result = await attempt()
            except grpc.aio.AioRpcError as failed:
                if failed.code() in DENIED:
                    raise self.denied(failed, asked) from failed
                if failed.code() is grpc.StatusCode.INVALID_ARGUMENT:  # nor will it be taken later
                    raise RefusedByServer(v2.BAD_REQUEST, failed.details() or "") from failed
                if failed.code() in NO_ANSWER:
                    self._no_answer(address, failed)
                text = failed.details() or failed.code().name
                if hint(text, self.tls) or not hint(
                    told, self.tls
                ):  # of several addresses gRPC names the last one
                    told = f"{address}: {text}"
                failures += 1
                may_connect = _never_left(failed) and time.monotonic() < connect_until_s
                made += not may_connect
                if made >= attempts:
                    raise ServerUnreachable(told + hint(told, self.tls)) from failed
            else:
                if self._silent_since_s is not None:
                    self._answers_again(address)
                return result
            await pause(failures)

    def _no_answer(self, address: str, failed: grpc.aio.AioRpcError) -> None:
        """On to the next server. It is told once, until some server answers."""
        self._servers.failed(address)
        if self._silent_since_s is None:
            self._silent_since_s = time.monotonic()
            text = failed.details() or failed.code().name
            log.warning("no answer from %s: %s", address, text, extra=fields(None, text))

    def _answers_again(self, address: str) -> None:
        assert self._silent_since_s is not None
        after_s = time.monotonic() - self._silent_since_s
        self._silent_since_s = None
        log.info("%s answers again, after %.1f s", address, after_s)

    def go_elsewhere(self) -> None:
        """On to the next server, if there are several: from there a broker may be reached. Callers
        that fail together go there together."""
        now_s = time.monotonic()
        if now_s - self._moved_s >= MOVE_GAP_S:
            self._moved_s = now_s
            self._servers.failed(self._servers.name)

    def check(self, status: v2.Status, asked: str) -> None:
        """Raises the error of a status that is not OK."""
        if (kind := DENIED.get(status.code)) is not None:
            text, where = status.message, self._servers.name
            raise kind(status.code, text, asked=asked, user=self.user, endpoint=where)
        check(status)

    def denied(self, failed: Any, asked: str) -> AccessDenied:
        """Of an error of gRPC's with one of the codes of `DENIED`."""
        kind = DENIED[failed.code()]
        number = v2.FORBIDDEN if kind is Forbidden else v2.UNAUTHORIZED
        text = failed.details() or failed.code().name
        return kind(number, text, asked=asked, user=self.user, endpoint=self._servers.name)

    def resource(self, name: str) -> v2.Resource:
        """A topic or group in this client's namespace."""
        return v2.Resource(resource_namespace=self.namespace, name=name)

    def metadata(self) -> Any:
        """The metadata of one request; any thread may ask."""
        signed = self._signed.at(int(time.time()))
        return (*self._headers, *signed, ("x-mq-request-id", str(uuid.uuid4())))

    def admin_metadata(self) -> Any:
        """The same of a request that may change topics and groups."""
        secret = [("x-popmq-admin-secret", self._admin_secret)] if self._admin_secret else []
        return [*self.metadata(), *secret]


def _as_bytes(request: bytes | service.SendMessageRequest) -> bytes:
    """Most sends are written as bytes, by `_core/messages/encode.py`."""
    return request if isinstance(request, bytes) else request.SerializeToString()


def _never_left(failed: grpc.aio.AioRpcError) -> bool:
    """There was no connection to send it on; gRPC says so in its text alone."""
    unavailable = failed.code() is grpc.StatusCode.UNAVAILABLE
    return unavailable and "failed to connect" in (failed.details() or "")


@cache
def _version() -> str:
    """Read from the installation's files once, not with each request."""
    return version("popmq")
