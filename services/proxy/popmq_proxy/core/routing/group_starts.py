"""Which brokers know where a group starts in a topic, and which have still to be told.

    unknown ──told──► fixed
       └──away──► owed ──it answers again, or is asked──► fixed

A proxy keeps this to ask each broker once, and to tell those that were away; the brokers keep the
truth. See popmq_broker/core/groups/starts.py.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

KEPT_MAX: Final = 20_000
"""Groups and topics remembered; one that was forgotten is asked for again."""
AT_ONCE_MS: Final = 2_500
"""Brokers that told their ends within it told them before a consumer was answered that its group
has started: Settings are answered after 3 s at the latest, a receive when all is fixed."""


class StartOf(NamedTuple):
    group: str
    topic: str


class From(NamedTuple):
    """Where a consumer wants its group to start, instead of where the group's settings say."""

    consume_from: str = ""
    """LAST, FIRST or TIME; empty: as the group's settings say."""
    at_ms: int = 0


AS_THE_GROUP: Final = From()


class BrokerStart(NamedTuple):
    """What a broker said of the group's start in the topic."""

    at_ms: int = 0
    """0: the group has no start there."""
    start: From = AS_THE_GROUP
    ends: Sequence[int] = ()
    """Of its queues, when the group has no start there."""
    skipped: int = 0
    is_old: bool = False
    """It knows no starts: each of its queues starts at the group's first pop."""
    has_group: bool = True

    @property
    def is_fixed(self) -> bool:
        return self.is_old or self.at_ms > 0


class StartToFix(NamedTuple):
    """What brokers without a start are told."""

    at_ms: int
    start: From
    is_now: bool
    """The group starts behind what each of them has told to be stored there. Else it started
    earlier, or may have: the place is found by the time."""


@dataclass(slots=True)
class KnownStart:
    heard_ms: int = 0
    """When a consumer of the group was first heard of; 0: never, or the start is known."""
    at_ms: int = 0
    """When the group started; 0: not known."""
    start: From = AS_THE_GROUP
    fixed: set[str] = field(default_factory=set)
    owed: set[str] = field(default_factory=set)
    """Brokers that were away; they are told when they answer again."""
    seen: Sequence[str] = ()
    """The brokers of the last receive, all of them fixed or owed."""


class GroupStarts:
    def __init__(self, kept_max: int = KEPT_MAX) -> None:
        self._kept_max = kept_max
        self._kept: OrderedDict[StartOf, KnownStart] = OrderedDict()
        self._owed: dict[StartOf, None] = {}
        """In the order in which they came; a subset of `_kept`."""

    def lacking(self, key: StartOf, brokers: Sequence[str]) -> list[str]:
        """Brokers that have to be asked before a receive may be answered."""
        kept = self._kept.get(key)
        if kept is None:
            return list(brokers)
        if kept.seen is brokers:
            return []
        found = [one for one in brokers if one not in kept.fixed and one not in kept.owed]
        if not found:
            kept.seen = brokers
        return found

    def heard(self, key: StartOf, now_ms: int) -> int:
        """A consumer of the group is there. From when on what is sent is for the group, if it has
        not started yet: since the first such consumer."""
        kept = self._of(key)
        if kept.at_ms:
            return now_ms
        kept.heard_ms = kept.heard_ms or now_ms
        return min(kept.heard_ms, now_ms)

    def on_replies(self, key: StartOf, replies: Mapping[str, BrokerStart]) -> None:
        """A broker that had the start and has it no more: the group was deleted. But if another
        one still has it, the broker's disk is a new one."""
        kept = self._kept.get(key)
        lost = set() if kept is None else {one for one in kept.fixed & replies.keys()}
        lost = {one for one in lost if not replies[one].is_fixed}
        if kept is None or not lost:
            return
        if any(one.at_ms for one in replies.values()):
            kept.fixed -= lost
            kept.seen = ()
        else:
            self.forget(key)

    def beginning(
        self,
        key: StartOf,
        replies: Mapping[str, BrokerStart],
        *,
        heard_ms: int,
        now_ms: int,
        start: From | None,
        all_replied: bool,
    ) -> StartToFix | None:
        """By what brokers have told just now, or what is remembered here.

        Where nobody knows a start, one is made, as `start` says; None: none is made. If some broker
        has not told (`all_replied` is false), the group may have started without anybody knowing it
        here: then nothing is skipped that was sent lately, see `is_now`.
        """
        known = [(one.at_ms, one.start) for one in replies.values() if one.at_ms]
        kept = self._kept.get(key)
        if kept is not None and kept.at_ms:
            known.append((kept.at_ms, kept.start))
        if known:
            return StartToFix(*min(known), is_now=False)
        if start is None:
            return None
        return StartToFix(heard_ms, start, is_now=all_replied and now_ms - heard_ms <= AT_ONCE_MS)

    def knows(self, key: StartOf) -> bool:
        kept = self._kept.get(key)
        return kept is not None and kept.at_ms > 0

    def knowing(self, key: StartOf) -> set[str]:
        """Brokers that have the start, by what is remembered here."""
        kept = self._kept.get(key)
        return set() if kept is None else set(kept.fixed)

    def begun(self, key: StartOf, at_ms: int, start: From, brokers: Mapping[str, bool]) -> None:
        """The group starts there. `brokers`: whether each has it on its disk now; the others are
        owed it."""
        kept = self._of(key)
        kept.heard_ms, kept.at_ms, kept.start = 0, at_ms, start
        for broker, has_it in brokers.items():
            (kept.fixed if has_it else kept.owed).add(broker)
            (kept.owed if has_it else kept.fixed).discard(broker)
        if kept.owed:
            self._owed[key] = None
        else:
            self._owed.pop(key, None)

    def refused(self, key: StartOf, broker: str) -> None:
        """The broker has said that it has no start, or not the group. One that is owed it has still
        to be told, before its next receive; of one that had it the group was deleted."""
        kept = self._kept.get(key)
        if kept is None:
            return
        if broker in kept.fixed:
            self.forget(key)
            return
        kept.owed.discard(broker)
        kept.seen = ()
        if not kept.owed:
            self._owed.pop(key, None)

    def owed(self) -> Iterator[tuple[StartOf, list[str]]]:
        """The brokers that each start is owed to; the table may change meanwhile."""
        for key in list(self._owed):
            kept = self._kept.get(key)
            if kept is not None and kept.owed:
                yield key, sorted(kept.owed)

    def forget(self, key: StartOf) -> None:
        """The group was deleted."""
        self._kept.pop(key, None)
        self._owed.pop(key, None)

    def forget_group(self, group: str) -> None:
        for key in [key for key in self._kept if key.group == group]:
            self.forget(key)

    def _of(self, key: StartOf) -> KnownStart:
        kept = self._kept.get(key)
        if kept is None:
            kept = self._kept[key] = KnownStart()
            if len(self._kept) > self._kept_max:
                oldest, _ = self._kept.popitem(last=False)
                self._owed.pop(oldest, None)
        return kept
