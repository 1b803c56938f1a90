"""The public RPCs as one table, counted; each front serves it in its own way."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from operator import attrgetter
from typing import Any

from grpc_health.v1 import health_pb2 as health

from apache.rocketmq.v2 import service_pb2 as service
from popmq_admin.v1 import admin_pb2 as admin
from popmq_common import errors as e
from popmq_common.units import KiB, MiB
from popmq_consumer.v1 import consumer_pb2 as consumer
from popmq_proxy.core.access.needs import ADMIN, CONSUMER, MESSAGING, ROWS
from popmq_proxy.core.sends.request_shape import check_count
from popmq_proxy.metrics import ProxyMetrics, RpcStats
from popmq_proxy.rpc.methods import Methods

HEALTH = "grpc.health.v1.Health"
INTERNAL = 13
SMALL_REQUEST_BYTES_MAX = 256 * KiB
"""Of all RPCs but those below. Protobuf makes 40 times as much of a request of the smallest fields,
and takes 20 ms for each MiB of them."""
ACKS_BYTES_MAX = 1 * MiB
ACKS_FIELDS_MAX = 1_100
"""Some more than entries, and what they are of."""
ACKS_COUNTED_BYTES = 16 * KiB
"""What smaller ones become is bounded by their size, and the handler counts their entries."""
ADMIN_METHODS: dict[str, tuple[Any, str]] = {
    "CreateTopic": (admin.CreateTopicRequest, "topics.create"),
    "UpdateTopic": (admin.UpdateTopicRequest, "topics.update"),
    "SpreadTopics": (admin.SpreadTopicsRequest, "topics.spread"),
    "DeleteTopic": (admin.DeleteTopicRequest, "topics.delete"),
    "ListTopics": (admin.ListTopicsRequest, "topics.list_all"),
    "DescribeTopic": (admin.DescribeTopicRequest, "topics.describe"),
    "CreateGroup": (admin.CreateGroupRequest, "groups.create"),
    "UpdateGroup": (admin.UpdateGroupRequest, "groups.update"),
    "DeleteGroup": (admin.DeleteGroupRequest, "groups.delete"),
    "ListGroups": (admin.ListGroupsRequest, "groups.list_all"),
    "DescribeGroup": (admin.DescribeGroupRequest, "groups.describe"),
    "ListDeadLetters": (admin.ListDeadLettersRequest, "dead_letters.browse"),
    "RedriveDeadLetters": (admin.RedriveDeadLettersRequest, "dead_letters.redrive_to_topic"),
    "Redrive": (admin.RedriveRequest, "dead_letters.redrive"),
    "PurgeDeadLetters": (admin.PurgeDeadLettersRequest, "dead_letters.purge"),
    "ListTransactions": (admin.ListTransactionsRequest, "transactions.unsettled"),
    "SettleTransaction": (admin.SettleTransactionRequest, "transactions.settle"),
    "FindMessages": (admin.FindMessagesRequest, "find.find"),
    "GetMessage": (admin.GetMessageRequest, "find.get"),
    "ResetOffsets": (admin.ResetOffsetsRequest, "reset.reset_offsets"),
    "Explain": (admin.ExplainRequest, "explain.explain"),
    "Inspect": (admin.InspectRequest, "explain.inspect"),
    "SetPermission": (admin.SetPermissionRequest, "brokers.set_permission"),
    "AcceptBroker": (admin.AcceptBrokerRequest, "peers.accept"),
    "ShowCluster": (admin.ShowClusterRequest, "told.cluster.show"),
    "ShowReplicas": (admin.ShowReplicasRequest, "replicas.show"),
    "MovePrimary": (admin.MovePrimaryRequest, "replicas.move"),
    "ExportSnapshot": (admin.ExportSnapshotRequest, "export.begin"),
    "ExportStatus": (admin.ExportStatusRequest, "export.status"),
    "RebuildQueue": (admin.RebuildQueueRequest, "explain.rebuild_queue"),
    "CreateUser": (admin.CreateUserRequest, "users.create"),
    "UpdateUser": (admin.UpdateUserRequest, "users.update"),
    "RotateUser": (admin.RotateUserRequest, "users.rotate"),
    "DeleteUser": (admin.DeleteUserRequest, "users.delete"),
    "ListUsers": (admin.ListUsersRequest, "users.list_all"),
    "PutAcl": (admin.PutAclRequest, "acls.put"),
    "DeleteAcl": (admin.DeleteAclRequest, "acls.delete"),
    "ListAcls": (admin.ListAclsRequest, "acls.list_all"),
    "TestAccess": (admin.TestAccessRequest, "acls.test"),
    "SetLimits": (admin.SetLimitsRequest, "acls.set_limits"),
    "ListLimits": (admin.ListLimitsRequest, "acls.list_limits"),
    "ShowSettings": (admin.ShowSettingsRequest, "told.settings.show"),
    "ListDelayed": (admin.ListDelayedRequest, "delayed.list_all"),
    "PeekMessages": (admin.PeekMessagesRequest, "find.peek"),
    "ListAuditLines": (admin.ListAuditLinesRequest, "told.audit_lines.list_all"),
}
"""The request, and which of `Methods` serves it."""
_ONLY_LOOK = ("List", "Peek", "Describe", "Find", "Get", "Explain", "Inspect", "Show", "Test")
"""What the names of those begin with that change nothing."""
_CONSUMER_METHODS: dict[str, Any] = {
    "Nack": consumer.NackRequest,
    "NackRuns": consumer.NackRunsRequest,
    "AckRuns": consumer.AckRunsRequest,
    "ExtendRuns": consumer.ExtendRunsRequest,
    "EndPolls": consumer.EndPollsRequest,
    "Pull": consumer.PullRequest,
    "Join": consumer.JoinRequest,
    "FixStart": consumer.FixStartRequest,
    "SendBack": consumer.SendBackRequest,
    "LockQueues": consumer.LockQueuesRequest,
    "ReportCounts": consumer.ReportCountsRequest,
}
_GRPC_CODES: list[tuple[type[e.PopMQError], int]] = [
    (e.CredentialsRefused, 16),  # UNAUTHENTICATED
    (e.AccessDenied, 7),  # PERMISSION_DENIED
    (e.AdminSecretMissing, 16),
    (e.AdminSecretWrong, 7),
    (e.NoPermission, 7),
    (e.BadRequest, 3),  # INVALID_ARGUMENT
    (e.NotFound, 5),  # NOT_FOUND
    (e.Refused, 8),  # RESOURCE_EXHAUSTED
    (e.Unavailable, 14),  # UNAVAILABLE
    (e.Corrupt, 15),  # DATA_LOSS
]


Begin = Callable[[Any, Any, Callable[[Any, Any], None]], Any]
"""(context, request, on_reply) → None when it was begun, else what `handler` is to go on with.
`on_reply` gets the response later, or None and what `handler` is to go on with after all."""


class RpcKind(Enum):
    UNARY = "one request, one response"
    ANSWER = "one request, an Answer: all responses at once"
    STREAM = "one request, responses as they come"
    BIDI = "requests and responses as they come"


@dataclass(frozen=True, slots=True)
class Rpc:
    service: str
    name: str
    kind: RpcKind
    decode: Callable[[bytes], Any]
    """Bytes → the request."""
    handler: Callable[..., Any]
    """(context, request or iterator of requests) → what `kind` says; a PopMQError it raises
    becomes a gRPC status."""
    begin: Begin | None = None
    """The same without a task, where that is possible (front/unary_fast_path.py)."""
    stats: RpcStats | None = None
    """For who calls `begin`; `handler` counts by itself."""
    request_bytes_max: int = SMALL_REQUEST_BYTES_MAX
    """Of its requests, where the configuration does not allow less."""
    brings_messages: bool = False
    """Of a unary one: its answer may be large, and nothing has happened when it does not arrive."""


def rpcs(methods: Methods, metrics: ProxyMetrics) -> list[Rpc]:
    found = []
    for method in service.DESCRIPTOR.services_by_name["MessagingService"].methods:
        decode = getattr(service, method.input_type.name).FromString
        stats = metrics.rpc(method.name)
        begin, bytes_max = None, SMALL_REQUEST_BYTES_MAX
        if method.name == "SendMessage":
            decode, begin = methods.send.decode, methods.guard.guarding_begin(methods.send.begin)
            bytes_max = sys.maxsize
        elif method.name == "AckMessage":
            decode, bytes_max = _decoder_of_acks(service.AckMessageRequest), ACKS_BYTES_MAX
        if method.name in methods.unary:
            handler = _counted(methods.unary[method.name], stats, _status_code)
            kind = RpcKind.UNARY
        elif method.name in methods.answers:
            handler = _counted(methods.answers[method.name], stats, _answer_code)
            kind = RpcKind.ANSWER
        else:
            assert method.name == "Telemetry"
            handler = methods.guard.guarding_telemetry(methods.client.telemetry)
            kind = RpcKind.BIDI
        rpc = Rpc(MESSAGING, method.name, kind, decode, handler, begin, stats, bytes_max)
        found.append(rpc)
    for name, (request, served_by) in ADMIN_METHODS.items():
        handler = _of_operators(methods, name, attrgetter(served_by)(methods))
        brings = name.startswith(_ONLY_LOOK)
        found.append(
            Rpc(ADMIN, name, RpcKind.UNARY, request.FromString, handler, brings_messages=brings)
        )
    for name, message in _CONSUMER_METHODS.items():
        handler = _counted(methods.unary[name], metrics.rpc(name), _status_code)
        rpc = Rpc(CONSUMER, name, RpcKind.UNARY, message.FromString, handler)
        if name == "Pull":
            rpc = replace(rpc, brings_messages=True)
        elif name in ("AckRuns", "ExtendRuns", "NackRuns"):
            decode = _decoder_of_acks(message)
            rpc = replace(rpc, decode=decode, request_bytes_max=ACKS_BYTES_MAX)
        found.append(rpc)
    name = "ReceiveRecords"
    handler = _counted(methods.answers[name], metrics.rpc(name), _answer_code)
    decode = service.ReceiveMessageRequest.FromString
    found.append(Rpc(CONSUMER, name, RpcKind.ANSWER, decode, handler))
    decode = health.HealthCheckRequest.FromString
    found.append(Rpc(HEALTH, "Check", RpcKind.UNARY, decode, methods.health.check))
    found.append(Rpc(HEALTH, "Watch", RpcKind.STREAM, decode, methods.health.watch))
    return found


def _of_operators(methods: Methods, name: str, handler: Callable[..., Any]) -> Callable[..., Any]:
    """A handler of the admin service: who may use it, and what is written of that."""
    if not name.startswith(_ONLY_LOOK):
        row = ROWS[ADMIN, name]
        handler = methods.audit.recording(name, handler, lambda request: row(request, _as_named))
    return methods.guard.guarding(ADMIN, name, methods.permission.guarding(name, handler))


def _as_named(resource: Any) -> str:
    return str(resource.name)


def _decoder_of_acks(message: type[Any]) -> Callable[[bytes], Any]:
    def decode(data: bytes) -> Any:
        """Raises `DecodeError`, `BadRequest`."""
        if len(data) > ACKS_COUNTED_BYTES:
            check_count(data, ACKS_FIELDS_MAX)
        return message.FromString(data)

    return decode


def grpc_code(error: BaseException) -> int:
    """The gRPC status of an RPC that ends with `error`."""
    for family, code in _GRPC_CODES:
        if isinstance(error, family):
            return code
    return INTERNAL


def _counted(
    handler: Callable[..., Any], stats: RpcStats, code_of: Callable[[Any], int]
) -> Callable[..., Any]:
    async def serve(context: Any, request: Any) -> Any:
        began_s = stats.begin()
        code = None
        try:
            response = await handler(context, request)
            code = code_of(response)
            return response
        finally:
            stats.end(began_s, code)

    return serve


def _status_code(response: Any) -> int:
    code: int = response.status.code
    return code


def _answer_code(answer: Any) -> int:
    code: int = answer.code
    return code
