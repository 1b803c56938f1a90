"""Settings of topics and groups that are changed one by one; the others stay as they are."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from popmq_broker.core.catalog.tables import GroupConfig, TopicConfig
from popmq_common.errors import BadRequest

_TOPIC: Final = {
    "message_type": ("message_type",),
    "queues": ("read_queues", "write_queues", "drains"),
    "order_conf": ("order_conf",),
    "owner": ("owner",),
}
_GROUP: Final = {
    "fifo": ("fifo",),
    "max_attempts": ("max_attempts",),
    "max_hand_outs": ("max_hand_outs",),
    "consume_from": ("consume_from", "consume_from_ms"),
    "retry_policy": ("retry_policy",),
    "lock_hold_ms": ("lock_hold_ms",),
    "owner": ("owner",),
}


def changed_topic(there: TopicConfig, asked: TopicConfig, settings: Iterable[str]) -> TopicConfig:
    """`there` with these settings of `asked`. Raises `BadRequest`."""
    return replace(there, **{name: getattr(asked, name) for name in _fields(_TOPIC, settings)})


def changed_group(there: GroupConfig, asked: GroupConfig, settings: Iterable[str]) -> GroupConfig:
    """`there` with these settings of `asked`. Raises `BadRequest`."""
    return replace(there, **{name: getattr(asked, name) for name in _fields(_GROUP, settings)})


def _fields(known: Mapping[str, tuple[str, ...]], settings: Iterable[str]) -> list[str]:
    found: list[str] = []
    for setting in settings:
        if setting not in known:
            raise BadRequest(reason=f"no setting {setting!r}, one of {', '.join(known)}")
        found += known[setting]
    return found
