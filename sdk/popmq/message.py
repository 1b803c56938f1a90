"""Messages as applications see them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message to send."""

    body: bytes
    tag: str | None = None
    keys: Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    message_group: str | None = None
    """Messages of one group are delivered in order; the topic's type must be FIFO or MIXED."""
    delay_s: float | None = None
    """It is delivered so much later than it is sent, never earlier; the topic's type must be DELAY
    or MIXED."""
    deliver_at: datetime | None = None
    """Or it is delivered then; a time that has passed means at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendReceipt:
    """The message is stored and on disk."""

    message_id: str
    queue_offset: int
    recall_handle: str = ""
    """Of a message that waits for its time: `Client.recall` takes it back by this."""


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
    deliver_at_ms: int | None
    """When its sender wanted it delivered; None: at once."""
    delivery_attempt: int
    """1 for the first delivery."""
    born_timestamp_ms: int
    store_timestamp_ms: int
    broker: str
    queue_id: int
    queue_offset: int
    receipt_handle: str
    """Proof of holding it; replaced when the invisible time is changed. Of one that was pulled:
    since which start, seek or reset it was handed out."""
