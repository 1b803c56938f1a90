"""What each RPC needs: a row for every one. An RPC without a row is refused to everybody
(tests/unit/proxy/access holds the rows against the .proto files).

A request needs all that its row names; of the actions of one need, any suffices. Retry topics and
dead letters belong to their group, whoever asks for them as topics.

Source: RocketMQ DefaultAuthorizationContextBuilder as of 2026-08. Differs: a send needs Pub on the
topic of each of its messages, RocketMQ looks at the first only; pulls and offsets have rows.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq_common.records.names import DEAD_LETTER_PREFIX, RETRY_PREFIX
from popmq_proxy.core.access.model import ANY_NAME, Action, Need, ResourceType

Stored = Callable[[v2.Resource], str]
"""A resource → its name as brokers store it."""
Row = Callable[[Any, Stored], Iterable[Need]]
CLUSTER: Final = "DefaultCluster"
MESSAGING: Final = "apache.rocketmq.v2.MessagingService"
ADMIN: Final = "popmq.admin.v1.Admin"
CONSUMER: Final = "popmq.consumer.v1.Consumer"
PUB, SUB = (Action.PUB,), (Action.SUB,)
READ_OFFSET, WRITE_OFFSET = (Action.SUB, Action.GET), (Action.SUB, Action.UPDATE)


def topic(name: str, *actions: Action) -> Need:
    kind = ResourceType.TOPIC
    if name.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX)):
        kind = ResourceType.GROUP
    return Need(kind, name or ANY_NAME, actions)


def group(name: str, *actions: Action) -> Need:
    return Need(ResourceType.GROUP, name or ANY_NAME, actions)


def cluster(action: Action) -> Need:
    return Need(ResourceType.CLUSTER, CLUSTER, (action,))


def sent_to(topics: Iterable[str]) -> list[Need]:
    """What a send needs, by the topics of its messages as stored."""
    return [topic(name, *PUB) for name in sorted(set(topics))]


def of_settings(settings: v2.Settings, stored: Stored) -> list[Need]:
    """What a client that opens Telemetry with these needs."""
    if settings.WhichOneof("pub_sub") == "publishing":
        return sent_to(stored(one) for one in settings.publishing.topics)
    subscription = settings.subscription
    topics = {stored(entry.topic) for entry in subscription.subscriptions}
    needs = [topic(name, *SUB) for name in sorted(topics)]
    return [group(stored(subscription.group), *SUB), *needs]


def _send(request: Any, stored: Stored) -> list[Need]:
    return sent_to(stored(message.topic) for message in request.messages)


def _publish(request: Any, stored: Stored) -> list[Need]:
    return [topic(stored(request.topic), *PUB)]


def _group_if_named(request: Any, stored: Stored) -> list[Need]:
    name = stored(request.group) if request.group.name else ""
    return [group(name, *SUB)] if name else []


def _consume(*actions: Action) -> Row:
    """The group, and the topic."""

    def row(request: Any, stored: Stored) -> list[Need]:
        asked = request.topic if _has(request, "topic") else request.message_queue.topic
        return [group(stored(request.group), *actions), topic(stored(asked), *actions)]

    return row


def _has(request: Any, field: str) -> bool:
    return field in request.DESCRIPTOR.fields_by_name


def _route(request: Any, stored: Stored) -> list[Need]:
    return [topic(stored(request.topic), Action.PUB, Action.SUB)]


def _offset_of_queue(request: Any, stored: Stored) -> list[Need]:
    return [topic(stored(request.message_queue.topic), *READ_OFFSET)]


def _locks(request: Any, stored: Stored) -> list[Need]:
    topics = {stored(queue.topic) for queue in request.message_queues}
    return [group(stored(request.group), *SUB), *(topic(name, *SUB) for name in sorted(topics))]


def _counts(request: Any, stored: Stored) -> list[Need]:
    """As to send and to receive what is counted."""
    own = [row for row in request.rows if not row.group.name]
    taken = [row for row in request.rows if row.group.name]
    return [
        *sent_to(stored(row.topic) for row in own),
        *(topic(name, *SUB) for name in sorted({stored(row.topic) for row in taken})),
        *(group(name, *SUB) for name in sorted({stored(row.group) for row in taken})),
    ]


def _nothing(request: Any, stored: Stored) -> list[Need]:
    """To be known suffices."""
    return []


def _on_topic(field: str, action: Action) -> Row:
    """Of an admin request whose field, a path, names a topic as stored; empty: any."""
    return lambda request, stored: [topic(_at(request, field), action)]


def _on_group(field: str, action: Action) -> Row:
    return lambda request, stored: [group(_at(request, field), action)]


def _on_cluster(action: Action) -> Row:
    return lambda request, stored: [cluster(action)]


def _at(request: Any, path: str) -> str:
    found = request
    for name in path.split("."):
        found = getattr(found, name)
    return str(found)


def _dead_letters(request: Any, stored: Stored) -> list[Need]:
    """With their bodies: what may read the topic they come from."""
    needs = [group(request.group, Action.GET)]
    return [*needs, topic(request.filter.topic, Action.GET)] if request.whole else needs


def _redrive(request: Any, stored: Stored) -> list[Need]:
    which = request.which
    needs = [group(which.group, Action.UPDATE)]
    return [*needs, topic(which.filter.topic, *PUB)] if request.to_topic else needs


def _redrive_to_topic(request: Any, stored: Stored) -> list[Need]:
    return [group(request.group, Action.UPDATE), topic(request.filter.topic, *PUB)]


def _find(request: Any, stored: Stored) -> list[Need]:
    return [topic(ANY_NAME if request.system else request.topic, Action.GET)]


def _test_access(request: Any, stored: Stored) -> list[Need]:
    """Everybody may ask what they may do themselves."""
    return [cluster(Action.GET)] if request.username else []


def _rebuild(request: Any, stored: Stored) -> list[Need]:
    return [cluster(Action.UPDATE if request.begin else Action.GET)]


ROWS: Final[dict[tuple[str, str], Row]] = {
    (MESSAGING, "QueryRoute"): _route,
    (MESSAGING, "Heartbeat"): _group_if_named,
    (MESSAGING, "SendMessage"): _send,
    (MESSAGING, "QueryAssignment"): _consume(*SUB),
    (MESSAGING, "ReceiveMessage"): _consume(*SUB),
    (MESSAGING, "AckMessage"): _consume(*SUB),
    (MESSAGING, "ForwardMessageToDeadLetterQueue"): _consume(*SUB),
    (MESSAGING, "PullMessage"): _consume(*SUB),
    (MESSAGING, "UpdateOffset"): _consume(*WRITE_OFFSET),
    (MESSAGING, "GetOffset"): _consume(*READ_OFFSET),
    (MESSAGING, "QueryOffset"): _offset_of_queue,
    (MESSAGING, "EndTransaction"): _publish,
    (MESSAGING, "RecallMessage"): _publish,
    (MESSAGING, "NotifyClientTermination"): _group_if_named,
    (MESSAGING, "ChangeInvisibleDuration"): _consume(*SUB),
    (MESSAGING, "SyncLiteSubscription"): _consume(*SUB),
    (CONSUMER, "Nack"): _consume(*SUB),
    (CONSUMER, "NackRuns"): _consume(*SUB),
    (CONSUMER, "AckRuns"): _consume(*SUB),
    (CONSUMER, "ExtendRuns"): _consume(*SUB),
    (CONSUMER, "EndPolls"): _nothing,
    (CONSUMER, "Pull"): _consume(*SUB),
    (CONSUMER, "Join"): _consume(*SUB),
    (CONSUMER, "FixStart"): _consume(*SUB),
    (CONSUMER, "SendBack"): _consume(*SUB),
    (CONSUMER, "LockQueues"): _locks,
    (CONSUMER, "ReceiveRecords"): _consume(*SUB),
    (CONSUMER, "ReportCounts"): _counts,
    (ADMIN, "CreateTopic"): _on_topic("topic.name", Action.CREATE),
    (ADMIN, "UpdateTopic"): _on_topic("name", Action.UPDATE),
    (ADMIN, "SpreadTopics"): _on_topic("name", Action.UPDATE),
    (ADMIN, "DeleteTopic"): _on_topic("name", Action.DELETE),
    (ADMIN, "ListTopics"): _on_cluster(Action.LIST),
    (ADMIN, "DescribeTopic"): _on_topic("name", Action.GET),
    (ADMIN, "CreateGroup"): _on_group("group.name", Action.CREATE),
    (ADMIN, "UpdateGroup"): _on_group("name", Action.UPDATE),
    (ADMIN, "DeleteGroup"): _on_group("name", Action.DELETE),
    (ADMIN, "ListGroups"): _on_cluster(Action.LIST),
    (ADMIN, "DescribeGroup"): _on_group("name", Action.GET),
    (ADMIN, "ListDeadLetters"): _dead_letters,
    (ADMIN, "RedriveDeadLetters"): _redrive_to_topic,
    (ADMIN, "Redrive"): _redrive,
    (ADMIN, "PurgeDeadLetters"): _on_group("group", Action.DELETE),
    (ADMIN, "ListTransactions"): _on_topic("topic", Action.GET),
    (ADMIN, "SettleTransaction"): _on_cluster(Action.UPDATE),
    (ADMIN, "FindMessages"): _find,
    (ADMIN, "GetMessage"): _find,
    (ADMIN, "ResetOffsets"): _on_group("group", Action.UPDATE),
    (ADMIN, "Explain"): _on_topic("topic", Action.GET),
    (ADMIN, "Inspect"): _on_cluster(Action.GET),
    (ADMIN, "SetPermission"): _on_cluster(Action.UPDATE),
    (ADMIN, "AcceptBroker"): _on_cluster(Action.UPDATE),
    (ADMIN, "ShowCluster"): _on_cluster(Action.GET),
    (ADMIN, "ShowReplicas"): _on_cluster(Action.GET),
    (ADMIN, "MovePrimary"): _on_cluster(Action.UPDATE),
    (ADMIN, "ExportSnapshot"): _on_cluster(Action.UPDATE),
    (ADMIN, "ExportStatus"): _on_cluster(Action.GET),
    (ADMIN, "RebuildQueue"): _rebuild,
    (ADMIN, "CreateUser"): _on_cluster(Action.UPDATE),
    (ADMIN, "UpdateUser"): _on_cluster(Action.UPDATE),
    (ADMIN, "RotateUser"): _on_cluster(Action.UPDATE),
    (ADMIN, "DeleteUser"): _on_cluster(Action.UPDATE),
    (ADMIN, "ListUsers"): _on_cluster(Action.GET),
    (ADMIN, "PutAcl"): _on_cluster(Action.UPDATE),
    (ADMIN, "DeleteAcl"): _on_cluster(Action.UPDATE),
    (ADMIN, "ListAcls"): _on_cluster(Action.GET),
    (ADMIN, "TestAccess"): _test_access,
    (ADMIN, "SetLimits"): _on_cluster(Action.UPDATE),
    (ADMIN, "ListLimits"): _on_cluster(Action.GET),
    (ADMIN, "ShowSettings"): _on_cluster(Action.GET),
    (ADMIN, "ListAuditLines"): _on_cluster(Action.GET),
    (ADMIN, "ListDelayed"): _on_topic("topic", Action.GET),
    (ADMIN, "PeekMessages"): _find,
}
"""By (service, RPC). Telemetry is looked at command by command (rpc/access/guard.py)."""
