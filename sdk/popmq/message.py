"""Messages as applications see them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, TypedDict

from popmq.errors import NotHeld


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


class SendOptions(TypedDict, total=False):
    """What a message to send may have beside its body, as of `Message`."""

    tag: str | None
    keys: Sequence[str]
    properties: Mapping[str, str] | None
    message_group: str | None
    delay_s: float | None
    deliver_at: datetime | None


def size_bytes(body: bytes, properties: Mapping[str, str] | None) -> int:
    """Roughly what a message takes in memory and on the wire."""
    size = len(body) + 256
    return size + sum(len(k) + len(v) for k, v in properties.items()) if properties else size


class MessageHolder(Protocol):
    """What a message was received from, and can be settled with."""

    async def ack(self, message: "ReceivedMessage") -> None: ...
    async def nack(
        self,
        message: "ReceivedMessage",
        delay_s: float | None = None,
        reason: str = "",
        *,
        counted: bool = True,
    ) -> None: ...
    async def reject(self, message: "ReceivedMessage", reason: str) -> None: ...
    async def extend(self, message: "ReceivedMessage", seconds: float) -> None: ...


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
    body_error: str = ""
    """Why the body could not be unpacked; it is then as it came. Empty: nothing is wrong."""
    holder: MessageHolder | None = field(default=None, repr=False, compare=False)
    unanswered_s: float | None = field(default=None, repr=False, compare=False)
    """So long a change of its invisible time was to hold it, whose answer did not come: the handle
    may be void by now. None: there is no such change."""
    held_until_s: float = field(default=0.0, repr=False, compare=False)
    """When the lease is over if nothing renews it, by `time.monotonic`; 0: unknown."""
    counted: bool = field(default=False, repr=False, compare=False)
    """What became of it is counted, for the audit."""
    trace_context: str = ""
    """The protocol's own field for a W3C traceparent, if its sender has filled it."""
    observed: object = field(default=None, repr=False, compare=False)
    """What the client's observer keeps with it."""

    async def ack(self) -> None:
        """Done with it. Raises `InvalidReceiptHandle` when somebody else may hold it by now."""
        await self._held_by().ack(self)

    async def nack(
        self, delay_s: float | None = None, reason: str = "", *, counted: bool = True
    ) -> None:
        """It is redelivered after `delay_s`, by default as the group's retry policy says. `counted`
        False: the attempt does not count."""
        await self._held_by().nack(self, delay_s, reason, counted=counted)

    async def reject(self, reason: str) -> None:
        """It can never be dealt with: to the dead letters of its group at once."""
        await self._held_by().reject(self, reason)

    async def extend(self, seconds: float) -> None:
        """Hold it for `seconds` from now; 0 gives it back at once."""
        await self._held_by().extend(self, seconds)

    def _held_by(self) -> MessageHolder:
        if self.holder is None:
            raise NotHeld(
                f"message {self.message_id} was not received by a lease: "
                "a pull consumer says `done`, a checker answers"
            )
        return self.holder
