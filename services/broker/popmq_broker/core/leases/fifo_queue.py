"""The FIFO queue: whose turn it is in a queue that a FIFO group consumes.

The messages of one message group are handed out in the order of their offsets, and none of them
while an earlier pop still holds one. A failed message holds up its own message group alone.
Messages without a message group are one message group together.

    found ──► ready ──pop──► held ──ack, dead letter──► settled
                ▲              │
                └──────────────┘ time runs out, or given back: in place, without a copy

What is not settled is kept in entries, at most `ENTRIES_MAX` of a queue. `first` is the offset
below which everything is settled: the group's committed offset. From there on the journal is
needed, the checkpoints of settled messages too, or a restart would hand those out again.

Differs from RocketMQ (ConsumerOrderInfoManager), where a message that is held blocks its queue,
and an acked message is redelivered with the others of its batch.
"""

from bisect import insort
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from popmq_broker.core.leases.grant import Lease

ENTRIES_MAX: Final = 20_000
"""Of one queue and group: how far a pop looks past message groups that are held up."""


@dataclass(slots=True, eq=False)
class FifoEntry:
    """A message at or behind `first` that the group wants."""

    offset: int
    message_group: str
    log_offset: int
    size_bytes: int
    attempts: int = 0
    """How often it was handed out, less the times that did not count."""
    handed_out: int = 0
    """All of them; core/retries/deliveries.py."""
    lease: Lease | None = None
    """The newest, perhaps over."""
    attempt_id: str = ""
    """Of the receive that holds it."""
    reason: str = ""
    """Why the last counted attempt failed, if its consumer said so."""
    held: bool = False
    settled: bool = False


@dataclass(slots=True, eq=False)
class MessageGroup:
    """One message group: its offsets that are not settled, growing."""

    offsets: list[int] = field(default_factory=list)
    held: int = 0


class FifoQueue:
    def __init__(self, first: int) -> None:
        self.first = first
        self.entries: dict[int, FifoEntry] = {}
        self._message_groups: dict[str, MessageGroup] = {}
        self._turns: dict[str, None] = {}
        """Message groups of which nothing is held and something is left; the next one first."""
        self._attempts: dict[str, dict[int, FifoEntry]] = {}

    @property
    def full(self) -> bool:
        return len(self.entries) >= ENTRIES_MAX

    @property
    def has_ready(self) -> bool:
        return bool(self._turns)

    @property
    def was_begun(self) -> bool:
        """Something from `first` on was handed out."""
        return any(entry.lease is not None for entry in self.entries.values())

    def has_ready_for(self, count: int, *, single: bool) -> bool:
        """At least `count` messages whose turn it is; `single`: one of each message group."""
        for name in self._turns:
            count -= 1 if single else len(self._message_groups[name].offsets)
            if count <= 0:
                return True
        return False

    def ready_count(self) -> int:
        return sum(len(self._message_groups[name].offsets) for name in self._turns)

    def blocker(self, message_group: str, offset: int) -> FifoEntry | None:
        """The first message of the group before `offset` that has to be settled first: one that
        is held, or one that has failed and comes alone."""
        group = self._message_groups.get(message_group)
        for at in group.offsets if group is not None else ():
            entry = self.entries[at]
            if at >= offset:
                break
            if entry.held or entry.attempts:
                return entry
        return None

    def blocked_count(self) -> int:
        """Messages that wait for an earlier one of their message group."""
        return sum(
            len(group.offsets) - group.held for group in self._message_groups.values() if group.held
        )

    def found(self, entry: FifoEntry) -> None:
        """A message that the group wants and that is not known yet."""
        self.entries[entry.offset] = entry
        group = self._message_groups.get(entry.message_group)
        if group is None:
            group = self._message_groups[entry.message_group] = MessageGroup()
        insort(group.offsets, entry.offset)
        group.held += entry.held
        self._queue_up(entry.message_group)

    def held_by(self, attempt_id: str) -> list[FifoEntry]:
        """What an earlier receive with this attempt id got and still holds: its answer was lost."""
        return list(self._attempts.get(attempt_id, {}).values())

    def next_entries(self, count: int, room_bytes: int, *, single: bool = False) -> list[FifoEntry]:
        """Up to `count` messages whose turn it is, and until `room_bytes` are used up.

        One message group after the other, each in order from its first message that is left.
        What failed comes alone: new messages of the group only when it is settled. `single`: one
        message of each message group.
        """
        chosen: list[FifoEntry] = []
        for name in self._turns:
            offsets = self._message_groups[name].offsets
            failed = self.entries[offsets[0]].attempts > 0
            for offset in offsets:
                if len(chosen) >= count or room_bytes <= 0:
                    return chosen
                entry = self.entries[offset]
                if failed and not entry.attempts:
                    break
                chosen.append(entry)
                room_bytes -= entry.size_bytes
                if single:
                    break
        return chosen

    def hold(
        self, entry: FifoEntry, lease: Lease, *, attempt_id: str, counted: bool
    ) -> Lease | None:
        """Handed out, or its lease renewed; returns the lease that this one takes the place of."""
        older, entry.lease = entry.lease, lease
        entry.attempts += counted
        entry.handed_out += counted
        self._name_attempt(entry, attempt_id)
        if not entry.held:
            entry.held = True
            self._message_groups[entry.message_group].held += 1
            self._turns.pop(entry.message_group, None)
        return older

    def regrant(self, leases: Mapping[int, Lease]) -> None:
        """Who holds what stays; the leases of these offsets have a new time."""
        for offset, lease in leases.items():
            self.entries[offset].lease = lease

    def give_back(self, offset: int, *, counted: bool, reason: str = "") -> None:
        """No longer held and not settled: it is redelivered before what is behind it.

        `reason`: why the attempt failed; empty keeps the one before.
        """
        entry = self.entries[offset]
        entry.reason = reason or entry.reason
        if not counted:
            entry.attempts -= 1
        self._let_go(entry)
        self._queue_up(entry.message_group)

    def settle(self, offset: int) -> None:
        """Acked, dead-lettered, or gone from the log."""
        entry = self.entries[offset]
        self._let_go(entry)
        entry.settled = True
        group = self._message_groups[entry.message_group]
        group.offsets.remove(offset)
        if not group.offsets:
            del self._message_groups[entry.message_group]
            self._turns.pop(entry.message_group, None)
        else:
            self._queue_up(entry.message_group)

    def expire_below(self, offset: int, position: int) -> int:
        """Messages before `offset` are gone; returns how many had not been settled.

        `position`: everything below it is an entry, settled, or filtered out. What is held stays.
        """
        lost = max(0, offset - position)
        for at in [at for at in self.entries if at < offset]:
            entry = self.entries[at]
            lost -= at >= position
            if not entry.settled and not entry.held:
                self.settle(at)
                lost += 1
        return lost

    def advance(self, position: int) -> list[Lease]:
        """Move `first` up to what is not settled; returns leases nobody needs any more.

        `position`: everything below it is an entry, settled, or filtered out.
        """
        over: list[Lease] = []
        while self.first < position:
            entry = self.entries.get(self.first)
            if entry is not None:
                if not entry.settled:
                    break
                del self.entries[self.first]
                if entry.lease is not None:
                    over.append(entry.lease)
            self.first += 1
        return over

    def end_of_known(self, position: int) -> int:
        """Behind the entries that follow `position` without a gap."""
        while position in self.entries:
            position += 1
        return position

    def leases(self) -> list[Lease]:
        """Every lease whose checkpoint is still needed."""
        return [entry.lease for entry in self.entries.values() if entry.lease is not None]

    def _let_go(self, entry: FifoEntry) -> None:
        if entry.held:
            entry.held = False
            self._message_groups[entry.message_group].held -= 1
        self._name_attempt(entry, "")

    def _name_attempt(self, entry: FifoEntry, attempt_id: str) -> None:
        if entry.attempt_id:
            entries = self._attempts[entry.attempt_id]
            del entries[entry.offset]
            if not entries:
                del self._attempts[entry.attempt_id]
        entry.attempt_id = attempt_id
        if attempt_id:
            self._attempts.setdefault(attempt_id, {})[entry.offset] = entry

    def _queue_up(self, name: str) -> None:
        group = self._message_groups[name]
        if group.held:
            self._turns.pop(name, None)
        elif group.offsets:
            self._turns.setdefault(name)
