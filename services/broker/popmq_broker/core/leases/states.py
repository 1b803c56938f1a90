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
    MessageState.READY: "the next pop may hand it out",
    MessageState.BLOCKED: "FIFO: an earlier message of its message group is held",
    MessageState.BUFFERED: "handed out, and nothing of it is written",
    MessageState.LEASED: "handed out, its checkpoint is in the journal",
    MessageState.ACKED: "done with",
    MessageState.DEAD: "a copy is in the group's dead letters",
    MessageState.DROPPED: (
        "the group's position was moved, or the topic deleted: handles mean nothing"
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
    Arrow("a", MessageState.READY, MessageState.LEASED, "pop", GroupKinds.ALL, ("ck",)),
    Arrow("b", MessageState.LEASED, MessageState.ACKED, "ack", GroupKinds.ALL, ("ack",)),
    Arrow(
        "c",
        MessageState.LEASED,
        MessageState.LEASED,
        "change: a new handle",
        GroupKinds.ALL,
        ("ck", "ack"),
    ),
    Arrow(
        "d",
        MessageState.LEASED,
        MessageState.READY,
        "time runs out, or given back: as a copy in the retry topic",
        GroupKinds.NORMAL,
        ("copy", "ack"),
    ),
    Arrow(
        "e",
        MessageState.LEASED,
        MessageState.DEAD,
        "time of the last attempt runs out, or rejected",
        GroupKinds.ALL,
        ("copy", "ack"),
    ),
    Arrow(
        "f",
        MessageState.LEASED,
        MessageState.DROPPED,
        "topic deleted, position moved",
        GroupKinds.ALL,
        ("ck",),
    ),
    Arrow("g", MessageState.READY, MessageState.BUFFERED, "pop", GroupKinds.MEMORY, ()),
    Arrow("h", MessageState.BUFFERED, MessageState.ACKED, "ack", GroupKinds.MEMORY, ()),
    Arrow(
        "i",
        MessageState.BUFFERED,
        MessageState.LEASED,
        "stays too long, nearly due, before another record, clean stop",
        GroupKinds.MEMORY,
        ("ck",),
    ),
    Arrow("j", MessageState.BUFFERED, MessageState.READY, "crash", GroupKinds.MEMORY, ()),
    Arrow("k", MessageState.ACKED, MessageState.READY, "crash soon after h", GroupKinds.MEMORY, ()),
    Arrow("l", MessageState.BUFFERED, MessageState.DROPPED, "as f", GroupKinds.MEMORY, ("ck",)),
    Arrow(
        "m",
        MessageState.LEASED,
        MessageState.READY,
        "time runs out, or given back: in place",
        GroupKinds.FIFO,
        (),
    ),
    Arrow(
        "n", MessageState.READY, MessageState.BLOCKED, "an earlier one is held", GroupKinds.FIFO, ()
    ),
    Arrow(
        "o", MessageState.BLOCKED, MessageState.READY, "that one is settled", GroupKinds.FIFO, ()
    ),
)
