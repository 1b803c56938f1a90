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

from popmq_common.protowire import sized, varint

_BORN: Final = Struct("<Bq")
_BORN_TAG: Final = 0x29  # field 5 of OutgoingRecord, 64 bits
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
            rest = _rest(sys_flag, flag, born_ms, born_host)
            body_size = varint(len(body))
            tail = b"%b%b%b%b" % (b"\x12", varint(len(properties)), properties, rest)
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


def _rest(sys_flag: int, flag: int, born_ms: int, born_host: bytes) -> bytes:
    """What follows the properties; fields of the value 0 are left out."""
    rest = _BORN.pack(_BORN_TAG, born_ms) + b"\x32%b%b" % (varint(len(born_host)), born_host)
    if sys_flag:
        rest += b"\x18" + varint(sys_flag)
    if flag:
        rest += b"\x20" + varint(flag)
    return rest
