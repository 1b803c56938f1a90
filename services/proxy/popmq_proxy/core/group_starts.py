"""Which brokers know where a group starts in a topic, and which have still to be told.

    unknown ──told──► fixed
       └──away──► owed ──it answers again──► fixed

A proxy keeps this to ask each broker once; the brokers keep the truth. See
popmq_broker/core/starts.py.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

KEPT_MAX: Final = 20_000
"""Groups and topics remembered; one that was forgotten is asked for again."""


class Key(NamedTuple):
    group: str
    topic: str


class Moment(NamedTuple):
    at_ms: int
    is_now: bool
    """Nobody knew a start: the group starts behind what is stored now."""


@dataclass(slots=True)
class Standing:
    at_ms: int = 0
    """When the group started; 0: no broker has said yet."""
    fixed: set[str] = field(default_factory=set)
    owed: set[str] = field(default_factory=set)
    """Brokers that were away; they are told when they answer again."""
    seen: Sequence[str] = ()
    """The brokers of the last receive, all of them fixed or owed."""


class GroupStarts:
    def __init__(self, kept_max: int = KEPT_MAX) -> None:
        self._kept_max = kept_max
        self._kept: OrderedDict[Key, Standing] = OrderedDict()
        self._owed: dict[Key, None] = {}
        """In the order in which they came; a subset of `_kept`."""

    def lacking(self, key: Key, brokers: Sequence[str]) -> list[str]:
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

    def moment(self, key: Key, told: Mapping[str, int], now_ms: int) -> Moment:
        """When the group started, as brokers have told just now (0: it has no start there), or as
        it is remembered here, if no broker has forgotten it since: then the group was deleted."""
        known = [at_ms for at_ms in told.values() if at_ms]
        kept = self._kept.get(key)
        if kept is not None and kept.at_ms and all(told.get(one, 1) for one in kept.fixed):
            known.append(kept.at_ms)
        return Moment(min(known), False) if known else Moment(now_ms, True)

    def knowing(self, key: Key) -> set[str]:
        """Brokers that have the start, by what is remembered here."""
        kept = self._kept.get(key)
        return set() if kept is None else set(kept.fixed)

    def fixed(self, key: Key, broker: str, at_ms: int) -> None:
        kept = self._of(key)
        kept.at_ms = at_ms
        kept.fixed.add(broker)
        kept.owed.discard(broker)
        if not kept.owed:
            self._owed.pop(key, None)

    def away(self, key: Key, broker: str) -> None:
        kept = self._of(key)
        kept.fixed.discard(broker)
        kept.owed.add(broker)
        self._owed[key] = None

    def owed(self) -> Iterator[tuple[Key, list[str]]]:
        """The brokers that each start is owed to; the table may change meanwhile."""
        for key in list(self._owed):
            kept = self._kept.get(key)
            if kept is not None and kept.owed:
                yield key, sorted(kept.owed)

    def forget(self, key: Key) -> None:
        """A broker does not know it: the group was deleted, or the broker's disk is a new one."""
        self._kept.pop(key, None)
        self._owed.pop(key, None)

    def forget_group(self, group: str) -> None:
        for key in [key for key in self._kept if key.group == group]:
            self.forget(key)

    def _of(self, key: Key) -> Standing:
        kept = self._kept.get(key)
        if kept is None:
            kept = self._kept[key] = Standing()
            if len(self._kept) > self._kept_max:
                oldest, _ = self._kept.popitem(last=False)
                self._owed.pop(oldest, None)
        return kept
