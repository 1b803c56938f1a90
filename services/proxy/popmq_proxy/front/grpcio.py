"""The grpcio front: the public services on grpc.aio, in this process.

Plaintext on one port and TLS on another; Envoy is the front that tells them apart on one.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1._async import HealthServicer

from apache.rocketmq.v2 import service_pb2 as service
from popmq_admin.v1 import admin_pb2 as admin
from popmq_common import errors as e
from popmq_common.units import MiB
from popmq_proxy.config import ProxyConfig
from popmq_proxy.metrics import Metrics
from popmq_proxy.rpc.context import CallContext
from popmq_proxy.rpc.methods import Methods

MESSAGING = "apache.rocketmq.v2.MessagingService"
ADMIN = "popmq.admin.v1.Admin"
OPTIONS: list[tuple[str, int]] = [
    # As permissive as clients need: pings each 10 s, without calls too, never a GOAWAY for them.
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.max_receive_message_length", 130 * MiB),
    ("grpc.max_send_message_length", -1),
    ("grpc.so_reuseport", 0),
]
_ADMIN_METHODS: dict[str, tuple[Any, str]] = {
    "CreateTopic": (admin.CreateTopicRequest, "create_topic"),
    "DeleteTopic": (admin.DeleteTopicRequest, "delete_topic"),
    "ListTopics": (admin.ListTopicsRequest, "list_topics"),
    "DescribeTopic": (admin.DescribeTopicRequest, "describe_topic"),
    "CreateGroup": (admin.CreateGroupRequest, "create_group"),
    "DeleteGroup": (admin.DeleteGroupRequest, "delete_group"),
    "ListGroups": (admin.ListGroupsRequest, "list_groups"),
    "DescribeGroup": (admin.DescribeGroupRequest, "describe_group"),
}
_FAMILIES: list[tuple[type[e.PopMQError], grpc.StatusCode]] = [
    (e.BadRequest, grpc.StatusCode.INVALID_ARGUMENT),
    (e.NotFound, grpc.StatusCode.NOT_FOUND),
    (e.Refused, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (e.Unavailable, grpc.StatusCode.UNAVAILABLE),
]
Context = grpc.aio.ServicerContext[Any, Any]


class GrpcioFront:
    def __init__(self, config: ProxyConfig, methods: Methods, metrics: Metrics) -> None:
        self._config = config
        self._methods = methods
        self._metrics = metrics
        self._health = HealthServicer()
        self._server = grpc.aio.server(options=OPTIONS, maximum_concurrent_rpcs=config.rpcs_max)
        self._server.add_generic_rpc_handlers((self._messaging(), self._admin()))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)

    def bind(self, tls: grpc.ServerCredentials | None) -> tuple[int, int]:
        """(port, TLS port or 0). Raises `RuntimeError` when a port is taken."""
        host = self._config.host
        port = self._server.add_insecure_port(f"{host}:{self._config.port}")
        tls_port = 0
        if tls is not None:
            tls_port = self._server.add_secure_port(f"{host}:{self._config.tls_port}", tls)
        return port, tls_port

    async def start(self) -> None:
        await self._server.start()
        await self._health.set("", health_pb2.HealthCheckResponse.SERVING)

    async def stop(self, grace_s: float) -> None:
        await self._health.enter_graceful_shutdown()
        await self._server.stop(grace_s)

    def _messaging(self) -> "grpc.GenericRpcHandler[Any, Any]":
        descriptor = service.DESCRIPTOR.services_by_name["MessagingService"]
        handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
        for method in descriptor.methods:
            request = getattr(service, method.input_type.name).FromString
            name = method.name
            if name in self._methods.unary:
                handlers[name] = grpc.unary_unary_rpc_method_handler(
                    self._unary(name, self._methods.unary[name]), request, _serialize
                )
        streams = {"ReceiveMessage": self._methods.receive, "PullMessage": self._methods.pull}
        for name, handler in streams.items():
            request = getattr(service, f"{name}Request").FromString
            handlers[name] = grpc.unary_stream_rpc_method_handler(
                self._stream(name, handler), request, _serialize
            )
        handlers["Telemetry"] = grpc.stream_stream_rpc_method_handler(
            self._telemetry, service.TelemetryCommand.FromString, _serialize
        )
        assert len(handlers) == len(descriptor.methods)
        return grpc.method_handlers_generic_handler(MESSAGING, handlers)

    def _admin(self) -> "grpc.GenericRpcHandler[Any, Any]":
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(
                self._admin_call(getattr(self._methods.admin, attribute)),
                request.FromString,
                _serialize,
            )
            for name, (request, attribute) in _ADMIN_METHODS.items()
        }
        return grpc.method_handlers_generic_handler(ADMIN, handlers)

    def _unary(
        self, name: str, handler: Callable[[CallContext, Any], Awaitable[Any]]
    ) -> Callable[[Any, Context], Awaitable[Any]]:
        now, status = self._metrics.rpcs_now.labels(name), self._metrics.rpc_status
        seconds = self._metrics.rpc_seconds.labels(name)

        async def serve(request: Any, context: Context) -> Any:
            began = time.perf_counter()
            with now.track_inprogress():
                response = await handler(_context(context), request)
            seconds.observe(time.perf_counter() - began)
            status.labels(name, response.status.code).inc()
            return response

        return serve

    def _stream(
        self, name: str, handler: Callable[[CallContext, Any], AsyncIterator[Any]]
    ) -> Callable[[Any, Context], AsyncIterator[Any]]:
        now, status = self._metrics.rpcs_now.labels(name), self._metrics.rpc_status
        seconds = self._metrics.rpc_seconds.labels(name)

        async def serve(request: Any, context: Context) -> AsyncIterator[Any]:
            began = time.perf_counter()
            responses = handler(_context(context), request)
            try:
                with now.track_inprogress():
                    async for response in responses:
                        if response.WhichOneof("content") == "status":
                            status.labels(name, response.status.code).inc()
                        yield response
            finally:
                await responses.aclose()  # type: ignore[attr-defined]
                seconds.observe(time.perf_counter() - began)

        return serve

    async def _telemetry(
        self, commands: AsyncIterator[service.TelemetryCommand], context: Context
    ) -> AsyncIterator[service.TelemetryCommand]:
        await context.send_initial_metadata(())  # clients wait for the headers before all else
        answers = self._methods.client.telemetry(_context(context), commands)
        try:
            async for answer in answers:
                yield answer
        except e.PopMQError as error:
            await context.abort(_grpc_code(error), str(error))
        finally:
            await answers.aclose()  # type: ignore[attr-defined]

    def _admin_call(
        self, handler: Callable[[CallContext, Any], Awaitable[Any]]
    ) -> Callable[[Any, Context], Awaitable[Any]]:
        async def serve(request: Any, context: Context) -> Any:
            try:
                return await handler(_context(context), request)
            except e.PopMQError as error:
                await context.abort(_grpc_code(error), str(error))

        return serve


def _context(context: Context) -> CallContext:
    metadata = {
        str(key): value if isinstance(value, str) else value.decode("utf-8", "replace")
        for key, value in context.invocation_metadata() or ()
    }
    remaining_s = context.time_remaining()
    deadline_s = None if remaining_s is None else time.monotonic() + remaining_s
    return CallContext(metadata=metadata, peer=_peer(context.peer()), deadline_s=deadline_s)


def _peer(text: str) -> str:
    """grpc's `ipv4:1.2.3.4:5` without the scheme."""
    return text.partition(":")[2].replace("%5B", "[").replace("%5D", "]")


def _grpc_code(error: e.PopMQError) -> grpc.StatusCode:
    for family, code in _FAMILIES:
        if isinstance(error, family):
            return code
    return grpc.StatusCode.INTERNAL


def _serialize(message: Any) -> bytes:
    data: bytes = message.SerializeToString()
    return data
