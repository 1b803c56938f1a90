"""docs/limits.md says what the code has: each number, each variable, each status."""

import inspect
import re
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq._core.messages.convert import UNPACKED_BYTES_MAX
from popmq.consumer.consumer import BATCH_MAX as SDK_RECEIVE_MAX
from popmq.producer.producer import Producer
from popmq_broker.config import BrokerConfig
from popmq_broker.core.catalog.tables import MAX_ATTEMPTS_DEFAULT
from popmq_broker.core.filters.sql_filter import CHARACTERS_MAX as SQL_CHARACTERS_MAX
from popmq_broker.core.groups.members import MEMBERS_MAX
from popmq_broker.core.leases.nack import REASON_CHARS_MAX
from popmq_broker.core.retries.deliveries import MAX_DELIVERIES_DEFAULT
from popmq_broker.core.retries.retry_policy import DELAY_MS_MAX, DELAYS_MAX
from popmq_broker.engine.catalog.topics import QUEUES_MAX
from popmq_broker.store.files.config import StoreConfig
from popmq_common import errors as e
from popmq_common.records.names import GROUP_CHARS_MAX, OWNER_CHARS_MAX, TOPIC_CHARS_MAX
from popmq_common.records.properties import SENT_BYTES_MAX
from popmq_common.units import KiB, MiB
from popmq_nameserver.core.route_table import BROKERS_MAX
from popmq_proxy.config import ProxyConfig
from popmq_proxy.core.access.model import NAME_MAX, SECRETS_MAX
from popmq_proxy.core.access.table import ENTRIES_MAX as POLICY_ENTRIES_MAX
from popmq_proxy.core.access.table import LIMITS_MAX, TABLE_BYTES_MAX, USERS_MAX
from popmq_proxy.core.messages.status import CODES
from popmq_proxy.core.messages.validate import MESSAGE_GROUP_BYTES_MAX, MESSAGE_ID_BYTES_MAX
from popmq_proxy.front.rpcs import ACKS_BYTES_MAX, SMALL_REQUEST_BYTES_MAX
from popmq_proxy.rpc.messages.by_broker import ENTRIES_MAX
from popmq_proxy.rpc.messages.receive import BATCH_MAX, WHOLE_MAX

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "limits.md").read_text()
FIXED = "fixed"
DAYS_FROM_H = 72
TOO_MANY = e.TooManyRequests


class Row(NamedTuple):
    what: str
    limit: str
    change: str
    beyond: str


class Limit(NamedTuple):
    shown: str
    change: str = FIXED
    """What the third column has to name."""
    beyond: type[e.PopMQError] | str = ""
    """The error that it is, or words of the last column."""


def count(number: int, of: str = "") -> str:
    return f"{number:,}{of}"


def size(number: int) -> str:
    for unit, name in ((MiB, "MiB"), (KiB, "KiB")):
        if number % unit == 0:
            return f"{number // unit} {name}"
    return f"{number:,} bytes"


def time(number_ms: int) -> str:
    hours, rest_ms = divmod(number_ms, 3_600_000)
    if rest_ms:
        return f"{number_ms // 1000} s"
    return f"{hours // 24} days" if hours >= DAYS_FROM_H else f"{hours} h"


def proxy(name: str, beyond: type[e.PopMQError] | str = "") -> Limit:
    return Limit(_default(ProxyConfig, name), f"`POPMQ_PROXY_{name.upper()}`", beyond)


def broker(name: str, beyond: type[e.PopMQError] | str = TOO_MANY) -> Limit:
    return Limit(_default(BrokerConfig, name), f"`POPMQ_BROKER_{name.upper()}`", beyond)


def _defaults(config: type[Any]) -> dict[str, Any]:
    return {field.name: field.default for field in fields(config)}


def _default(config: type[Any], name: str) -> str:
    """As the page shows it; its name says what it counts."""
    value: Any = _defaults(config)[name]
    if "_percent" in name:
        return f"{value} %"
    form = size if "bytes" in name else time if "_ms" in name else count
    return form(value)


def producer(name: str) -> Limit:
    value = inspect.signature(Producer.__init__).parameters[name].default
    return Limit(size(value) if "bytes" in name else count(value), f"`{name}=`")


EXHAUSTED = "gRPC RESOURCE_EXHAUSTED"
STORE = _defaults(StoreConfig)
LIMITS = {
    "body": proxy("body_bytes_max", e.MessageTooLarge),
    "body, at least": Limit("1 byte", FIXED, e.MessageBodyEmpty),
    "user properties": proxy("properties_count_max", e.PropertiesTooLarge),
    "names and values of user properties, tag and keys together": proxy(
        "properties_bytes_max", e.PropertiesTooLarge
    ),
    "the same, with the properties that the server adds": Limit(
        size(SENT_BYTES_MAX), FIXED, e.PropertiesTooLarge
    ),
    "message group": Limit(size(MESSAGE_GROUP_BYTES_MAX), FIXED, e.IllegalMessageGroup),
    "message id": Limit(size(MESSAGE_ID_BYTES_MAX), FIXED, e.IllegalMessageId),
    "delay": proxy("delay_ms_max", e.IllegalDeliveryTime),
    "a compressed body, unpacked by the SDK": Limit(size(UNPACKED_BYTES_MAX)),
    "messages in one SendMessage": proxy("send_messages_max", e.MessagesCorrupted),
    "a SendMessage as a whole": proxy("request_bytes_max", EXHAUSTED),
    "any other request as a whole": Limit(size(SMALL_REQUEST_BYTES_MAX), FIXED, EXHAUSTED),
    "an AckMessage, AckRuns, ExtendRuns or NackRuns as a whole": Limit(
        size(ACKS_BYTES_MAX), FIXED, EXHAUSTED
    ),
    "messages of one ReceiveMessage": Limit(count(BATCH_MAX)),
    "messages of one receive of the SDK": Limit(count(min(WHOLE_MAX, SDK_RECEIVE_MAX))),
    "messages in one AckMessage, AckRuns, ExtendRuns or NackRuns": Limit(
        count(ENTRIES_MAX), FIXED, e.BadRequest
    ),
    "characters of a SQL filter": Limit(count(SQL_CHARACTERS_MAX), FIXED, e.IllegalFilter),
    "characters of a reason (nack, reject)": Limit(count(REASON_CHARS_MAX), FIXED, "cut"),
    "the SDK's producer: messages in a request": producer("batch_messages_max"),
    "the SDK's producer: bytes in a request": producer("batch_bytes_max"),
    "the SDK's producer: messages that are not answered yet": producer("held_messages_max"),
    "the SDK's producer: bytes of such messages": producer("held_bytes_max"),
    "messages of one queue that a group has in flight": broker("in_flight_max", e.TooManyInFlight),
    "invisible time, at least": proxy("invisible_ms_min", e.IllegalInvisibleTime),
    "invisible time": proxy("invisible_ms_max", e.IllegalInvisibleTime),
    "how long a client's heartbeats renew a lease": broker("renewed_lease_ms_max", "redelivered"),
    "how long a receive waits (long poll)": proxy("poll_ms_max"),
    "receives that wait at a broker": broker("waiting_polls_max"),
    "those of one group": broker("waiting_polls_per_group_max"),
    "consumers of a group that pulls": Limit(count(MEMBERS_MAX), FIXED, TOO_MANY),
    "attempts": Limit(count(MAX_ATTEMPTS_DEFAULT), "`--max-attempts`"),
    "hand-outs, counted or not": Limit(count(MAX_DELIVERIES_DEFAULT), "`--max-hand-outs`"),
    "delays in the list of a retry policy": Limit(count(DELAYS_MAX), FIXED, e.BadRequest),
    "the longest delay of a retry policy": Limit(time(DELAY_MS_MAX), FIXED, e.BadRequest),
    "messages that wait for their time": broker("timers_max"),
    "half messages that are not settled": broker("half_messages_max", e.TooManyTransactions),
    "checks of a half message: how often producers are asked about it": broker(
        "transaction_checks_max", "given up"
    ),
    "age of a half message": broker("transaction_age_ms_max", "given up"),
    "how long a sender may delay the first check": proxy(
        "transaction_recovery_ms_max", e.IllegalRecoveryTime
    ),
    "characters of a topic's name": Limit(count(TOPIC_CHARS_MAX), FIXED, e.IllegalTopic),
    "characters of a group's name": Limit(count(GROUP_CHARS_MAX), FIXED, e.IllegalGroup),
    "characters of an owner: letters, digits, and `. - _ @ +`": Limit(
        count(OWNER_CHARS_MAX), FIXED, e.IllegalOwner
    ),
    "queues of a topic on each broker": Limit(count(QUEUES_MAX), FIXED, e.IllegalQueueCount),
    "queues on each broker, of a topic that is created when it is first used": proxy(
        "create_topic_queues"
    ),
    "topics": broker("topics_max"),
    "retry topics, dead letters, the broker's own topics": broker("inner_topics_max"),
    "groups": broker("groups_max"),
    "topics of a broker, until which first use creates more": broker(
        "first_use_topics_max", e.FirstUseLimit
    ),
    "groups of a broker, until which first use creates more": broker(
        "first_use_groups_max", e.FirstUseLimit
    ),
    "brokers of a nameserver": Limit(count(BROKERS_MAX)),
    "connections": proxy("connections_max"),
    "streams of a connection, at first": proxy("streams_first"),
    "streams of a connection": proxy("streams_max", "REFUSED_STREAM"),
    "RPCs under way": proxy("rpcs_max", EXHAUSTED),
    "requests that have begun to arrive and are not complete": proxy(
        "arriving_max", "REFUSED_STREAM"
    ),
    "how long a request may take to arrive": proxy("arrival_ms_max"),
    "bytes of answers that clients do not read": proxy("unread_bytes_max", EXHAUSTED),
    "headers of a request": proxy("header_bytes_max"),
    "bytes of requests that are large or not complete": proxy("received_bytes_max", EXHAUSTED),
    "frames of a connection, per second, that begin no request (pings, resets, tiny pieces)": proxy(
        "idle_frames_max"
    ),
    "such frames of all connections from one address": proxy("address_idle_frames_max"),
    "clients whose settings are remembered": proxy("sessions_max"),
    "users": Limit(count(USERS_MAX), FIXED, TOO_MANY),
    "entries of a user's policy": Limit(count(POLICY_ENTRIES_MAX), FIXED, TOO_MANY),
    "users, topics and others with limits of their own": Limit(count(LIMITS_MAX), FIXED, TOO_MANY),
    "bytes of all users, policies and limits": Limit(size(TABLE_BYTES_MAX), FIXED, TOO_MANY),
    "secrets of a user": Limit(count(SECRETS_MAX), FIXED, "stops working"),
    "characters of a user's name": Limit(count(NAME_MAX), FIXED, e.IllegalUser),
    "free space, at least": broker("disk_reserve_bytes", e.DiskFull),
    "use of the disk": broker("disk_refuse_percent", e.DiskFull),
    "bytes that wait for the disk": Limit(size(STORE["unsynced_bytes_max"]), FIXED, TOO_MANY),
    "how long messages are kept, read or not": broker("retention_ms", "deleted"),
}
ROWS = [Row(*found) for found in re.findall(r"^\| (.*) \| (.*) \| (.*) \| (.*?) ?\|$", PAGE, re.M)]
SHOWN = {row.what: row for row in ROWS if row.what not in ("what", "---")}


def test_the_page_has_every_limit_once() -> None:
    assert SHOWN.keys() == LIMITS.keys()
    assert len(SHOWN) == len([row for row in ROWS if row.what not in ("what", "---")])


@pytest.mark.parametrize("what", LIMITS)
def test_a_row_says_what_the_code_has(what: str) -> None:
    row, limit = SHOWN[what], LIMITS[what]
    assert row.limit == limit.shown
    assert limit.change in row.change
    expected = limit.beyond
    if not isinstance(expected, str):
        expected = v2.Code.Name(CODES[expected])
    assert expected in row.beyond


def test_a_status_that_a_row_names_is_that_of_its_error() -> None:
    """A row whose error is not named above names no status."""
    for what, row in SHOWN.items():
        if isinstance(LIMITS[what].beyond, str) and not LIMITS[what].beyond:
            assert not re.search("[A-Z]{3}", row.beyond), what
