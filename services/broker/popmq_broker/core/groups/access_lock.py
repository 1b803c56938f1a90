"""The access lock: who may pull a queue, when two consumers of a group want it at a time.

While a group's queues move from one consumer to another both may hold one for a moment. What the
old one was handed and has not committed would be pulled again by the new one. So a queue has one
owner, and goes to another consumer when

    nothing is outstanding     all that was handed out is committed, and it stayed so while the
                               other one asked `idle_polls` times in a row
    or the owner is silent     it has not asked for `hold_ms`, and does not wait in a poll
    or it has left             at once

Who takes it over goes on at the committed offset if it asks for an earlier one.

    a pull by         owner         deliver offset          answer
    ---------------   -----------   ---------------------   ---------------------------------
    anybody           none          –                       granted, and is the owner
    the owner         itself        –                       granted
    another           silent        –                       taken over
    another           active        moved since last asked  refused, idle polls = 0
    another           active        same, not committed     refused, idle polls + 1
    another           active        same and committed      idle polls + 1: taken over when that
                                                            is `idle_polls`, refused before

Source: DeFiBus ConsumeQueueAccessLockManager. Differs: an owner that waits in a poll is not
silent; a queue nobody owns is granted with the same correction as one that is taken over. The
owners are not on disk: after a restart the first who asks is the owner.
"""

from dataclasses import dataclass
from enum import Enum

from popmq_broker.core.groups.offsets import QueueKey


class Access(Enum):
    REFUSED = "refused"
    GRANTED = "granted"
    TAKEN = "taken"
    """Granted, and the queue had another owner or none before: what is committed is not pulled
    again."""


@dataclass(slots=True)
class Owner:
    """Of one queue."""

    client_id: str
    last_access_ms: int
    deliver_offset: int
    """Behind the last message it was handed."""
    polling: int = 0
    """Its pulls that are under way."""
    idle_polls: int = 0
    """How often in a row others asked and nothing had moved."""
    seen_offset: int = -1
    """The deliver offset when another one asked last."""
    overtook: int | None = None
    """The offset it asked for when it took the queue over: what is committed goes first, until it
    asks for another one. It may not have got the answer that said so."""


class AccessLock:
    """Of one queue and group."""

    def __init__(self) -> None:
        self.owner: Owner | None = None

    def ask(
        self,
        client_id: str,
        offset: int,
        committed: int,
        now_ms: int,
        *,
        hold_ms: int,
        idle_polls: int,
    ) -> Access:
        """A pull of `offset` comes. What is not refused is followed by `began`."""
        owner = self.owner
        if owner is not None and owner.client_id == client_id:
            owner.last_access_ms = now_ms
            if offset == owner.overtook:
                return Access.TAKEN
            owner.overtook = None
            return Access.GRANTED
        if owner is not None and not self._yields(owner, committed, now_ms, hold_ms, idle_polls):
            return Access.REFUSED
        self.owner = Owner(client_id, now_ms, committed, overtook=offset)
        return Access.TAKEN

    def _yields(
        self, owner: Owner, committed: int, now_ms: int, hold_ms: int, idle_polls: int
    ) -> bool:
        if not owner.polling and now_ms - owner.last_access_ms > hold_ms:
            return True
        moved = owner.deliver_offset != owner.seen_offset
        owner.seen_offset = owner.deliver_offset
        owner.idle_polls = 0 if moved else owner.idle_polls + 1
        return owner.deliver_offset <= committed and owner.idle_polls >= idle_polls

    def began(self) -> Owner | None:
        """The owner's pull is under way, perhaps waiting."""
        if self.owner is not None:
            self.owner.polling += 1
        return self.owner

    def ended(self, owner: Owner, now_ms: int, next_offset: int | None) -> bool:
        """A pull is over; `next_offset` when it found messages. False: another one has the queue
        by now, and the messages must not be handed out."""
        owner.polling -= 1
        owner.last_access_ms = now_ms
        if self.owner is not owner:
            return False
        if next_offset is not None:
            owner.deliver_offset = next_offset
        return True

    def leave(self, client_id: str) -> bool:
        """True: it was the owner."""
        if self.owner is None or self.owner.client_id != client_id:
            return False
        self.owner = None
        return True


class Locks:
    """Of all queues that are pulled under an access lock; as many as there are such queues."""

    def __init__(self) -> None:
        self.taken = self.refused = 0
        """How often a queue changed its owner, and a pull was refused."""
        self._locks: dict[QueueKey, AccessLock] = {}

    def of(self, key: QueueKey) -> AccessLock:
        return self._locks.setdefault(key, AccessLock())

    def owner(self, key: QueueKey) -> str:
        """Its client id; empty: nobody's."""
        lock = self._locks.get(key)
        return "" if lock is None or lock.owner is None else lock.owner.client_id

    def held(self) -> int:
        return sum(lock.owner is not None for lock in self._locks.values())

    def leave(self, client_id: str, group: str | None = None, topic: str | None = None) -> None:
        """The client gives up its queues, all or those of a group and topic."""
        for key, lock in self._locks.items():
            if group in (None, key.group) and topic in (None, key.topic):
                lock.leave(client_id)

    def forget(self, *, group: str | None = None, topic: str | None = None) -> None:
        """The group, or the topic, is deleted."""
        for key in [key for key in self._locks if group == key.group or topic == key.topic]:
            del self._locks[key]
