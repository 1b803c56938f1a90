"""Messages as applications see them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message to send."""

    body: bytes
    tag: str | None = None
    keys: Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    message_group: str | None = None
    """Messages of one group are delivered in order; the topic's type must be FIFO or MIXED."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendReceipt:
    """The message is stored and on disk."""

    message_id: str
    queue_offset: int


@dataclass(slots=True, kw_only=True)
class ReceivedMessage:
    """A message this consumer holds until its invisible time is over."""

    topic: str
    group: str
    body: bytes
    message_id: str
    tag: str | None
    keys: tuple[str, ...]
    properties: dict[str, str]
    message_group: str | None
    delivery_attempt: int
    """1 for the first delivery."""
    born_timestamp_ms: int
    store_timestamp_ms: int
    broker: str
    queue_id: int
    queue_offset: int
    receipt_handle: str
    """Proof of holding it; replaced when the invisible time is changed."""
