"""T48, T49: every type of topic × every set of fields × everything a message can say it is.

The expected answers are written down as RocketMQ's users know them, not computed from the table.
"""

from collections.abc import Iterator
from itertools import combinations, product
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq_common.errors import MessagesCorrupted, MessageTypeConflict, NotServed, PopMQError
from popmq_proxy.core.messages.message_types import accepted, check_type, message_type

GROUP: dict[str, Any] = {"message_group": "line"}
DUE: dict[str, Any] = {"delivery_timestamp": Timestamp(seconds=4_000_000_000)}
TRANSACTION: dict[str, Any] = {"message_type": v2.TRANSACTION}
LITE: dict[str, Any] = {"lite_topic": "l"}
PRIORITY: dict[str, Any] = {"priority": 1}
FIELDS = [GROUP, DUE, LITE, PRIORITY]
ONE_KIND: dict[str, tuple[dict[str, Any], list[int]]] = {
    "NORMAL": ({}, [v2.MESSAGE_TYPE_UNSPECIFIED, v2.NORMAL, v2.PRIORITY]),
    "FIFO": (GROUP, [v2.MESSAGE_TYPE_UNSPECIFIED, v2.FIFO]),
    "DELAY": (DUE, [v2.MESSAGE_TYPE_UNSPECIFIED, v2.DELAY]),
    "TRANSACTION": (TRANSACTION, [v2.TRANSACTION]),
    "LITE": (LITE, [v2.MESSAGE_TYPE_UNSPECIFIED, v2.LITE]),
    "PRIORITY": (PRIORITY, [v2.MESSAGE_TYPE_UNSPECIFIED, v2.PRIORITY]),
}
"""Kind → the fields that make it, and what it may say it is."""
OK = {
    ("NORMAL", "NORMAL"),
    ("FIFO", "FIFO"),
    ("DELAY", "DELAY"),
    ("TRANSACTION", "TRANSACTION"),
    *product(["MIXED"], ["NORMAL", "FIFO", "DELAY", "TRANSACTION"]),
}
"""(topic, message)"""


def all_messages() -> Iterator[tuple[v2.SystemProperties, set[str]]]:
    """Each set of fields, saying each type there is; the kinds that its fields make it."""
    for count in range(5):
        for fields in combinations(FIELDS, count):
            for said in v2.MessageType.values():
                values: dict[str, Any] = {}
                for field in fields:
                    values |= field
                kinds = {kind for kind, (own, _) in ONE_KIND.items() if own in fields}
                if said == v2.TRANSACTION:
                    kinds.add("TRANSACTION")
                yield v2.SystemProperties(**{**values, "message_type": said}), kinds or {"NORMAL"}


def judged(topic_type: str, system: v2.SystemProperties) -> str | type[PopMQError]:
    try:
        kind = message_type(system)
        check_type("orders", topic_type, kind)
    except PopMQError as error:
        return type(error)
    return kind


@pytest.mark.parametrize(
    "topic_type", ["NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED", "UNSPECIFIED", "LITE"]
)
def test_t48_the_whole_matrix(topic_type: str) -> None:
    count = 0
    for system, kinds in all_messages():
        count += 1
        expected: str | type[PopMQError]
        (kind, *more) = sorted(kinds)
        if more or system.message_type not in ONE_KIND[kind][1]:
            expected = MessagesCorrupted
        elif kind in ("LITE", "PRIORITY"):
            expected = NotServed
        elif (topic_type, kind) in OK:
            expected = kind
        else:
            expected = MessageTypeConflict
        assert judged(topic_type, system) == expected, (topic_type, system)
    assert count == 16 * len(v2.MessageType.values())


def test_t48_two_kinds_are_told_by_their_fields() -> None:
    with pytest.raises(MessagesCorrupted, match="message group cannot have a delivery timestamp"):
        message_type(v2.SystemProperties(**GROUP, **DUE))
    with pytest.raises(MessagesCorrupted, match="TRANSACTION cannot have a delivery timestamp"):
        message_type(v2.SystemProperties(**TRANSACTION, **DUE))


def test_t49_the_error_names_topic_both_types_and_the_command() -> None:
    for topic_type, (kind, _) in product(["NORMAL", "UNSPECIFIED"], list(ONE_KIND.items())[1:4]):
        with pytest.raises(MessageTypeConflict) as refused:
            check_type("orders", topic_type, kind)
        for part in ("orders", topic_type, kind, f"popmq topic create NAME --type {kind}"):
            assert part in str(refused.value)


def test_a_route_tells_what_the_topic_takes() -> None:
    for topic_type in ("NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED"):
        names = {v2.MessageType.Name(number) for number in accepted(topic_type)}
        assert names == {kind for topic, kind in OK if topic == topic_type}
    assert accepted("UNSPECIFIED") == [v2.MESSAGE_TYPE_UNSPECIFIED]
