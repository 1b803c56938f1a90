"""Stored messages, what is said of them, and open transactions ⇄ popmq.admin.v1."""

from dataclasses import dataclass
from datetime import UTC, datetime

from popmq_admin.v1 import admin_pb2 as admin


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a message is stored."""

    broker: str
    queue_id: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMessage:
    topic: str
    place: Place
    message_id: str
    tag: str
    keys: tuple[str, ...]
    message_group: str
    stored_at: datetime
    born_at: datetime
    delivery_attempt: int
    """Of its next delivery."""
    body: bytes
    """Of `find_messages` the first bytes; all are `body_bytes` long."""
    body_bytes: int
    properties: dict[str, str]
    """All, the system's own too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundMessages:
    messages: list[StoredMessage]
    """Newest first."""
    incomplete: bool
    """There may be more: ask for a shorter time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineEvent:
    at: datetime
    broker: str
    group: str
    """Empty: it concerns all."""
    kind: str
    """One word, for programs."""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether a group can receive the message now, and why or why not."""

    group: str
    """Empty: it is the same for every group."""
    broker: str
    state: str
    """One word, for programs; docs/explain.md lists them."""
    visible: bool
    """The group's next receive may get it."""
    text: str
    until: datetime | None
    """When that changes by itself; None: it does not."""
    hint: str
    """What to do, with the command line; empty: nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    found: bool
    topic: str
    timeline: list[TimelineEvent]
    """Oldest first."""
    verdicts: list[Verdict]
    notes: list[str]
    """What the servers do not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """Neither committed nor rolled back."""

    transaction_id: str
    topic: str
    broker: str
    message_id: str
    tag: str
    keys: tuple[str, ...]
    stored_at: datetime
    checks: int
    """How often producers were asked."""
    body_bytes: int


def message_of(found: admin.StoredMessage, prefix: str) -> StoredMessage:
    """`prefix`: of its namespace."""
    return StoredMessage(
        topic=found.topic.removeprefix(prefix),
        place=Place(broker=found.broker, queue_id=found.queue_id, offset=found.offset),
        message_id=found.message_id,
        tag=found.tag,
        keys=tuple(found.keys),
        message_group=found.message_group,
        stored_at=moment(found.stored_ms),
        born_at=moment(found.born_ms),
        delivery_attempt=found.delivery_attempt,
        body=found.body,
        body_bytes=found.body_bytes,
        properties=dict(found.properties),
    )


def explained_of(response: admin.ExplainResponse, prefix: str) -> Explained:
    return Explained(
        found=response.found,
        topic=response.topic.removeprefix(prefix),
        timeline=[
            TimelineEvent(
                at=moment(event.at_ms),
                broker=event.broker,
                group=event.group.removeprefix(prefix),
                kind=event.kind,
                text=event.text,
            )
            for event in response.timeline
        ],
        verdicts=[
            Verdict(
                group=verdict.group.removeprefix(prefix),
                broker=verdict.broker,
                state=verdict.state,
                visible=verdict.visible,
                text=verdict.text,
                until=moment(verdict.until_ms) if verdict.until_ms else None,
                hint=verdict.hint,
            )
            for verdict in response.verdicts
        ],
        notes=list(response.notes),
    )


def transaction_of(found: admin.Transaction, prefix: str) -> OpenTransaction:
    return OpenTransaction(
        transaction_id=found.transaction_id,
        topic=found.topic.removeprefix(prefix),
        broker=found.broker,
        message_id=found.message_id,
        tag=found.tag,
        keys=tuple(found.keys.split()),
        stored_at=moment(found.stored_ms),
        checks=found.checks,
        body_bytes=found.body_bytes,
    )


def moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def ms_of(when: datetime | None) -> int:
    """0: none."""
    return 0 if when is None else round(when.timestamp() * 1000)
