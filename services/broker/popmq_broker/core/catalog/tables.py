"""Topic and group tables ⇄ RocketMQ's `topics.json` and `subscriptionGroup.json`.

    topics.json             {"dataVersion": V, "topicConfigTable": {name: {topicName, perm,
                            readQueueNums, writeQueueNums, attributes {"+message.type"}, …}}}
    subscriptionGroup.json  {"dataVersion": V, "subscriptionGroupTable": {name: {groupName,
                            consumeMessageOrderly, retryMaxTimes, attributes, groupRetryPolicy
                            (core/retries/retry_policy.py), …}}}

A group's `max_attempts` counts deliveries, RocketMQ's `retryMaxTimes` counts the ones after the
first: the file holds max_attempts − 1, so both mean the same.

Source: RocketMQ TopicConfig, TopicAttributes, SubscriptionGroupConfig, ConfigManager.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeVar

from popmq_broker.core.retries.deliveries import MAX_DELIVERIES_DEFAULT
from popmq_broker.core.retries.retry_policy import TABLE, RetryPolicy
from popmq_broker.core.retries.retry_policy import from_json as policy_from_json
from popmq_broker.core.retries.retry_policy import to_json as policy_to_json
from popmq_common.errors import Corrupt

PERM_READ: Final = 4
PERM_WRITE: Final = 2
PERM_BOTH: Final = PERM_READ | PERM_WRITE
MESSAGE_TYPE: Final = "message.type"
ORDER_CONF: Final = "popmq.order.conf"
_ALSO_ORDER_CONF: Final = "popmq.fifo_queue.conf"  # what versions of some days wrote
DRAINS: Final = "popmq.drains"
CONSUME_FROM: Final = "popmq.consume.from"
CONSUME_FROM_MS: Final = "popmq.consume.from.ms"
LOCK_HOLD: Final = "popmq.lock.hold.ms"
MAX_HAND_OUTS: Final = "popmq.max.hand.outs"
OWNER: Final = "popmq.owner"
MAX_ATTEMPTS_DEFAULT: Final = 16


class ConsumeFrom(StrEnum):
    """Where a group starts in a queue that it has no offset for."""

    LAST = "LAST"  # the queue's end at the group's first receive
    FIRST = "FIRST"  # the oldest message there is
    TIME = "TIME"  # the first message stored at a time or later


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    name: str
    read_queues: int
    write_queues: int
    perm: int = PERM_BOTH
    message_type: str = "NORMAL"
    order_conf: str = ""
    """Where message groups are, "broker-a:8;broker-b:8"; empty: at the brokers there are."""
    drains: bool = False
    """Its last queues take no more messages, and go when they hold none
    (core/catalog/topic_change.py)."""
    owner: str = ""
    """The team that it belongs to; empty: nobody's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    name: str
    fifo: bool = False
    max_attempts: int = MAX_ATTEMPTS_DEFAULT
    consume_from: ConsumeFrom = ConsumeFrom.LAST
    consume_from_ms: int = 0
    """With TIME: since 1970."""
    retry_policy: RetryPolicy = TABLE
    max_hand_outs: int = MAX_DELIVERIES_DEFAULT
    """Deliveries, counted or not, before what is given back uncounted is dead."""
    lock_hold_ms: int = 0
    """How long a silent consumer keeps a queue that it pulls; 0: no access lock."""
    owner: str = ""
    """As a topic's."""


Config = TypeVar("Config", TopicConfig, GroupConfig)
Fields = dict[str, Any]


def encode_topics(topics: Mapping[str, TopicConfig], version: int, now_ms: int) -> str:
    rows = {name: topic_fields(topic) for name, topic in topics.items()}
    return _dump({"dataVersion": _version(version, now_ms)}, "topicConfigTable", rows)


def decode_topics(text: str, *, where: str) -> tuple[dict[str, TopicConfig], int]:
    """(topics by name, version). Raises `Corrupt` naming `where`."""
    return _decode(text, "topicConfigTable", topic_of, where)


def encode_groups(groups: Mapping[str, GroupConfig], version: int, now_ms: int) -> str:
    rows = {name: group_fields(group) for name, group in groups.items()}
    head = {"dataVersion": _version(version, now_ms), "forbiddenTable": {}}
    return _dump(head, "subscriptionGroupTable", rows)


def decode_groups(text: str, *, where: str) -> tuple[dict[str, GroupConfig], int]:
    """(groups by name, version). Raises `Corrupt` naming `where`."""
    return _decode(text, "subscriptionGroupTable", group_of, where)


def topic_fields(topic: TopicConfig) -> Fields:
    """As RocketMQ has it in topics.json."""
    return {
        "attributes": {
            MESSAGE_TYPE: topic.message_type,
            **({ORDER_CONF: topic.order_conf} if topic.order_conf else {}),
            **({DRAINS: "true"} if topic.drains else {}),
            **({OWNER: topic.owner} if topic.owner else {}),
        },
        "order": False,
        "perm": topic.perm,
        "readQueueNums": topic.read_queues,
        "topicFilterType": "SINGLE_TAG",
        "topicName": topic.name,
        "topicSysFlag": 0,
        "writeQueueNums": topic.write_queues,
    }


def topic_of(fields: Fields) -> TopicConfig:
    """Raises `KeyError`, `TypeError`, `ValueError`, `AttributeError` for what is no topic."""
    attributes = fields.get("attributes") or {}
    return TopicConfig(
        name=str(fields["topicName"]),
        read_queues=int(fields["readQueueNums"]),
        write_queues=int(fields["writeQueueNums"]),
        perm=int(fields["perm"]),
        message_type=str(attributes.get(MESSAGE_TYPE, "NORMAL")),
        order_conf=str(attributes.get(ORDER_CONF) or attributes.get(_ALSO_ORDER_CONF, "")),
        drains=attributes.get(DRAINS) == "true",
        owner=str(attributes.get(OWNER, "")),
    )


def group_fields(group: GroupConfig) -> Fields:
    """As RocketMQ has it in subscriptionGroup.json."""
    return {
        "attributes": _group_attributes(group),
        "brokerId": 0,
        "consumeBroadcastEnable": True,
        "consumeEnable": True,
        "consumeFromMinEnable": True,
        "consumeMessageOrderly": group.fifo,
        "consumeTimeoutMinute": 15,
        "groupName": group.name,
        "groupRetryPolicy": policy_to_json(group.retry_policy),
        "groupSysFlag": 0,
        "notifyConsumerIdsChangedEnable": True,
        "retryMaxTimes": group.max_attempts - 1,
        "retryQueueNums": 1,
        "whichBrokerWhenConsumeSlowly": 1,
    }


def _group_attributes(group: GroupConfig) -> dict[str, str]:
    """Those that are not as for any group."""
    found = {CONSUME_FROM: group.consume_from.value}
    if group.consume_from_ms:
        found[CONSUME_FROM_MS] = str(group.consume_from_ms)
    if group.lock_hold_ms:
        found[LOCK_HOLD] = str(group.lock_hold_ms)
    if group.max_hand_outs != MAX_DELIVERIES_DEFAULT:
        found[MAX_HAND_OUTS] = str(group.max_hand_outs)
    if group.owner:
        found[OWNER] = group.owner
    return found


def group_of(fields: Fields) -> GroupConfig:
    """Raises `KeyError`, `TypeError`, `ValueError`, `AttributeError` for what is no group."""
    attributes = fields.get("attributes") or {}
    return GroupConfig(
        name=str(fields["groupName"]),
        fifo=bool(fields.get("consumeMessageOrderly", False)),
        max_attempts=int(fields.get("retryMaxTimes", MAX_ATTEMPTS_DEFAULT - 1)) + 1,
        consume_from=ConsumeFrom(attributes.get(CONSUME_FROM, "LAST")),
        consume_from_ms=int(attributes.get(CONSUME_FROM_MS, 0)),
        retry_policy=policy_from_json(fields.get("groupRetryPolicy")),
        max_hand_outs=int(attributes.get(MAX_HAND_OUTS, MAX_DELIVERIES_DEFAULT)),
        lock_hold_ms=int(attributes.get(LOCK_HOLD, 0)),
        owner=str(attributes.get(OWNER, "")),
    )


def _decode(
    text: str, key: str, of: Callable[[Fields], Config], where: str
) -> tuple[dict[str, Config], int]:
    fields = _load(text, where)
    try:
        rows = [of(raw) for raw in fields[key].values()]
        return {row.name: row for row in rows}, _counter(fields)
    except (KeyError, TypeError, ValueError, AttributeError) as wrong:
        raise Corrupt(path=where, offset=0, reason=f"no {key}: {wrong!r}") from wrong


def _version(counter: int, now_ms: int) -> dict[str, int]:
    return {"counter": counter, "stateVersion": 0, "timestamp": now_ms}


def _counter(fields: dict[str, Any]) -> int:
    return int((fields.get("dataVersion") or {}).get("counter", 0))


def _dump(head: Fields, table: str, rows: Mapping[str, Fields]) -> str:
    """A line for each row: with `indent`, Python's encoder takes ten times as long."""
    lines = [f" {json.dumps(name)}: {_TO_JSON(value)}," for name, value in head.items()]
    body = ",\n".join(f"  {json.dumps(name)}: {_TO_JSON(rows[name])}" for name in sorted(rows))
    return "\n".join(["{", *lines, f" {json.dumps(table)}: {{", body, " }", "}", ""])


_TO_JSON: Final = json.JSONEncoder(sort_keys=True).encode


def _load(text: str, where: str) -> dict[str, Any]:
    try:
        fields = json.loads(text)
    except ValueError as wrong:
        raise Corrupt(path=where, offset=0, reason=f"no JSON: {wrong}") from wrong
    if not isinstance(fields, dict):
        raise Corrupt(path=where, offset=0, reason="no JSON object")
    return fields
