"""Names that RocketMQ gives a meaning: retry topics, dead letters, system topics and groups; and
the names of their owners.

Source: RocketMQ KeyBuilder, MixAll, TopicValidator, PopAckConstants.
"""

import re
from typing import Final

from popmq_common.errors import IllegalGroup, IllegalOwner, IllegalTopic

RETRY_PREFIX: Final = "%RETRY%"
DEAD_LETTER_PREFIX: Final = "%DLQ%"
REVIVE_PREFIX: Final = "rmq_sys_REVIVE_LOG_"
REVIVE_GROUP: Final = "CID_RMQ_SYS_REVIVE_GROUP"
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
HALF_OP_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
GIVEN_UP_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
"""Half messages that nobody would settle."""
HALF_GROUP: Final = "CID_RMQ_SYS_TRANS"
WHEEL_GROUP: Final = "CID_RMQ_SYS_POPMQ_WHEEL"
"""Ours: how far the timer's topic was looked through for leases
(engine/startup/parked_leases.py)."""
PASSES_GROUP: Final = "CID_RMQ_SYS_POPMQ_PASSES"
"""Ours: from where on the journal tells how groups go over messages
(broker/core/groups/passing.py)."""
SYSTEM_TOPIC_PREFIX: Final = "rmq_sys_"
SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"
TOPIC_CHARS_MAX: Final = 127  # what RocketMQ's clients and brokers take
GROUP_CHARS_MAX: Final = 120  # leaves room for the prefixes of retry topics
OWNER_CHARS_MAX: Final = 64
TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
"""Messages that wait for their time, any delay."""
LEVELS_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
"""Messages that wait for one of 18 delays, a queue for each."""
CATALOG_TOPIC: Final = "rmq_sys_popmq_catalog"
"""Ours: changes of topics and groups (broker/core/catalog/catalog.py)."""
COUNTS_TOPIC: Final = "rmq_sys_popmq_counts"
"""Ours: what clients have counted, for the audit (popmq_common/records/count_report.py)."""
FORCED_TOPIC: Final = "rmq_sys_popmq_forced"
"""Ours: primaries that an operator has forced (broker/engine/replication/forced_record.py)."""
SYSTEM_TOPICS: Final = frozenset(
    {
        "TBW102",
        LEVELS_TOPIC,
        "BenchmarkTest",
        HALF_TOPIC,
        "RMQ_SYS_TRACE_TOPIC",
        HALF_OP_TOPIC,
        GIVEN_UP_TOPIC,
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
        "CHECKPOINT_TOPIC",
    }
)
MESSAGE_TYPES: Final = ("NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED")
_LEGAL = re.compile(r"[%|a-zA-Z0-9_-]+")
_LEGAL_OWNER = re.compile(rf"[a-zA-Z0-9._@+-]{{1,{OWNER_CHARS_MAX}}}")


def retry_topic(group: str, topic: str) -> str:
    """The topic that holds what `group` must get again of `topic` (RocketMQ's V1 form)."""
    return f"{RETRY_PREFIX}{group}_{topic}"


def classic_retry_topic(group: str) -> str:
    """The topic of what consumers that pull have sent back, whatever topic it is of."""
    return f"{RETRY_PREFIX}{group}"


def dead_letter_topic(group: str) -> str:
    return f"{DEAD_LETTER_PREFIX}{group}"


def revive_topic(cluster: str) -> str:
    return f"{REVIVE_PREFIX}{cluster}"


def is_system_topic(topic: str) -> bool:
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_TOPIC_PREFIX)


def is_user_topic(topic: str) -> bool:
    return not is_system_topic(topic) and not topic.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX))


def check_topic(topic: str) -> None:
    """Raises `IllegalTopic` unless clients may use this name."""
    if not topic.strip():
        raise IllegalTopic(topic="''", reason="it is blank")
    if len(topic) > TOPIC_CHARS_MAX:
        raise IllegalTopic(topic=topic, reason=f"longer than {TOPIC_CHARS_MAX} characters")
    if not _LEGAL.fullmatch(topic):
        raise IllegalTopic(topic=topic, reason="only letters, digits, %, |, - and _ are allowed")
    if is_system_topic(topic):
        raise IllegalTopic(topic=topic, reason="it is a system topic")


def check_group(group: str) -> None:
    """Raises `IllegalGroup` unless clients may use this name."""
    if not group.strip():
        raise IllegalGroup(group="''", reason="it is blank")
    if len(group) > GROUP_CHARS_MAX:
        raise IllegalGroup(group=group, reason=f"longer than {GROUP_CHARS_MAX} characters")
    if not _LEGAL.fullmatch(group):
        raise IllegalGroup(group=group, reason="only letters, digits, %, |, - and _ are allowed")
    if group.startswith(SYSTEM_GROUP_PREFIX):
        raise IllegalGroup(group=group, reason="it is a system group")


def check_owner(owner: str) -> None:
    """Raises `IllegalOwner` unless a topic or group may belong to it."""
    if not _LEGAL_OWNER.fullmatch(owner):
        raise IllegalOwner(owner=owner)
