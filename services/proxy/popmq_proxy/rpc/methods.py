"""Which handler serves which RPC, and how an error becomes its answer.

Errors of messaging RPCs are a status inside an OK response, as official clients expect; only
Telemetry and the admin service end with a gRPC status.
"""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from apache.rocketmq.v2 import service_pb2 as service
from popmq_common.errors import NotServed, PopMQError
from popmq_consumer.v1 import consumer_pb2 as consumer
from popmq_proxy.core.access.needs import CONSUMER, MESSAGING, ROWS
from popmq_proxy.core.messages.status import status_of
from popmq_proxy.metrics import ProxyMetrics
from popmq_proxy.rpc.access.access_tables import AccessTables
from popmq_proxy.rpc.access.acls import AclsHandler
from popmq_proxy.rpc.access.audit_lines import AuditLinesHandler
from popmq_proxy.rpc.access.audit_trail import AuditTrail, lines_to
from popmq_proxy.rpc.access.guard import Guard
from popmq_proxy.rpc.access.users import UsersHandler
from popmq_proxy.rpc.admin.broker_admin import BrokerAdminHandler
from popmq_proxy.rpc.admin.cluster import ClusterHandler
from popmq_proxy.rpc.admin.dead_letters import DeadLettersHandler
from popmq_proxy.rpc.admin.explain import ExplainHandler
from popmq_proxy.rpc.admin.export import ExportHandler
from popmq_proxy.rpc.admin.find import FindHandler
from popmq_proxy.rpc.admin.group_admin import GroupAdminHandler
from popmq_proxy.rpc.admin.health import HealthHandler
from popmq_proxy.rpc.admin.peers import PeersHandler
from popmq_proxy.rpc.admin.permission import PermissionHandler, read_secret
from popmq_proxy.rpc.admin.replicas import ReplicasHandler
from popmq_proxy.rpc.admin.reset import ResetHandler
from popmq_proxy.rpc.admin.settings import SettingsHandler
from popmq_proxy.rpc.admin.topic_admin import TopicAdminHandler
from popmq_proxy.rpc.clients.client import ClientHandler
from popmq_proxy.rpc.clients.count_reports import CountReportsHandler
from popmq_proxy.rpc.clients.membership import MembershipHandler
from popmq_proxy.rpc.clients.offsets import OffsetsHandler
from popmq_proxy.rpc.clients.pull import PullHandler
from popmq_proxy.rpc.clients.queue_lock import QueueLockHandler
from popmq_proxy.rpc.clients.route import RouteHandler
from popmq_proxy.rpc.clients.send_back import SendBackHandler
from popmq_proxy.rpc.messages.ack import AckHandler
from popmq_proxy.rpc.messages.delayed import DelayedHandler
from popmq_proxy.rpc.messages.nack import NackHandler
from popmq_proxy.rpc.messages.recall import RecallHandler
from popmq_proxy.rpc.messages.receive import ReceiveHandler
from popmq_proxy.rpc.messages.send import SendHandler
from popmq_proxy.rpc.messages.transaction import TransactionsHandler
from popmq_proxy.rpc.messages.transaction_checks import TransactionChecksHandler
from popmq_proxy.rpc.shared.answer import Answer
from popmq_proxy.rpc.shared.context import CallContext, Upstream
from popmq_proxy.rpc.shared.heartbeats import Heartbeats
from popmq_proxy.rpc.shared.proxy_report import ProxyReporter

Unary = Callable[[CallContext, Any], Awaitable[Any]]

UNSUPPORTED_UNARY = {
    "SyncLiteSubscription": service.SyncLiteSubscriptionResponse,
}
"""RPCs answered with the status NOT_IMPLEMENTED, and the response that carries it."""


@dataclass(frozen=True, slots=True)
class ToldHandlers:
    """Handlers of what proxies tell of themselves and of each other."""

    cluster: ClusterHandler
    settings: SettingsHandler
    audit_lines: AuditLinesHandler


@dataclass(frozen=True, slots=True)
class Methods:
    """Handlers by RPC name. Those of `unary` return a response with a status, those of `answers`
    an `Answer` that begins with one, whatever happens."""

    unary: dict[str, Unary]
    answers: dict[str, Unary]
    send: SendHandler
    client: ClientHandler
    heartbeats: Heartbeats
    topics: TopicAdminHandler
    groups: GroupAdminHandler
    brokers: BrokerAdminHandler
    dead_letters: DeadLettersHandler
    transactions: TransactionsHandler
    checks: TransactionChecksHandler
    find: FindHandler
    delayed: DelayedHandler
    reset: ResetHandler
    explain: ExplainHandler
    replicas: ReplicasHandler
    peers: PeersHandler
    export: ExportHandler
    health: HealthHandler
    permission: PermissionHandler
    access: AccessTables
    guard: Guard
    audit: AuditTrail
    users: UsersHandler
    acls: AclsHandler
    told: ToldHandlers


def methods(upstream: Upstream, metrics: ProxyMetrics) -> Methods:
    """Raises `ConfigError`."""
    route, send = RouteHandler(upstream), SendHandler(upstream)
    heartbeats, transactions = Heartbeats(upstream), TransactionsHandler(upstream)
    client = ClientHandler(upstream, heartbeats)
    offsets, pull = OffsetsHandler(upstream), PullHandler(upstream)
    receive, counts = ReceiveHandler(upstream), CountReportsHandler(upstream)
    unary: dict[str, tuple[Unary, type[Any]]] = {
        "QueryRoute": (route.query_route, service.QueryRouteResponse),
        "QueryAssignment": (route.query_assignment, service.QueryAssignmentResponse),
        "SendMessage": (send.send_message, service.SendMessageResponse),
        **_of_leases(AckHandler(upstream), NackHandler(upstream)),
        "RecallMessage": (RecallHandler(upstream).recall_message, service.RecallMessageResponse),
        "EndTransaction": (transactions.end_transaction, service.EndTransactionResponse),
        "UpdateOffset": (offsets.update_offset, service.UpdateOffsetResponse),
        "GetOffset": (offsets.get_offset, service.GetOffsetResponse),
        "QueryOffset": (offsets.query_offset, service.QueryOffsetResponse),
        "Pull": (pull.pull, consumer.PullResponse),
        "Join": (MembershipHandler(upstream, route).join, consumer.JoinResponse),
        "FixStart": (offsets.fix_start, consumer.FixStartResponse),
        "SendBack": (SendBackHandler(upstream).send_back, consumer.SendBackResponse),
        "ReportCounts": (counts.report_counts, consumer.ReportCountsResponse),
        "LockQueues": (QueueLockHandler(upstream).lock_queues, consumer.LockQueuesResponse),
        "EndPolls": (receive.end_polls, consumer.EndPollsResponse),
        "Heartbeat": (client.heartbeat, service.HeartbeatResponse),
        "NotifyClientTermination": (client.terminate, service.NotifyClientTerminationResponse),
    }
    for name, response in UNSUPPORTED_UNARY.items():
        unary[name] = (_unsupported(name), response)
    tables, audit, guard = _access(upstream, metrics)
    return Methods(
        unary={
            name: _answering(_guarded(guard, name, handler), response, upstream)
            for name, (handler, response) in unary.items()
        },
        answers=_answers(receive, pull, upstream, guard),
        send=send,
        client=client,
        heartbeats=heartbeats,
        topics=TopicAdminHandler(upstream),
        groups=GroupAdminHandler(upstream),
        brokers=BrokerAdminHandler(upstream),
        dead_letters=DeadLettersHandler(upstream),
        transactions=transactions,
        checks=TransactionChecksHandler(upstream),
        find=FindHandler(upstream),
        delayed=DelayedHandler(upstream),
        reset=ResetHandler(upstream),
        explain=ExplainHandler(upstream),
        replicas=ReplicasHandler(upstream),
        peers=PeersHandler(upstream),
        export=ExportHandler(upstream),
        health=HealthHandler(),
        permission=PermissionHandler(read_secret(upstream.config.admin_secret_file)),
        access=tables,
        guard=guard,
        audit=audit,
        users=UsersHandler(upstream, tables),
        acls=AclsHandler(tables, upstream.config),
        told=_told(upstream, metrics, audit),
    )


def _of_leases(ack: AckHandler, nack: NackHandler) -> dict[str, tuple[Unary, type[Any]]]:
    return {
        "AckMessage": (ack.ack_message, service.AckMessageResponse),
        "AckRuns": (ack.ack_runs, consumer.AckRunsResponse),
        "ExtendRuns": (ack.extend_runs, consumer.ExtendRunsResponse),
        "Nack": (nack.nack, consumer.NackResponse),
        "NackRuns": (nack.nack_runs, consumer.NackRunsResponse),
        "ChangeInvisibleDuration": (
            ack.change_invisible_duration,
            service.ChangeInvisibleDurationResponse,
        ),
        "ForwardMessageToDeadLetterQueue": (
            ack.forward,
            service.ForwardMessageToDeadLetterQueueResponse,
        ),
    }


def _access(upstream: Upstream, metrics: ProxyMetrics) -> tuple[AccessTables, AuditTrail, Guard]:
    """Raises `ConfigError`."""
    config = upstream.config
    tables = AccessTables(upstream, random.Random())
    lines = lines_to(config.audit_log, config.audit_log_bytes_max)
    audit = AuditTrail(upstream.clock, lines, metrics.count_refusal)
    return tables, audit, Guard(upstream, tables, audit)


def _told(upstream: Upstream, metrics: ProxyMetrics, audit: AuditTrail) -> ToldHandlers:
    reporter = ProxyReporter(upstream, audit.tail)
    cluster = ClusterHandler(upstream, metrics, reporter)
    return ToldHandlers(
        cluster=cluster,
        settings=SettingsHandler(upstream, cluster, reporter),
        audit_lines=AuditLinesHandler(upstream, cluster, reporter),
    )


def _guarded(guard: Guard, name: str, handler: Unary) -> Unary:
    service_name = CONSUMER if (CONSUMER, name) in ROWS else MESSAGING
    return guard.guarding(service_name, name, handler)


def _answers(
    receive: ReceiveHandler, pull: PullHandler, upstream: Upstream, guard: Guard
) -> dict[str, Unary]:
    handlers: dict[str, tuple[Unary, type[Any]]] = {
        "ReceiveMessage": (receive.receive_message, service.ReceiveMessageResponse),
        "ReceiveRecords": (receive.receive_records, consumer.ReceiveRecordsResponse),
        "PullMessage": (pull.pull_message, service.PullMessageResponse),
    }
    return {
        name: _beginning_with_status(_guarded(guard, name, handler), response, upstream)
        for name, (handler, response) in handlers.items()
    }


def _answering(handler: Unary, response: type[Any], upstream: Upstream) -> Unary:
    async def answer(ctx: CallContext, request: Any) -> Any:
        try:
            ctx.client_id  # noqa: B018 - raises when it is missing
            return await handler(ctx, request)
        except Exception as error:
            return response(status=_status_of(error, upstream))

    return answer


def _beginning_with_status(handler: Unary, response: type[Any], upstream: Upstream) -> Unary:
    async def answer(ctx: CallContext, request: Any) -> Answer:
        try:
            ctx.client_id  # noqa: B018 - raises when it is missing
            answer: Answer = await handler(ctx, request)
            return answer
        except Exception as error:
            status = _status_of(error, upstream)
            return Answer(status.code, [response(status=status).SerializeToString()])

    return answer


def _unsupported(name: str) -> Unary:
    async def refuse(ctx: CallContext, request: Any) -> Any:
        raise NotServed(what=name)

    return refuse


def _status_of(error: Exception, upstream: Upstream) -> Any:
    status = status_of(error)
    if status.code == 50001:  # INTERNAL_SERVER_ERROR: somebody must look
        if isinstance(error, PopMQError):  # a damaged store, say
            upstream.log.error("rpc.failed", reason=str(error))
        else:
            upstream.log.error("rpc.failed", exc_info=error)
    return status
