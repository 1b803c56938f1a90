"""Which handler serves which RPC, and how an error becomes its answer.

Errors of messaging RPCs are a status inside an OK response, as official clients expect; only
Telemetry and the admin service end with a gRPC status.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from apache.rocketmq.v2 import service_pb2 as service
from popmq_common.errors import NotServed, PopMQError
from popmq_consumer.v1 import consumer_pb2 as consumer
from popmq_proxy.core.messages.status import status_of
from popmq_proxy.metrics import Metrics
from popmq_proxy.rpc.admin.broker_admin import BrokerAdmin
from popmq_proxy.rpc.admin.cluster import Cluster
from popmq_proxy.rpc.admin.dead_letters import DeadLetters
from popmq_proxy.rpc.admin.explain import Explain
from popmq_proxy.rpc.admin.export import Export
from popmq_proxy.rpc.admin.find import Find
from popmq_proxy.rpc.admin.group_admin import GroupAdmin
from popmq_proxy.rpc.admin.health import Health
from popmq_proxy.rpc.admin.peers import Peers
from popmq_proxy.rpc.admin.permission import Permission, read_secret
from popmq_proxy.rpc.admin.reset import Reset
from popmq_proxy.rpc.admin.topic_admin import TopicAdmin
from popmq_proxy.rpc.clients.client import Client
from popmq_proxy.rpc.clients.consumer import Consumer
from popmq_proxy.rpc.clients.membership import Membership
from popmq_proxy.rpc.clients.offsets import Offsets
from popmq_proxy.rpc.clients.pull import Pull
from popmq_proxy.rpc.clients.queue_lock import QueueLock
from popmq_proxy.rpc.clients.route import Route
from popmq_proxy.rpc.clients.send_back import SendBack
from popmq_proxy.rpc.messages.ack import Ack
from popmq_proxy.rpc.messages.recall import Recall
from popmq_proxy.rpc.messages.receive import Receive
from popmq_proxy.rpc.messages.send import Send
from popmq_proxy.rpc.messages.transaction import Transactions
from popmq_proxy.rpc.messages.transaction_checks import TransactionChecks
from popmq_proxy.rpc.shared.answer import Answer
from popmq_proxy.rpc.shared.context import CallContext, Upstream
from popmq_proxy.rpc.shared.signs import SignsOfLife

Unary = Callable[[CallContext, Any], Awaitable[Any]]

UNSUPPORTED_UNARY = {
    "SyncLiteSubscription": service.SyncLiteSubscriptionResponse,
}
"""RPCs answered with the status NOT_IMPLEMENTED, and the response that carries it."""


@dataclass(frozen=True, slots=True)
class Methods:
    """Handlers by RPC name. Those of `unary` return a response with a status, those of `answers`
    an `Answer` that begins with one, whatever happens."""

    unary: dict[str, Unary]
    answers: dict[str, Unary]
    send: Send
    client: Client
    signs: SignsOfLife
    topics: TopicAdmin
    groups: GroupAdmin
    brokers: BrokerAdmin
    dead_letters: DeadLetters
    transactions: Transactions
    checks: TransactionChecks
    find: Find
    reset: Reset
    explain: Explain
    cluster: Cluster
    peers: Peers
    export: Export
    health: Health
    permission: Permission


def methods(upstream: Upstream, metrics: Metrics) -> Methods:
    """Raises `ConfigError`."""
    route, send, ack = Route(upstream), Send(upstream), Ack(upstream)
    signs, transactions = SignsOfLife(upstream), Transactions(upstream)
    client = Client(upstream, signs)
    offsets, pull, receive = Offsets(upstream), Pull(upstream), Receive(upstream)
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
        "RecallMessage": (Recall(upstream).recall_message, service.RecallMessageResponse),
        "EndTransaction": (transactions.end_transaction, service.EndTransactionResponse),
        "UpdateOffset": (offsets.update_offset, service.UpdateOffsetResponse),
        "GetOffset": (offsets.get_offset, service.GetOffsetResponse),
        "QueryOffset": (offsets.query_offset, service.QueryOffsetResponse),
        "Pull": (pull.pull, consumer.PullResponse),
        "Join": (Membership(upstream, route).join, consumer.JoinResponse),
        "FixStart": (offsets.fix_start, consumer.FixStartResponse),
        "SendBack": (SendBack(upstream).send_back, consumer.SendBackResponse),
        "LockQueues": (QueueLock(upstream).lock_queues, consumer.LockQueuesResponse),
        "Nack": (Consumer(upstream).nack, consumer.NackResponse),
        "EndPolls": (receive.end_polls, consumer.EndPollsResponse),
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
        answers={
            "ReceiveMessage": _beginning_with_status(
                receive.receive_message, service.ReceiveMessageResponse, upstream
            ),
            "Receive": _beginning_with_status(
                receive.receive_whole, consumer.ReceiveResponse, upstream
            ),
            "PullMessage": _beginning_with_status(
                pull.pull_message, service.PullMessageResponse, upstream
            ),
        },
        send=send,
        client=client,
        signs=signs,
        topics=TopicAdmin(upstream),
        groups=GroupAdmin(upstream),
        brokers=BrokerAdmin(upstream),
        dead_letters=DeadLetters(upstream),
        transactions=transactions,
        checks=TransactionChecks(upstream),
        find=Find(upstream),
        reset=Reset(upstream),
        explain=Explain(upstream),
        cluster=Cluster(upstream, metrics),
        peers=Peers(upstream),
        export=Export(upstream),
        health=Health(),
        permission=Permission(read_secret(upstream.config.admin_secret_file)),
    )


def _answering(handler: Unary, response: type[Any], upstream: Upstream) -> Unary:
    async def answer(ctx: CallContext, request: Any) -> Any:
        try:
            ctx.client_id  # noqa: B018 - raises when it is missing
            return await handler(ctx, request)
        except Exception as error:
            return response(status=_told(error, upstream))

    return answer


def _beginning_with_status(handler: Unary, response: type[Any], upstream: Upstream) -> Unary:
    async def answer(ctx: CallContext, request: Any) -> Answer:
        try:
            ctx.client_id  # noqa: B018 - raises when it is missing
            answer: Answer = await handler(ctx, request)
            return answer
        except Exception as error:
            status = _told(error, upstream)
            return Answer(status.code, [response(status=status).SerializeToString()])

    return answer


def _unsupported(name: str) -> Unary:
    async def refuse(ctx: CallContext, request: Any) -> Any:
        raise NotServed(what=name)

    return refuse


def _told(error: Exception, upstream: Upstream) -> Any:
    status = status_of(error)
    if status.code == 50001:  # INTERNAL_SERVER_ERROR: somebody must look
        if isinstance(error, PopMQError):  # a damaged store, say
            upstream.log.error("rpc.failed", reason=str(error))
        else:
            upstream.log.error("rpc.failed", exc_info=error)
    return status
