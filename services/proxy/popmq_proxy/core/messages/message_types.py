"""Which messages there are, and which of them a topic takes: two tables.

    what is set                                     the message is
    ----------------------------------------------  --------------
    nothing of these                                NORMAL
    message_group                                   FIFO
    delivery_timestamp                              DELAY
    message_type = TRANSACTION                      TRANSACTION
    lite_topic                                      LITE
    priority                                        PRIORITY
    two or more                                     refused

    the topic is     it takes
    ---------------  -------------------------------------------
    NORMAL           NORMAL
    FIFO             FIFO
    DELAY            DELAY, also when the time is over already
    TRANSACTION      TRANSACTION
    MIXED            these four; a topic made on first use is such a one
    of another type  nothing

A message may leave its type unspecified; if it names one it must be the one it has by its fields.
(A PRIORITY message without a priority is a NORMAL one.) LITE and PRIORITY messages are not served.

Source: RocketMQ TopicMessageType, DefaultTopicMessageTypeValidator. Differs: RocketMQ takes the
first type that fits, in the order TRANSACTION, DELAY, FIFO, and does the rest of it or not.
"""

from typing import Final, Literal

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq_common.errors import MessagesCorrupted, MessageTypeConflict, NotServed

_Field = Literal["message_group", "delivery_timestamp", "lite_topic", "priority"]
_FIELDS: Final[dict[_Field, str]] = {
    "message_group": "FIFO",
    "delivery_timestamp": "DELAY",
    "lite_topic": "LITE",
    "priority": "PRIORITY",
}
"""Each makes a message one of a kind of its own."""
TYPES: Final[dict[str, "v2.MessageType.ValueType"]] = {
    "NORMAL": v2.NORMAL,
    "FIFO": v2.FIFO,
    "DELAY": v2.DELAY,
    "TRANSACTION": v2.TRANSACTION,
}
"""The ones that can be stored."""
TAKES: Final[dict[str, tuple[str, ...]]] = {
    "NORMAL": ("NORMAL",),
    "FIFO": ("FIFO",),
    "DELAY": ("DELAY",),
    "TRANSACTION": ("TRANSACTION",),
    "MIXED": ("NORMAL", "FIFO", "DELAY", "TRANSACTION"),
}
_MAY_SAY: Final[dict[str, frozenset[int]]] = {
    "NORMAL": frozenset({v2.MESSAGE_TYPE_UNSPECIFIED, v2.NORMAL, v2.PRIORITY}),
    "FIFO": frozenset({v2.MESSAGE_TYPE_UNSPECIFIED, v2.FIFO}),
    "DELAY": frozenset({v2.MESSAGE_TYPE_UNSPECIFIED, v2.DELAY}),
    "TRANSACTION": frozenset({v2.TRANSACTION}),
    "LITE": frozenset({v2.MESSAGE_TYPE_UNSPECIFIED, v2.LITE}),
    "PRIORITY": frozenset({v2.MESSAGE_TYPE_UNSPECIFIED, v2.PRIORITY}),
}


def message_type(system: v2.SystemProperties) -> str:
    """The type a message has by its content. Raises `MessagesCorrupted`."""
    said = system.message_type
    kind, field = ("TRANSACTION" if said == v2.TRANSACTION else ""), ""
    has = system.HasField
    for name, its_kind in _FIELDS.items():
        if has(name):
            if kind:
                first = field.replace("_", " ") or "message type TRANSACTION"
                second = name.replace("_", " ")
                reason = f"a message with a {first} cannot have a {second} as well"
                raise MessagesCorrupted(reason=f"{reason}; send it as {kind} or as {its_kind}")
            kind, field = its_kind, name
    kind = kind or "NORMAL"
    if said not in _MAY_SAY[kind]:
        told = v2.MessageType.Name(said) if said in v2.MessageType.values() else str(said)
        raise MessagesCorrupted(reason=f"it says {told}, but by its fields it is a {kind} message")
    return kind


def check_type(topic: str, topic_type: str, kind: str) -> None:
    """Raises `MessageTypeConflict`, `NotServed`."""
    if kind in TAKES.get(topic_type, ()):
        return
    if kind not in TYPES:
        raise NotServed(what=f"A {kind} message")
    raise MessageTypeConflict(topic=topic, topic_type=topic_type, message_type=kind)


def accepted(topic_type: str) -> list["v2.MessageType.ValueType"]:
    """As a route tells it."""
    takes = TAKES.get(topic_type)
    return [TYPES[kind] for kind in takes] if takes else [v2.MESSAGE_TYPE_UNSPECIFIED]
