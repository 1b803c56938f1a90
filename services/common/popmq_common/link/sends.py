"""A send on its way to a broker, without protobuf objects: what most of a proxy's work is about.

`OutgoingRecord` and `SendCall` say the same as the link's messages of these names and have the
same attributes, so the engine takes both. `entry` is the `Call` as it stands in a frame, written
by hand and in pieces: the body is copied once, when the frame is put together.

Source: proto/popmq_internal/v1/link.proto.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final, NamedTuple

from popmq_common.link.protowire import sized, varint

_I64: Final = Struct("<q").pack
_CALL_TAG: Final = b"\x0a"  # field 1 of Frame
_SEND_TAG: Final = b"\x52"  # field 10 of Call


class OutgoingRecord(NamedTuple):
    """One message. `properties` is RocketMQ's property string, encoded."""

    body: bytes
    properties: bytes
    sys_flag: int
    flag: int
    born_timestamp_ms: int
    born_host: bytes


@dataclass(slots=True)
class SendCall:
    """Stores all records or none, one behind the other in one queue."""

    topic: str
    queue_id: int
    records: Sequence[OutgoingRecord]
    kind: int = 0
    """A `SendKind`."""
    id: int = 0
    """Given by whoever carries it to the broker."""

    @property
    def send(self) -> "SendCall":
        """What `link.Call` has under this name."""
        return self

    def entry(self) -> tuple[int, list[bytes]]:
        """(bytes, pieces) of this call as an element of a frame's calls."""
        parts: list[bytes] = []
        size = 0
        for body, properties, sys_flag, flag, born_ms, born_host in self.records:
            flags = _flags(sys_flag, flag) if sys_flag or flag else b""
            body_size = varint(len(body))
            tail = b"\x12%b%b\x29%b\x32%c%b%b" % (
                varint(len(properties)),
                properties,
                _I64(born_ms),
                len(born_host),
                born_host,
                flags,
            )
            inner = 1 + len(body_size) + len(body) + len(tail)
            head = b"\x1a%b\x0a%b" % (varint(inner), body_size)
            parts += (head, body, tail)
            size += len(head) + len(body) + len(tail)
        name = sized(b"\x0a", self.topic.encode()) + b"\x10" + varint(self.queue_id)
        if self.kind:
            name += b"\x20" + varint(self.kind)
        size += len(name)
        number = b"\x08" + varint(self.id)
        send = _SEND_TAG + varint(size)
        inner = len(number) + len(send) + size
        head = b"%b%b%b%b%b" % (_CALL_TAG, varint(inner), number, send, name)
        parts.insert(0, head)
        return len(head) + size - len(name), parts


def _flags(sys_flag: int, flag: int) -> bytes:
    """Fields of the value 0 are left out."""
    fields = b"\x18" + varint(sys_flag) if sys_flag else b""
    return fields + b"\x20" + varint(flag) if flag else fields


class SendDone:
    """The reply to a call whose records are on disk; its attributes are those of `link.Reply` and
    `link.SendReply`."""

    __slots__ = ("id", "log_offsets", "queue_id", "queue_offset", "queue_offsets")

    def __init__(self, call_id: int) -> None:
        self.id = call_id
        self.queue_id = 0
        self.queue_offset = 0
        self.log_offsets: list[int] = []
        self.queue_offsets: list[int] = []

    @property
    def send(self) -> "SendDone":
        return self

    def entry(self) -> bytes:
        """As an element of a frame's replies."""
        send = b"\x08%b\x10%b" % (varint(self.queue_id), varint(self.queue_offset))
        if self.log_offsets:
            send += sized(b"\x1a", b"".join(varint(offset) for offset in self.log_offsets))
        if self.queue_offsets:
            send += sized(b"\x22", b"".join(varint(offset) for offset in self.queue_offsets))
        return sized(b"\x12", b"\x08%b\x52%b%b" % (varint(self.id), varint(len(send)), send))
