"""Polls that wait at one broker, and what is known of the others.

A receive of a topic on several brokers waits at one of them, and its proxy watches the others for
it: one watch for all polls of a group and topic with one filter. A broker that has something says
so, and one of the polls goes there and looks.

    unwatched ──watch begun──► watched ──a poll looked there and found nothing──► quiet
        ▲                         │                                                │
        └── it spoke, or failed ──┴────────────────────────────────────────────────┘

A poll that begins looks at all brokers that are not quiet. Quiet lasts `QUIET_S` at most: if a word
was ever lost, the next poll finds out. Pure: the caller tells the time, and sends what is decided.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

QUIET_S: Final = 10.0
UNUSED_S: Final = 10.0
"""How long brokers are watched when the last poll has ended: the client's next one comes soon."""
KEYS_MAX: Final = 20_000
"""Groups, topics and filters watched at a time. Polls of more wait where they were sent alone."""


class WatchKey(NamedTuple):
    group: str
    topic: str
    filter_kind: int
    filter_expression: str


@dataclass(slots=True, eq=False)
class WatchedPoll:
    number: int
    """Of its pops, by which they can be cut short."""
    key: WatchKey
    at: str = ""
    """The broker that it waits at; empty: it goes from broker to broker just now."""
    heard: str = ""
    """A broker that has something, where it must look next."""


@dataclass(slots=True)
class WatchedBroker:
    """What is known of one broker."""

    watched: bool = False
    quiet_until_s: float = 0.0


@dataclass(slots=True)
class PollGroup:
    """All polls of one key."""

    polls: dict[int, WatchedPoll] = field(default_factory=dict)
    brokers: dict[str, WatchedBroker] = field(default_factory=dict)
    unused_since_s: float = 0.0


class WatchedPolls:
    def __init__(self, keys_max: int = KEYS_MAX) -> None:
        self._keys_max = keys_max
        self._watched: dict[WatchKey, PollGroup] = {}

    def enter(self, poll: WatchedPoll) -> bool:
        """False: too many keys, nobody will tell this poll anything."""
        found = self._watched.get(poll.key)
        if found is None:
            if len(self._watched) >= self._keys_max:
                return False
            found = self._watched[poll.key] = PollGroup()
        found.polls[poll.number] = poll
        return True

    def leave(self, poll: WatchedPoll, now_s: float) -> None:
        found = self._watched.get(poll.key)
        if found is not None and poll.number in found.polls:
            del found.polls[poll.number]
            found.unused_since_s = now_s

    def to_look_at(self, key: WatchKey, others: Sequence[str], now_s: float) -> list[str]:
        """Those of `others` that may have something."""
        found = self._watched.get(key)
        if found is None:
            return list(others)
        brokers = found.brokers
        return [one for one in others if one not in brokers or brokers[one].quiet_until_s <= now_s]

    def begin_watch(self, key: WatchKey, broker: str) -> bool:
        """True: the caller begins one now, before it looks there."""
        found = self._watched.get(key)
        if found is None:
            return False
        known = found.brokers.setdefault(broker, WatchedBroker())
        was_watched, known.watched = known.watched, True
        return not was_watched

    def found_nothing(self, key: WatchKey, broker: str, now_s: float) -> None:
        """A poll looked, while the broker was watched."""
        found = self._watched.get(key)
        known = None if found is None else found.brokers.get(broker)
        if known is not None and known.watched:
            known.quiet_until_s = now_s + QUIET_S

    def spoke(self, key: WatchKey, broker: str) -> WatchedPoll | None:
        """The broker has something. The poll that must look there; None: there is none for it."""
        self.lost(key, broker)
        found = self._watched.get(key)
        if found is None:
            return None
        for poll in found.polls.values():
            if not poll.heard and poll.at != broker:
                poll.heard = broker
                return poll
        return None

    def lost(self, key: WatchKey, broker: str) -> None:
        """It is not watched any more."""
        found = self._watched.get(key)
        if found is not None and broker in found.brokers:
            found.brokers[broker] = WatchedBroker()

    def unwatched(self) -> Iterator[tuple[WatchKey, set[str]]]:
        """Keys whose polls wait, and the brokers that are watched for them."""
        for key, found in list(self._watched.items()):
            if found.polls:
                yield key, {broker for broker, known in found.brokers.items() if known.watched}

    def forget_unused(self, now_s: float) -> list[WatchKey]:
        """Keys that no poll has waited for lately; their watches are to be ended."""
        unused = [
            key
            for key, found in self._watched.items()
            if not found.polls and now_s - found.unused_since_s >= UNUSED_S
        ]
        for key in unused:
            del self._watched[key]
        return unused
