"""The states of one message for one group, as a table: docs/pop.md is drawn from it.

A test walks every arrow in a broker and compares what it wrote. The code that decides is
elsewhere: leases.py, order.py, pop_buffer.py.
"""

from enum import StrEnum
from typing import Final, NamedTuple


class State(StrEnum):
    READY = "ready"
    BLOCKED = "blocked"
    BUFFERED = "buffered"
    LEASED = "leased"
    ACKED = "acked"
    DEAD = "dead"
    DROPPED = "dropped"


MEANING: Final = {
    State.READY: "the next pop may hand it out",
    State.BLOCKED: "FIFO: an earlier message of its message group is held",
    State.BUFFERED: "handed out, and nothing of it is written",
    State.LEASED: "handed out, its checkpoint is in the journal",
    State.ACKED: "done with",
    State.DEAD: "a copy is in the group's dead letters",
    State.DROPPED: "the group's position was moved, or the topic deleted: handles mean nothing",
}


class Groups(StrEnum):
    """For which groups an arrow holds."""

    ALL = "all"
    NORMAL = "normal"
    MEMORY = "normal, pop_buffer=memory"
    FIFO = "FIFO"


class Arrow(NamedTuple):
    letter: str
    start: State
    end: State
    event: str
    groups: Groups
    writes: tuple[str, ...]
    """Records, in order: tags of the revive topic, `copy` for one of the message."""


ARROWS: Final = (
    Arrow("a", State.READY, State.LEASED, "pop", Groups.ALL, ("ck",)),
    Arrow("b", State.LEASED, State.ACKED, "ack", Groups.ALL, ("ack",)),
    Arrow("c", State.LEASED, State.LEASED, "change: a new handle", Groups.ALL, ("ck", "ack")),
    Arrow(
        "d",
        State.LEASED,
        State.READY,
        "time runs out, or given back: as a copy in the retry topic",
        Groups.NORMAL,
        ("copy", "ack"),
    ),
    Arrow(
        "e",
        State.LEASED,
        State.DEAD,
        "time of the last attempt runs out, or forwarded",
        Groups.ALL,
        ("copy", "ack"),
    ),
    Arrow("f", State.LEASED, State.DROPPED, "topic deleted, position moved", Groups.ALL, ("ck",)),
    Arrow("g", State.READY, State.BUFFERED, "pop", Groups.MEMORY, ()),
    Arrow("h", State.BUFFERED, State.ACKED, "ack", Groups.MEMORY, ()),
    Arrow(
        "i",
        State.BUFFERED,
        State.LEASED,
        "stays too long, nearly due, before another record, clean stop",
        Groups.MEMORY,
        ("ck",),
    ),
    Arrow("j", State.BUFFERED, State.READY, "crash", Groups.MEMORY, ()),
    Arrow("k", State.ACKED, State.READY, "crash soon after h", Groups.MEMORY, ()),
    Arrow("l", State.BUFFERED, State.DROPPED, "as f", Groups.MEMORY, ("ck",)),
    Arrow(
        "m", State.LEASED, State.READY, "time runs out, or given back: in place", Groups.FIFO, ()
    ),
    Arrow("n", State.READY, State.BLOCKED, "an earlier one is held", Groups.FIFO, ()),
    Arrow("o", State.BLOCKED, State.READY, "that one is settled", Groups.FIFO, ()),
)
