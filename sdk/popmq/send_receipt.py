"""What a sender gets for a message that is stored."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SendReceipt:
    """The message is stored and on disk."""

    message_id: str
    queue_offset: int
    recall_handle: str = ""
    """Of a message that waits for its time: `Client.recall` takes it back by this."""
