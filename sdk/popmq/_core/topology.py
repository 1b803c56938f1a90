"""Topics, groups and dead letters as applications see them ⇄ popmq.admin.v1."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypedDict

from popmq._core.message_inspection import moment
from popmq_admin.v1 import admin_pb2 as admin

TopicType = Literal["NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED"]
StartAt = Literal["first", "last"] | datetime
"""Where a group starts in a topic that it has not read: at its oldest message, at the first one
sent after the group's start, or at the first one stored then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exponential:
    """`first_s` after the first failure, `factor` times as long after each further one, at most
    `longest_s`."""

    first_s: float
    longest_s: float
    factor: float = 2.0


class TopicOptions(TypedDict, total=False):
    type: TopicType
    """The messages it takes; MIXED takes all."""
    queues: int
    """Of each broker."""
    owner: str
    """The team that it belongs to: 1 to 64 letters, digits, and . - _ @ +. Empty: nobody."""


class GroupOptions(TypedDict, total=False):
    start: StartAt
    fifo: bool
    """Messages of one message group are consumed in order."""
    max_attempts: int
    """Deliveries before a message goes to the dead letters."""
    max_hand_outs: int
    """The same of all deliveries, counted or not, of a message that is given back uncounted."""
    retry: Sequence[float] | Exponential
    """Seconds to wait after the first failure, the second, and so on."""
    access_lock_s: float
    """Consumers that pull have a queue one at a time; a silent one for so long. 0: no lock."""
    owner: str
    """As a topic's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    name: str
    type: str
    queues: int
    """Of each broker."""
    owner: str = ""
    """Empty: nobody's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """See `GroupOptions`."""

    name: str
    start: StartAt
    fifo: bool
    max_attempts: int
    max_hand_outs: int
    retry: tuple[float, ...] | Exponential
    access_lock_s: float
    owner: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicQueue:
    broker: str
    queue_id: int
    min_offset: int
    max_offset: int
    """Of the next message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupQueue:
    broker: str
    topic: str
    queue_id: int
    committed_offset: int
    max_offset: int
    in_flight: int
    lag: int
    """Messages it has not acked: ready and in flight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    topic: str
    """That it was sent to."""
    message_id: str
    attempts: int
    reason: str
    died_at: datetime
    redriven: bool
    body: bytes
    properties: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Redriven:
    """What became of dead letters that were to be sent again."""

    sent: int
    already: int
    """Had been sent before."""
    without_topic: int
    """Their topic is gone or not writable; they stay."""
    in_order: int
    """The group takes them in order and reads no retries; they stay, or go `to_topic`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Purged:
    """Dead letters that were deleted, or would be."""

    count: int
    sent_again: int
    """Of these, before."""


def topic_of(found: admin.Topic, prefix: str) -> Topic:
    """`prefix`: of its namespace."""
    name = found.name.removeprefix(prefix)
    return Topic(name=name, type=found.message_type, queues=found.queues, owner=found.owner)


def topic_request(name: str, wanted: TopicOptions) -> admin.Topic:
    return admin.Topic(
        name=name,
        message_type=wanted.get("type", ""),
        queues=wanted.get("queues", 0),
        owner=wanted.get("owner", ""),
    )


def group_of(found: admin.Group, prefix: str) -> Group:
    start: StartAt = "first" if found.consume_from == "FIRST" else "last"
    if found.consume_from == "TIME":
        start = moment(found.consume_from_ms)
    return Group(
        name=found.name.removeprefix(prefix),
        start=start,
        fifo=found.fifo,
        max_attempts=found.max_attempts,
        max_hand_outs=found.max_hand_outs,
        retry=_retry_of(found.retry_policy),
        access_lock_s=found.lock_hold_ms / 1000,
        owner=found.owner,
    )


def group_request(name: str, wanted: GroupOptions) -> admin.Group:
    """Raises `ValueError`."""
    made = admin.Group(
        name=name,
        fifo=wanted.get("fifo", False),
        max_attempts=wanted.get("max_attempts", 0),
        max_hand_outs=wanted.get("max_hand_outs"),
        lock_hold_ms=round(wanted.get("access_lock_s", 0.0) * 1000),
        owner=wanted.get("owner", ""),
    )
    if "start" in wanted:
        made.consume_from, made.consume_from_ms = _start(wanted["start"])
    if "retry" in wanted:
        made.retry_policy.CopyFrom(_policy(wanted["retry"]))
    return made


def topic_change(name: str, found: Topic, wanted: TopicOptions) -> admin.UpdateTopicRequest | None:
    """What it has otherwise than wanted; of the rest nobody said anything. None: nothing."""
    change = admin.UpdateTopicRequest(name=name)
    if wanted.get("queues", found.queues) != found.queues:
        change.queues = wanted["queues"]
    if wanted.get("type", found.type) != found.type:
        change.message_type = wanted["type"]
    if wanted.get("owner", found.owner) != found.owner:
        change.owner = wanted["owner"]
    return change if change.ListFields()[1:] else None


def group_change(name: str, found: Group, wanted: GroupOptions) -> admin.UpdateGroupRequest | None:
    """The same of a group. Raises `ValueError`."""
    new = group_request(name, wanted)
    change = admin.UpdateGroupRequest(name=name)
    if wanted.get("fifo", found.fifo) != found.fifo:
        change.fifo = new.fifo
    if wanted.get("max_attempts", found.max_attempts) != found.max_attempts:
        change.max_attempts = new.max_attempts
    if wanted.get("max_hand_outs", found.max_hand_outs) != found.max_hand_outs:
        change.max_hand_outs = new.max_hand_outs
    if wanted.get("access_lock_s", found.access_lock_s) != found.access_lock_s:
        change.lock_hold_ms = new.lock_hold_ms
    if wanted.get("owner", found.owner) != found.owner:
        change.owner = wanted["owner"]
    if "start" in wanted and _start(wanted["start"]) != _start(found.start):
        change.consume_from, change.consume_from_ms = _start(wanted["start"])
    if "retry" in wanted and _retry_of(new.retry_policy) != found.retry:
        change.retry_policy.CopyFrom(new.retry_policy)
    return change if change.ListFields()[1:] else None


def queues_of_topic(response: admin.DescribeTopicResponse) -> list[TopicQueue]:
    return [
        TopicQueue(
            broker=one.broker,
            queue_id=one.queue_id,
            min_offset=one.min_offset,
            max_offset=one.max_offset,
        )
        for one in response.queues
    ]


def queues_of_group(response: admin.DescribeGroupResponse, prefix: str) -> list[GroupQueue]:
    return [
        GroupQueue(
            broker=one.broker,
            topic=one.topic.removeprefix(prefix),
            queue_id=one.queue_id,
            committed_offset=one.committed_offset,
            max_offset=one.max_offset,
            in_flight=one.in_flight,
            lag=one.lag,
        )
        for one in response.queues
    ]


def dead_letter_of(letter: admin.DeadLetter, prefix: str) -> DeadLetter:
    return DeadLetter(
        topic=letter.topic.removeprefix(prefix),
        message_id=letter.message_id,
        attempts=letter.attempts,
        reason=letter.reason,
        died_at=moment(letter.stored_ms),
        redriven=letter.redriven,
        body=letter.body,
        properties=dict(letter.properties),
    )


def purged_of(response: admin.PurgeDeadLettersResponse) -> Purged:
    return Purged(
        count=sum(queue.count for queue in response.queues),
        sent_again=sum(queue.redriven for queue in response.queues),
    )


def reset_request(group: str, topic: str, to: StartAt) -> admin.ResetOffsetsRequest:
    """Raises `ValueError`."""
    request = admin.ResetOffsetsRequest(group=group, topic=topic)
    if isinstance(to, datetime):
        request.time_ms = round(to.timestamp() * 1000)
    elif to == "first":
        request.earliest = True
    elif to == "last":
        request.latest = True
    else:
        raise ValueError(f'{to!r}: a group goes to "first", "last" or a datetime')
    return request


def _start(start: StartAt) -> tuple[str, int]:
    """(consume_from, consume_from_ms)."""
    if isinstance(start, datetime):
        return "TIME", round(start.timestamp() * 1000)
    if start not in ("first", "last"):
        raise ValueError(f'{start!r}: a group starts at "first", "last" or a datetime')
    return start.upper(), 0


def _policy(retry: Sequence[float] | Exponential) -> admin.RetryPolicy:
    if isinstance(retry, Exponential):
        return admin.RetryPolicy(
            initial_ms=round(retry.first_s * 1000),
            max_ms=round(retry.longest_s * 1000),
            multiplier=retry.factor,
        )
    if isinstance(retry, str) or not retry:
        raise ValueError("retry is a list of delays in seconds, at least one, or an Exponential")
    return admin.RetryPolicy(delays_ms=[round(delay_s * 1000) for delay_s in retry])


def _retry_of(policy: admin.RetryPolicy) -> tuple[float, ...] | Exponential:
    if policy.delays_ms or not policy.initial_ms:
        return tuple(ms / 1000 for ms in policy.delays_ms)
    return Exponential(
        first_s=policy.initial_ms / 1000,
        longest_s=policy.max_ms / 1000,
        factor=policy.multiplier,
    )
