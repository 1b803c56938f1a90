"""The pop buffer: grants whose checkpoint is in no journal yet, and when they have to be stored.

With pop_buffer=memory a pop is answered without a checkpoint. Its grant waits here: if all of it
is acked in time, neither the checkpoint nor the acks are ever written.

    pop ──► buffered ──all acked──► gone, never written
               └──too long, nearly due, or a record has to follow──► stored: as if popped durably

On replay a checkpoint moves the queue's position over everything before it. So grants of a queue
are stored in the order they were handed out, and no record of a queue may be written while an
earlier grant of it is buffered: `Unstored.through` says which have to go first.

A restart begins at the first buffered grant (`Unstored.needed_from`): the position that is saved
goes over what is stored or acked whole, and never past one that is neither. What a crash sends
again is what was handed out or acked within the stay time, at most.

Everything here is synchronous and knows no clock. Bounded by leases in all and by grants of a
queue; a lease is of one size (the message stays in the log), so these bound the bytes too. A pop
that finds no room is journaled.

Source: RocketMQ PopBufferMergeService. Differs: one checkpoint of what is still held, instead of
one of everything and a record for each ack; no 5-minute clean-up that forgets positions.
"""

import heapq
from collections import OrderedDict
from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from popmq_broker.core.groups.offsets import QueueKey
from popmq_broker.core.leases.grant import Grant

QUEUE_GRANTS_MAX: Final = 1_024
"""Buffered of one queue and group; so many are stored at once before a record that must follow."""
AT_ONCE_MS: Final = 4_500
"""A pop for less time is journaled at once (RocketMQ: popCkStayBufferTimeOut + 1,500)."""
NEARLY_DUE_MS: Final = 3_000
"""A grant is stored when that little of its time is left (RocketMQ: popCkStayBufferTimeOut)."""
STALE_MIN: Final = 1_024
"""Entries of grants that are gone stay in the heap until they are a multiple of the others."""


@dataclass(slots=True, eq=False)
class Buffered:
    """A grant that is in no journal, and what of it is still held."""

    key: QueueKey
    line: "Unstored"
    grant: Grant
    from_offset: int
    """The queue's position before it was handed out."""
    offsets: tuple[int, ...]
    """All that was handed out; how many of them are still held:"""
    live: int


class Step(NamedTuple):
    """A grant to store, and the position that its checkpoint brings a restart to."""

    entry: Buffered
    moves_to: int


class Unstored:
    """The buffered grants of one queue and group, in the order they were handed out."""

    def __init__(self) -> None:
        self.grants: OrderedDict[Grant, Buffered] = OrderedDict()

    def __len__(self) -> int:
        return len(self.grants)

    def needed_from(self, position: int) -> int:
        """Where a restart begins, when the group's next pop begins at `position`."""
        for entry in self.grants.values():
            return entry.from_offset
        return position

    def oldest_ms(self) -> int | None:
        """When the oldest was handed out."""
        return next((grant.pop_time_ms for grant in self.grants), None)

    def through(self, wanted: Container[Grant], position: int) -> list[Step]:
        """What is stored before a record about `wanted`: these and all before them, in order.

        A checkpoint brings a restart up to the next grant that is buffered: what lies between
        was acked. Grants of `wanted` that are not buffered are passed over.
        """
        entries = list(self.grants.values())
        while entries and entries[-1].grant not in wanted:
            position = entries.pop().from_offset
        steps = []
        for entry in reversed(entries):
            steps.append(Step(entry, position))
            position = entry.from_offset
        return steps[::-1]

    def everything(self, position: int) -> list[Step]:
        """Before a record about what is handed out next."""
        return self.through(self.grants, position)


class GrantBuffer:
    """All buffered grants of a broker, and which has to be stored next."""

    def __init__(self, *, stay_ms: int, leases_max: int) -> None:
        self._stay_ms = stay_ms
        self._leases_max = leases_max
        self._entries: dict[Grant, Buffered] = {}
        self._heap: list[tuple[int, int, Buffered]] = []
        self._pushed = 0
        self.leases = 0
        """Of buffered grants, acked ones included: what the bound counts."""
        self.serving = True
        """False while the disk is full: what cannot be stored must not grow."""
        self.stored = 0
        self.merged = 0
        """Grants that ended whole and were never written."""
        self.bypassed = 0
        """Pops of a queue that were journaled at once: too short, or no room."""

    def __len__(self) -> int:
        return len(self._entries)

    def takes(self, line: Unstored, lease_count: int, invisible_ms: int) -> bool:
        """Whether a pop may go without a checkpoint for now."""
        return (
            self.serving
            and invisible_ms >= AT_ONCE_MS
            and self.leases + lease_count <= self._leases_max
            and len(line) < QUEUE_GRANTS_MAX
        )

    def add(
        self,
        key: QueueKey,
        line: Unstored,
        grant: Grant,
        offsets: tuple[int, ...],
        from_offset: int,
    ) -> None:
        """Handed out, and no journal knows of it."""
        entry = Buffered(key, line, grant, from_offset, offsets, len(offsets))
        self._entries[grant] = line.grants[grant] = entry
        self.leases += len(offsets)
        self._push(entry, min(grant.pop_time_ms + self._stay_ms, grant.due_ms - NEARLY_DUE_MS))

    def ended(self, grant: Grant, lease_count: int = 1) -> bool:
        """Leases of it have ended without a record; True: the last of them, too."""
        entry = self._entries[grant]
        entry.live -= lease_count
        if entry.live:
            return False
        self._remove(entry)
        self.merged += 1
        return True

    def was_stored(self, entry: Buffered) -> None:
        """Its checkpoint was appended."""
        self._remove(entry)
        self.stored += 1

    def _remove(self, entry: Buffered) -> None:
        del self._entries[entry.grant]
        del entry.line.grants[entry.grant]
        self.leases -= len(entry.offsets)

    def _push(self, entry: Buffered, store_ms: int) -> None:
        if len(self._heap) > 4 * len(self._entries) + STALE_MIN:
            self._heap = [item for item in self._heap if self._waits(item[2])]
            heapq.heapify(self._heap)
        self._pushed += 1
        heapq.heappush(self._heap, (store_ms, self._pushed, entry))

    def _waits(self, entry: Buffered) -> bool:
        return entry.grant in self._entries

    def next_store_ms(self) -> int | None:
        """When the next grant has to be stored; None: nothing is buffered."""
        while self._heap and not self._waits(self._heap[0][2]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def take_due(self, now_ms: int, count_max: int) -> list[Buffered]:
        """At most `count_max` grants that have to be stored by now, the most urgent first.

        The caller stores each with those before it, or puts them back.
        """
        taken: list[Buffered] = []
        while len(taken) < count_max:
            next_ms = self.next_store_ms()
            if next_ms is None or next_ms > now_ms:
                break
            taken.append(heapq.heappop(self._heap)[2])
        return taken

    def put_back(self, taken: list[Buffered], store_ms: int) -> None:
        """Try again at `store_ms`."""
        for entry in taken:
            if self._waits(entry):
                self._push(entry, store_ms)

    def buffered(self) -> Iterator[Buffered]:
        """All of them, in the order they were handed out."""
        return iter(self._entries.values())
