"""The grpcio front: the public services on grpc.aio, in this process.

Plaintext on one port and TLS on another; the HTTP/2 front tells them apart on one.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from popmq_common import errors as e
from popmq_common.tls.identity import user_of_grpc
from popmq_proxy.config import ProxyConfig
from popmq_proxy.front.rpcs import Rpc, RpcKind, grpc_code
from popmq_proxy.rpc.shared.context import CallContext

OPTIONS: list[tuple[str, int]] = [
    # As permissive as clients need: pings each 10 s, without calls too, never a GOAWAY for them.
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.max_send_message_length", -1),
    # grpc's own bound, 1,000, is one for all connections: a client that floods would have the
    # calls of the others ended. Ours is maximum_concurrent_rpcs.
    ("grpc.server.max_pending_requests", 100_000),
    ("grpc.server.max_pending_requests_hard_limit", 200_000),
    ("grpc.so_reuseport", 0),
]
_CODES = {code.value[0]: code for code in grpc.StatusCode}
Context = grpc.aio.ServicerContext[Any, Any]


class GrpcioFront:
    def __init__(self, config: ProxyConfig, rpcs: list[Rpc]) -> None:
        self._config = config
        options = [*OPTIONS, ("grpc.max_receive_message_length", config.request_bytes_max)]
        self._server = grpc.aio.server(options=options, maximum_concurrent_rpcs=config.rpcs_max)
        services: dict[str, dict[str, grpc.RpcMethodHandler[Any, Any]]] = {}
        for rpc in rpcs:
            services.setdefault(rpc.service, {})[rpc.name] = _method(rpc)
        for name, handlers in services.items():
            generic = grpc.method_handlers_generic_handler(name, handlers)
            self._server.add_generic_rpc_handlers((generic,))

    def bind(self, tls: grpc.ServerCredentials | None) -> tuple[int, int]:
        """(port, TLS port or 0), with `tls_only` the same. Raises `RuntimeError` when a port is
        taken."""
        config, host = self._config, self._config.host
        if config.tls_only:
            assert tls is not None
            only = self._server.add_secure_port(f"{host}:{config.tls_port or config.port}", tls)
            return only, only
        port = self._server.add_insecure_port(f"{host}:{config.port}")
        tls_port = 0
        if tls is not None:
            tls_port = self._server.add_secure_port(f"{host}:{config.tls_port}", tls)
        return port, tls_port

    async def start(self) -> None:
        await self._server.start()

    async def stop(self, grace_s: float) -> None:
        await self._server.stop(grace_s)


def _method(rpc: Rpc) -> "grpc.RpcMethodHandler[Any, Any]":
    if rpc.kind is RpcKind.UNARY:
        return grpc.unary_unary_rpc_method_handler(_unary(rpc), _as_it_is, _serialize)
    if rpc.kind is RpcKind.ANSWER:
        return grpc.unary_stream_rpc_method_handler(_answer(rpc), rpc.decode, _as_it_is)
    if rpc.kind is RpcKind.STREAM:
        return grpc.unary_stream_rpc_method_handler(_stream(rpc), rpc.decode, _serialize)
    return grpc.stream_stream_rpc_method_handler(_stream(rpc), rpc.decode, _serialize)


def _unary(rpc: Rpc) -> Callable[[bytes, Context], Any]:
    async def serve(message: bytes, context: Context) -> Any:
        try:  # decoded here: grpcio has one code for all that a decoder may say
            request = rpc.decode(message)
        except DecodeError as wrong:
            text = f"the request cannot be read: {wrong}"
            await context.abort(grpc.StatusCode.INTERNAL, text)
        except e.PopMQError as error:
            await context.abort(_CODES[grpc_code(error)], str(error))
        try:
            return await rpc.handler(_context(context), request)
        except e.PopMQError as error:
            await context.abort(_CODES[grpc_code(error)], str(error))

    return serve


def _answer(rpc: Rpc) -> Callable[[Any, Context], AsyncIterator[bytes]]:
    async def serve(request: Any, context: Context) -> AsyncIterator[bytes]:
        answer = await rpc.handler(_context(context), request)
        try:
            for response in answer.responses:
                yield response
        except BaseException:  # the client is gone, and this generator is closed or cancelled
            await asyncio.shield(answer.undo())
            raise

    return serve


def _stream(rpc: Rpc) -> Callable[[Any, Context], AsyncIterator[Any]]:
    async def serve(requests: Any, context: Context) -> AsyncIterator[Any]:
        await context.send_initial_metadata(())  # clients wait for the headers before all else
        answers = rpc.handler(_context(context), requests)
        try:
            async for answer in answers:
                yield answer
        except e.PopMQError as error:
            await context.abort(_CODES[grpc_code(error)], str(error))
        finally:
            await answers.aclose()

    return serve


def _context(context: Context) -> CallContext:
    metadata = {
        str(key): value if isinstance(value, str) else value.decode("utf-8", "replace")
        for key, value in context.invocation_metadata() or ()
    }
    remaining_s = context.time_remaining()
    deadline_s = None if remaining_s is None else time.monotonic() + remaining_s
    authorization = metadata.get("authorization")
    signature = None
    if authorization is not None:
        signature = authorization.encode(), metadata.get("x-mq-date-time", "").encode()
    return CallContext(
        metadata=metadata,
        peer=_peer(context.peer()),
        deadline_s=deadline_s,
        signature=signature,
        certificate_user=user_of_grpc(context.auth_context()) or "",
    )


def _peer(text: str) -> str:
    """grpc's `ipv4:1.2.3.4:5` without the scheme."""
    return text.partition(":")[2].replace("%5B", "[").replace("%5D", "]")


def _serialize(message: Any) -> bytes:
    data: bytes = message.SerializeToString()
    return data


def _as_it_is(message: bytes) -> bytes:
    return message
