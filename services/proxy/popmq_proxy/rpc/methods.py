"""Which handler serves which RPC, and how an error becomes its answer.

Errors of messaging RPCs are a status inside an OK response, as official clients expect; only
Telemetry and the admin service end with a gRPC status.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from apache.rocketmq.v2 import service_pb2 as service
from popmq_common.errors import NotServed
from popmq_proxy.core.status import status_of
from popmq_proxy.rpc.ack import Ack
from popmq_proxy.rpc.admin import Admin
from popmq_proxy.rpc.client import Client
from popmq_proxy.rpc.context import CallContext, Upstream
from popmq_proxy.rpc.receive import Receive
from popmq_proxy.rpc.route import Route
from popmq_proxy.rpc.send import Send

Unary = Callable[[CallContext, Any], Awaitable[Any]]
ServerStream = Callable[[CallContext, Any], AsyncIterator[Any]]

UNSUPPORTED_UNARY = {
    "UpdateOffset": service.UpdateOffsetResponse,
    "GetOffset": service.GetOffsetResponse,
    "QueryOffset": service.QueryOffsetResponse,
    "EndTransaction": service.EndTransactionResponse,
    "RecallMessage": service.RecallMessageResponse,
    "SyncLiteSubscription": service.SyncLiteSubscriptionResponse,
}
"""RPCs answered with the status NOT_IMPLEMENTED, and the response that carries it."""


@dataclass(frozen=True, slots=True)
class Methods:
    """Handlers by RPC name. Unary ones return a response with a status, whatever happens."""

    unary: dict[str, Unary]
    receive: ServerStream
    pull: ServerStream
    client: Client
    admin: Admin


def methods(upstream: Upstream) -> Methods:
    route, send, ack = Route(upstream), Send(upstream), Ack(upstream)
    client = Client(upstream)
    unary: dict[str, tuple[Unary, type[Any]]] = {
        "QueryRoute": (route.query_route, service.QueryRouteResponse),
        "QueryAssignment": (route.query_assignment, service.QueryAssignmentResponse),
        "SendMessage": (send.send_message, service.SendMessageResponse),
        "AckMessage": (ack.ack_message, service.AckMessageResponse),
        "ChangeInvisibleDuration": (
            ack.change_invisible_duration,
            service.ChangeInvisibleDurationResponse,
        ),
        "ForwardMessageToDeadLetterQueue": (
            ack.forward,
            service.ForwardMessageToDeadLetterQueueResponse,
        ),
        "Heartbeat": (client.heartbeat, service.HeartbeatResponse),
        "NotifyClientTermination": (client.terminate, service.NotifyClientTerminationResponse),
    }
    for name, response in UNSUPPORTED_UNARY.items():
        unary[name] = (_unsupported(name), response)
    return Methods(
        unary={
            name: _answering(handler, response, upstream)
            for name, (handler, response) in unary.items()
        },
        receive=_streaming(Receive(upstream).receive_message, upstream),
        pull=_pull,
        client=client,
        admin=Admin(upstream),
    )


def _answering(handler: Unary, response: type[Any], upstream: Upstream) -> Unary:
    async def answer(ctx: CallContext, request: Any) -> Any:
        try:
            ctx.client_id  # noqa: B018 - raises when it is missing
            return await handler(ctx, request)
        except Exception as error:
            return response(status=_told(error, upstream))

    return answer


def _streaming(handler: ServerStream, upstream: Upstream) -> ServerStream:
    async def answer(
        ctx: CallContext, request: service.ReceiveMessageRequest
    ) -> AsyncIterator[service.ReceiveMessageResponse]:
        responses = handler(ctx, request)
        started = False
        try:
            ctx.client_id  # noqa: B018 - raises when it is missing
            async for response in responses:
                started = True
                yield response
        except Exception as error:
            if started:
                raise
            yield service.ReceiveMessageResponse(status=_told(error, upstream))
        finally:
            await responses.aclose()  # type: ignore[attr-defined]

    return answer


async def _pull(
    ctx: CallContext, request: service.PullMessageRequest
) -> AsyncIterator[service.PullMessageResponse]:
    yield service.PullMessageResponse(status=status_of(NotServed(what="PullMessage")))


def _unsupported(name: str) -> Unary:
    async def refuse(ctx: CallContext, request: Any) -> Any:
        raise NotServed(what=name)

    return refuse


def _told(error: Exception, upstream: Upstream) -> Any:
    status = status_of(error)
    if status.code == 50001:  # INTERNAL_SERVER_ERROR: a bug or a damaged store, somebody must look
        upstream.log.error("rpc.failed", exc_info=error)
    return status
