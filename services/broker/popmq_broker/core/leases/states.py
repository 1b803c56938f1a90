"""The states of one message for one group, as a table: docs/pop.md is drawn from it.

A test walks every arrow in a broker and compares what it wrote. The code that decides is
elsewhere: leases.py, fifo_queue.py, pop_buffer.py.
"""

from enum import StrEnum
from typing import Final, NamedTuple


class MessageState(StrEnum):
    READY = "ready"
    BLOCKED = "blocked"
    BUFFERED = "buffered"
    LEASED = "leased"
    ACKED = "acked"
    DEAD = "dead"
    DROPPED = "dropped"


MEANING: Final = {
    MessageState.READY: "the next pop may deliver it",
    MessageState.BLOCKED: "in a FIFO group: an earlier message of its message group is leased",
    MessageState.BUFFERED: "delivered and leased, but the lease is only in memory",
    MessageState.LEASED: "delivered; the checkpoint of its lease is in the journal",
    MessageState.ACKED: "the group is done with it",
    MessageState.DEAD: "a copy is in the group's dead letters",
    MessageState.DROPPED: (
        "the group's position was moved, or the topic was deleted: its handles are void"
    ),
}


class GroupKinds(StrEnum):
    """For which groups an arrow holds."""

    ALL = "all"
    NORMAL = "normal"
    MEMORY = "normal, pop_buffer=memory"
    FIFO = "FIFO"


class Arrow(NamedTuple):
    letter: str
    start: MessageState
    end: MessageState
    event: str
    groups: GroupKinds
    writes: tuple[str, ...]
    """Records, in order: tags of the revive topic, `copy` for one of the message."""


ARROWS: Final = (
    Arrow("a", MessageState.READY, MessageState.LEASED, "it is popped", GroupKinds.ALL, ("ck",)),
    Arrow("b", MessageState.LEASED, MessageState.ACKED, "it is acked", GroupKinds.ALL, ("ack",)),
    Arrow(
        "c",
        MessageState.LEASED,
        MessageState.LEASED,
        "its lease is changed; the client gets a new handle",
        GroupKinds.ALL,
        ("ck", "ack"),
    ),
    Arrow(
        "d",
        MessageState.LEASED,
        MessageState.READY,
        "its lease ends, or it is given back; a copy goes to the retry topic",
        GroupKinds.NORMAL,
        ("copy", "ack"),
    ),
    Arrow(
        "e",
        MessageState.LEASED,
        MessageState.DEAD,
        "the lease of its last attempt ends, or it is rejected",
        GroupKinds.ALL,
        ("copy", "ack"),
    ),
    Arrow(
        "f",
        MessageState.LEASED,
        MessageState.DROPPED,
        "its topic is deleted, or the group's position is moved",
        GroupKinds.ALL,
        ("ck",),
    ),
    Arrow("g", MessageState.READY, MessageState.BUFFERED, "it is popped", GroupKinds.MEMORY, ()),
    Arrow("h", MessageState.BUFFERED, MessageState.ACKED, "it is acked", GroupKinds.MEMORY, ()),
    Arrow(
        "i",
        MessageState.BUFFERED,
        MessageState.LEASED,
        "its lease has been in memory too long, or ends soon; another record of its queue is to "
        "be written; or the broker stops",
        GroupKinds.MEMORY,
        ("ck",),
    ),
    Arrow(
        "j", MessageState.BUFFERED, MessageState.READY, "the broker crashes", GroupKinds.MEMORY, ()
    ),
    Arrow(
        "k",
        MessageState.ACKED,
        MessageState.READY,
        "the broker crashes soon after arrow h",
        GroupKinds.MEMORY,
        (),
    ),
    Arrow(
        "l",
        MessageState.BUFFERED,
        MessageState.DROPPED,
        "its topic is deleted, or the group's position is moved",
        GroupKinds.MEMORY,
        ("ck",),
    ),
    Arrow(
        "m",
        MessageState.LEASED,
        MessageState.READY,
        "its lease ends, or it is given back; it stays in its place",
        GroupKinds.FIFO,
        (),
    ),
    Arrow(
        "n",
        MessageState.READY,
        MessageState.BLOCKED,
        "an earlier message of its message group is leased",
        GroupKinds.FIFO,
        (),
    ),
    Arrow(
        "o",
        MessageState.BLOCKED,
        MessageState.READY,
        "the earlier message is settled",
        GroupKinds.FIFO,
        (),
    ),
)
