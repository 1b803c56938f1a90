"""A server that answers only what is signed, as RocketMQ's does it, and asks another one.

It reads `authorization` as `DefaultAuthenticationContextBuilder` of apache/rocketmq: scheme and
rest split at the first space, the rest at commas, each part at its "=". Of `Credential` the user is
what stands before the first slash. It shares no code with the clients that it checks.
"""

import hashlib
import hmac
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import Any

import grpc

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq_admin.v1 import admin_pb2 as admin


class Denial(StrEnum):
    """How it says no."""

    STATUS = "status"
    """40100 in the answer, as RocketMQ's proxy."""
    FORBIDDEN = "forbidden"
    """40300 in the answer."""
    GRPC = "grpc"
    """UNAUTHENTICATED, or PERMISSION_DENIED for a known user."""


def signed_by(headers: Mapping[str, str], users: Mapping[str, str]) -> str:
    """The user. Raises `ValueError` for what that user has not signed."""
    if "authorization" not in headers:
        raise ValueError("username cannot be null.")
    if "x-mq-date-time" not in headers:
        raise ValueError("datetime is null.")
    _, _, rest = headers["authorization"].partition(" ")
    fields = dict(part.strip().split("=", 1) for part in rest.split(","))
    user = fields["Credential"].split("/")[0]
    secret = users.get(user)
    if secret is None:
        raise ValueError(f"User:{user} is not found.")
    date = headers["x-mq-date-time"].encode()
    expected = hmac.digest(secret.encode(), date, hashlib.sha1)
    if bytes.fromhex(fields["Signature"]) != expected:
        raise ValueError("check signature failed.")
    return user


class SignedServer:
    """In front of `behind`."""

    def __init__(self, behind: str, users: Mapping[str, str]) -> None:
        self.users = dict(users)
        """And their secrets."""
        self.denied_calls: set[str] = set()
        """Names of RPCs that nobody may do."""
        self.denial = Denial.STATUS
        self.endpoint = ""
        self.heard: dict[str, list[dict[str, str]]] = {}
        """RPC → the headers of each call."""
        self.refused: list[str] = []
        """RPCs that were denied, each time."""
        self._behind = behind

    def times(self, rpc: str) -> int:
        return len(self.heard.get(rpc, ()))

    @asynccontextmanager
    async def serving(
        self, credentials: grpc.ServerCredentials | None = None
    ) -> AsyncIterator[str]:
        """Its endpoint."""
        server = grpc.aio.server()
        async with grpc.aio.insecure_channel(self._behind) as channel:
            server.add_generic_rpc_handlers([_Handler(self, channel)])
            if credentials is None:
                port = server.add_insecure_port("127.0.0.1:0")
            else:
                port = server.add_secure_port("localhost:0", credentials)
            await server.start()
            self.endpoint = f"{'localhost' if credentials else '127.0.0.1'}:{port}"
            try:
                yield self.endpoint
            finally:
                await server.stop(None)

    def why_denied(self, rpc: str, headers: dict[str, str]) -> str:
        self.heard.setdefault(rpc, []).append(headers)
        try:
            user = signed_by(headers, self.users)
        except ValueError as wrong:
            why = str(wrong)
        else:
            why = f"User:{user} may not {rpc}." if rpc in self.denied_calls else ""
        if why:
            self.refused.append(rpc)
        return why


class _Handler(grpc.GenericRpcHandler):  # type: ignore[type-arg] # only in stubs
    """A call with one request and one answer is a stream of one each."""

    def __init__(self, server: SignedServer, channel: grpc.aio.Channel) -> None:
        self._server, self._channel = server, channel

    def service(self, details: Any) -> Any:
        method: str = details.method
        rpc = method.rpartition("/")[2]
        headers = {key: value for key, value in details.invocation_metadata}

        async def handle(requests: Any, context: Any) -> AsyncIterator[bytes]:
            if why := self._server.why_denied(rpc, headers):
                answer = _denial(self._server.denial, method, why)
                if isinstance(answer, grpc.StatusCode):
                    await context.abort(answer, why)
                async for _ in requests:
                    break
                yield answer
                return
            passed = tuple((key, value) for key, value in headers.items() if key.startswith("x-"))
            connect: Any = self._channel.stream_stream
            call = connect(method)(requests, metadata=passed)
            try:
                async for found in call:
                    yield found
            except grpc.aio.AioRpcError as failed:
                await context.abort(failed.code(), failed.details() or "")

        return grpc.stream_stream_rpc_method_handler(handle)


def _denial(kind: Denial, method: str, why: str) -> Any:
    """The bytes of an answer whose first field is its status, or a code of gRPC's."""
    is_admin = method.startswith(f"/{admin.DESCRIPTOR.package}.")
    if kind is Denial.GRPC or is_admin:
        known = "may not" in why
        return grpc.StatusCode.PERMISSION_DENIED if known else grpc.StatusCode.UNAUTHENTICATED
    code = v2.FORBIDDEN if kind is Denial.FORBIDDEN else v2.UNAUTHORIZED
    return service.HeartbeatResponse(status=v2.Status(code=code, message=why)).SerializeToString()
