"""What a client knows of a lease: its handle, and how long it is held for certain, or perhaps."""

from dataclasses import dataclass

NEVER_MS = 1 << 62
Key = tuple[int, int]
"""(log offset, generation) of a handle: the larger one is the newer lease of the message."""


@dataclass(slots=True, eq=False, repr=False)
class Lease:
    """One handle that a client was given."""

    key: Key
    handle: str
    pop_ms: int
    due_ms: int
    attempt: int
    attempt_id: str
    lost_before: int
    """Receives of the group whose answer had been lost when this one came."""
    free_ms: int = NEVER_MS
    """From then on it may be over early: given back, changed, or received again."""
    released: int = -1
    """Given back, and the broker was alive for that many starts then; -1: not, or perhaps."""
    may_be_released: bool = False
    changes_open: int = 0
    """Changes tried whose outcome is not known, or not yet."""
    changes: int = 0
    """Changes tried with it."""
    made_from: "Lease | None" = None
    """The one that a change replaced by this one."""
    acks: int = 0
    """How many acks were tried with it."""
    extends_open: int = 0
    """Extensions tried whose outcome is not known, or not yet."""
    nacked_ms: int = NEVER_MS
    """A nack of it was answered then: its handle is void."""
    longest_ms: int = 0
    """It may be held so long by those whose outcome is known."""

    def must_be_over_at(self, time_ms: int) -> bool:
        return not self.extends_open and time_ms >= max(self.due_ms, self.longest_ms)

    @property
    def held_until_ms(self) -> int:
        """Its handle is good so long, as far as is known."""
        return min(self.due_ms, self.free_ms, self.nacked_ms)

    @property
    def may_be_replaced(self) -> bool:
        """By a change of it; or by another one of the lease that it was made from, which is asked
        again, for less time, and makes one more."""
        return bool(self.changes_open or (self.made_from and self.made_from.changes_open))

    def __repr__(self) -> str:
        return f"{self.key} attempt {self.attempt} {self.attempt_id} {self.pop_ms}–{self.due_ms}"
