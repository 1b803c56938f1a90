"""What the outside knows: a book of what was sent and answered, that knows nothing of the engine.

`GroupLife` and `topic life` count how often a name was deleted and made again; a message means
something else to each life of a group. Calls whose answer was lost may have been done or not: the
book then allows both, and no more than that.

    I1 what was stored is delivered        I6 an offset holds one message, replies have no gaps
    I2 delivered as it was sent            I7 in a message group one after the other
    I3 nothing comes after its ack         I8 attempts count deliveries
    I4 one holder at a time                I9 dead letters once, at the right time
    I5 one ack is done, the newest's
"""

from bisect import insort
from collections import deque
from dataclasses import dataclass, field
from zlib import crc32

from sim.held_lease import NEVER_MS, Key, Lease
from sim.violation import Violation

from popmq_common.records.receipt import Receipt

EVENTS_KEPT_MAX = 40
NO_LIFE = 0
"""Lives count from 1: of a topic that was deleted, one does not know which."""


@dataclass(slots=True, eq=False)
class Message:
    id: str
    topic: str
    topic_life: int | None
    """None: sent while the topic was being deleted."""
    queue_id: int
    message_group: str
    tag: str
    body: bytes
    certain: bool = False
    """Its send was answered OK."""
    offset: int = -1
    """In its queue; -1: not known."""
    events: deque[tuple[int, str]] = field(default_factory=lambda: deque(maxlen=EVENTS_KEPT_MAX))


def body_of(message_id: str) -> bytes:
    return f"{message_id} ".encode() + bytes(crc32(message_id.encode()) % 200)


@dataclass(slots=True, eq=False, repr=False)
class Standing:
    """A message, for one life of a group."""

    message: Message
    leases: list[Lease] = field(default_factory=list)
    """By key, the newest last."""
    acked: Key | None = None
    acks_open: int = 0
    """Acks tried whose outcome is not known, or not yet."""
    forwards_open: int = 0
    must_be_dead: bool = False
    dead: tuple[int, int] | None = None
    """(log offset, store time) of its dead letter."""

    @property
    def newest(self) -> Lease | None:
        return self.leases[-1] if self.leases else None

    @property
    def settled(self) -> bool:
        return self.acked is not None or self.dead is not None

    @property
    def may_be_settled(self) -> bool:
        return self.settled or bool(self.acks_open or self.forwards_open)

    def __repr__(self) -> str:
        return f"{self.message.id} {self.leases} acked={self.acked} dead={self.dead}"

    def may_only_be_ended_by(self, lease: Lease) -> bool:
        """It is the newest, and nothing is under way that could end it."""
        free = lease.free_ms == NEVER_MS and not lease.may_be_replaced
        return self.newest is lease and free and not self.may_be_settled

    def lease(self, key: Key) -> Lease | None:
        return next((lease for lease in self.leases if lease.key == key), None)


@dataclass(slots=True, eq=False)
class GroupLife:
    """A consumer group from its making to its deletion."""

    name: str
    number: int
    fifo: bool
    max_attempts: int
    tags: frozenset[str] | None
    """What it subscribes to; None: everything."""
    begins_last: bool
    sql: str = ""
    """The same as an expression; empty: a tag expression asks for `tags`."""
    standings: dict[str, Standing] = field(default_factory=dict)
    begun: dict[tuple[str, int], int] = field(default_factory=dict)
    """(topic, its life) → how many messages were sent before its first answered receive."""
    lost_pops: int = 0
    lost_before_quake: int = 0
    """`lost_pops` when its deletion began."""
    open_pops: dict[str, int] = field(default_factory=dict)
    """Receives under way, by topic."""

    @property
    def unknown_pops(self) -> int:
        return self.lost_pops + sum(self.open_pops.values())

    def standing(self, message: Message) -> Standing:
        found = self.standings.get(message.id)
        if found is None:
            found = self.standings[message.id] = Standing(message)
        return found

    def wants(self, message: Message) -> bool:
        return self.tags is None or message.tag in self.tags


class Book:
    def __init__(self) -> None:
        self.messages: dict[str, Message] = {}
        self.places: dict[tuple[str, int, int], str] = {}
        """(topic as stored, queue, offset) → message id."""
        self.topic_lives: dict[str, int] = {}
        self.groups: dict[str, GroupLife] = {}
        self.open_sends: set[Message] = set()
        self.lines: dict[tuple[str, int, str], list[tuple[int, Message]]] = {}
        """Messages with a known offset, by (topic, queue, message group)."""
        self._passed: dict[tuple[GroupLife, tuple[str, int, str]], int] = {}
        self.starts = 0
        """How often the broker was started."""
        self.deliveries = self.acks_done = self.dead_letters = 0

    # --- topics, groups ---

    def topic_made(self, topic: str) -> None:
        self.topic_lives[topic] = self.topic_lives.get(topic, 0) + 1

    def topic_goes(self, topic: str) -> None:
        """What is there goes with it; what is being sent may get into the next one."""
        for message in self.messages.values():
            if message.topic == topic and message.topic_life is None:
                message.topic_life = NO_LIFE
        for message in self.open_sends:
            if message.topic == topic and message.offset < 0:
                message.topic_life = None

    def group_made(self, group: GroupLife) -> None:
        """A receive that was under way may be the new group's first."""
        before = self.groups.get(group.name)
        if before is not None:
            group.open_pops = before.open_pops
            group.lost_pops = before.lost_pops - before.lost_before_quake
        self.groups[group.name] = group

    def pop_lost(self, group: GroupLife) -> None:
        """A receive ended without a known answer."""
        for life in {id(one): one for one in (group, self.groups[group.name])}.values():
            life.lost_pops += 1

    def is_gone(self, message: Message) -> bool:
        """Its topic was deleted."""
        life = message.topic_life
        return life is not None and life != self.topic_lives[message.topic]

    # --- sends ---

    def sending(self, number: int, topic: str, queue_id: int, line: str, tag: str) -> Message:
        name = f"m{number}"
        life = self.topic_lives[topic]
        message = Message(name, topic, life, queue_id, line, tag, body_of(name))
        self.messages[name] = message
        return message

    def sent(self, message: Message, offset: int, now_ms: int) -> None:
        self._placed(message, message.topic, message.queue_id, offset)
        self._known(message, offset)
        message.certain = True
        message.events.append((now_ms, f"stored at {message.topic}/{message.queue_id}@{offset}"))

    def _placed(self, message: Message, topic: str, queue_id: int, offset: int) -> None:
        holder = self.places.setdefault((topic, queue_id, offset), message.id)
        if holder != message.id:
            where = f"{topic}/{queue_id}@{offset}"
            raise Violation("I6", f"{where} is {holder} and {message.id}", message.id)

    def _known(self, message: Message, offset: int) -> None:
        if message.offset == offset:
            return
        if message.offset >= 0:
            raise Violation("I6", f"stored at {message.offset} and at {offset}", message.id)
        message.offset = offset
        line = (message.topic, message.queue_id, message.message_group)
        insort(self.lines.setdefault(line, []), (offset, message), key=lambda one: one[0])

    # --- deliveries ---

    def delivered(
        self,
        group: GroupLife,
        message: Message,
        lease: Lease,
        receipt: Receipt,
    ) -> Standing:
        """One message of a reply. Raises `Violation`."""
        self.deliveries += 1
        stored = f"%RETRY%{group.name}_{message.topic}" if receipt.retry_mark else message.topic
        self._placed(message, stored, receipt.queue_id, receipt.queue_offset)
        if not receipt.retry_mark:
            if receipt.queue_id != message.queue_id:
                raise Violation("I6", "came from another queue", message.id)
            self._known(message, receipt.queue_offset)
        if self.is_gone(message):
            raise Violation("I2", "came after its topic was deleted", message.id)
        if not group.wants(message):
            raise Violation("I2", f"{message.tag!r} is filtered out", message.id)
        standing = group.standing(message)
        self._check_over(standing, lease)
        before = max(
            (one for one in standing.leases if one.key < lease.key),
            default=None,
            key=lambda one: one.key,
        )
        self._check_window(group, message, before, lease)
        self._check_attempt(group, message, before, lease)
        insort(standing.leases, lease, key=lambda one: one.key)
        return standing

    def _check_over(self, standing: Standing, lease: Lease) -> None:
        name = standing.message.id
        if standing.lease(lease.key) is not None:
            raise Violation("I4", f"lease {lease.key} was given out twice", name)
        if standing.acked is not None and lease.key > standing.acked:
            raise Violation("I3", "came after its ack was answered", name)
        if standing.dead is not None and lease.pop_ms > standing.dead[1]:
            raise Violation("I9", "came after it went to the dead letters", name)

    def _check_window(
        self, group: GroupLife, message: Message, before: Lease | None, lease: Lease
    ) -> None:
        if before is None:
            return
        again = group.fifo and before.attempt_id and before.attempt_id == lease.attempt_id
        if not again and lease.pop_ms < min(before.due_ms, before.free_ms):
            text = f"handed out at {lease.pop_ms} while held until {before.due_ms}"
            raise Violation("I4", text, message.id)

    def _check_attempt(
        self, group: GroupLife, message: Message, before: Lease | None, lease: Lease
    ) -> None:
        unknown = group.unknown_pops - (before.lost_before if before else 0)
        last = before.attempt if before else 0
        least = most = last + 1
        if before is not None:
            again = group.fifo and before.attempt_id and before.attempt_id == lease.attempt_id
            # in place it comes back without a record, so a crash may undo that
            sure = before.released >= 0 and (not group.fifo or before.released == self.starts)
            least -= bool(again or before.may_be_released)
            most -= sure
        if not least <= lease.attempt <= most + unknown:
            text = f"attempt {lease.attempt} after {last}, {unknown} receives unknown"
            raise Violation("I8", text, message.id)
        if lease.attempt > group.max_attempts:
            text = f"attempt {lease.attempt} of {group.max_attempts}"
            raise Violation("I9", text, message.id)

    def check_line(self, group: GroupLife, message: Message, came: set[str]) -> None:
        """I7: whatever is before it in its message group is done, or came with it."""
        name = (message.topic, message.queue_id, message.message_group)
        line = self.lines.get(name, [])
        at = self._passed.get((group, name), 0)
        passing = True
        for offset, earlier in line[at:]:
            if offset >= message.offset:
                break
            gone = self.is_gone(earlier)
            standing = group.standings.get(earlier.id)
            if gone or not group.wants(earlier) or (standing is not None and standing.settled):
                at += passing
                continue
            passing = False
            if earlier.id in came or earlier.topic_life is None:
                continue
            if not earlier.certain and standing is None:
                continue
            if standing is None or not standing.may_be_settled:
                raise Violation("I7", f"came before {earlier.id} was done with", message.id)
        self._passed[group, name] = at

    # --- acks ---

    def acked(self, standing: Standing, lease: Lease, invoked_ms: int, *, again: bool) -> None:
        """An ack was answered: done, or (`again`) done before."""
        name = standing.message.id
        if again:
            if lease.acks < 2:
                raise Violation("I5", "already acked, but nobody had", name)
            standing.acked = standing.acked or lease.key
            return
        self.acks_done += 1
        if standing.leases[-1].key > lease.key:
            raise Violation("I5", "an old handle acked it", name)
        if standing.acked is not None and lease.acks < 2:
            raise Violation("I5", "acked twice", name)
        if standing.dead is not None:
            raise Violation("I5", "acked, but in the dead letters", name)
        if invoked_ms >= lease.nacked_ms:
            raise Violation("I5", "acked after its nack was answered", name)
        renewing = lease.made_from is not None and lease.made_from.changes_open
        # A change that was asked again may have renewed it.
        if lease.must_be_over_at(invoked_ms) and not renewing:
            raise Violation("I5", "acked after its time", name)
        standing.acked = lease.key

    def check_held(self, standing: Standing, lease: Lease, now_ms: int, outcome: str) -> None:
        """Whoever holds the newest lease, in time, must not be turned away."""
        alone = standing.newest is lease and not standing.may_be_settled
        if alone and not lease.may_be_replaced and now_ms < lease.held_until_ms:
            raise Violation("I5", f"held, but the answer was {outcome}", standing.message.id)

    # --- dead letters ---

    def buried(
        self, group: GroupLife, message: Message, at: tuple[int, int], attempts: int, reason: str
    ) -> None:
        self.dead_letters += 1
        standing = group.standing(message)
        if standing.dead is not None:
            raise Violation("I9", "in the dead letters twice", message.id)
        if standing.acked is not None:
            raise Violation("I9", "acked, and in the dead letters", message.id)
        if reason == "attempts used up":
            if attempts != group.max_attempts:
                raise Violation("I9", f"dead after {attempts} attempts", message.id)
        elif not standing.forwards_open and not standing.must_be_dead:
            raise Violation("I9", f"dead, but nobody said so: {reason}", message.id)
        standing.dead = at
        message.events.append((at[1], f"{group.name}: dead letter, {reason}"))

    # --- the end ---

    def missing(self, group: GroupLife) -> list[Standing]:
        """What the group must still get: I1."""
        found = []
        for message in self.messages.values():
            if message.topic_life != self.topic_lives[message.topic] or not group.wants(message):
                continue
            standing = group.standings.get(message.id)
            if standing is None:
                begun = group.begun.get((message.topic, message.topic_life))
                late = group.begins_last and (begun is None or int(message.id[1:]) < begun)
                if message.certain and not late:
                    found.append(Standing(message))
            elif not standing.may_be_settled or (standing.must_be_dead and standing.dead is None):
                found.append(standing)
        return found
