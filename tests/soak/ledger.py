"""What clients were told in a soak, kept outside the server, and what follows from it."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

Line = tuple[str, int]
"""Message group and the message's number in it."""


def line_of(body: str) -> Line:
    name, _, number = body.rpartition("-")
    return name, int(number)


@dataclass
class Sent:
    """A topic: what was tried, and what was answered OK."""

    attempted: set[str] = field(default_factory=set)
    ok: set[str] = field(default_factory=set)
    lines: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """By message group: numbers that were answered OK, growing."""


class Bounds(NamedTuple):
    least: int
    most: int


@dataclass
class Told:
    """A consumer group."""

    sent: Sent
    fifo: bool
    received: dict[str, int] = field(default_factory=dict)
    """How often each body came."""
    ack_tried: set[str] = field(default_factory=set)
    acked_at: dict[str, float] = field(default_factory=dict)
    """When an ack was answered OK."""
    undone: list[str] = field(default_factory=list)
    out_of_order: list[str] = field(default_factory=list)
    nacks: int = 0
    _passed: dict[str, int] = field(default_factory=dict)

    def came(self, bodies: list[str], invoked: float) -> None:
        """One receive, invoked then."""
        together: set[str] = set()
        for body in bodies:
            acked_at = self.acked_at.get(body)
            if acked_at is not None and invoked > acked_at:
                self.undone.append(body)
            if self.fifo and not self._has_its_turn(body, together):
                self.out_of_order.append(body)
            together.add(body)
            self.received[body] = self.received.get(body, 0) + 1

    def _has_its_turn(self, body: str, together: set[str]) -> bool:
        """Everything before it in its message group is done with, or came with it."""
        name, number = line_of(body)
        line = self.sent.lines[name]
        at = self._passed.get(name, 0)
        while at < len(line) and f"{name}-{line[at]}" in self.acked_at:
            at += 1
        self._passed[name] = at
        earlier = (f"{name}-{one}" for one in line[at:] if one < number)
        return all(one in self.ack_tried or one in together for one in earlier)

    def lost(self) -> set[str]:
        return self.sent.ok - self.received.keys()

    def unexpected(self) -> set[str]:
        return self.received.keys() - self.sent.attempted

    def open(self) -> set[str]:
        """Stored for certain, and not known to be acked."""
        return self.sent.ok - self.ack_tried


@dataclass
class Ledger:
    topics: dict[str, Sent]
    groups: dict[str, Told]
    failed_calls: int = 0

    def stored(self, group: str) -> Bounds:
        sent = self.groups[group].sent
        return Bounds(len(sent.ok), len(sent.attempted))

    def done(self, group: str) -> Bounds:
        told = self.groups[group]
        return Bounds(len(told.acked_at), len(told.ack_tried))
