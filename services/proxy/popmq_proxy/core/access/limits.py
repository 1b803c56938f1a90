"""How much a user, a topic, a client may send, wait for, keep open and create.

A bucket holds what is left of a second's worth (of creations: an hour's) and fills with time. Who
asks for more than that at once gets it when the bucket is full, and everybody waits until that is
made up for.
"""

from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass, replace
from typing import Final, NamedTuple

from popmq_common.errors import IllegalAccessEntry

KINDS: Final = ("User", "Topic", "Client")
EACH: Final = "*"
"""In the place of a name: each that has no limits of its own."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one subject, at each proxy; 0: without a limit."""

    subject: str
    """`User:alice`, `User:*`, `Topic:orders`, `Client:*`."""
    messages_per_s: int = 0
    bytes_per_s: int = 0
    waiting_receives: int = 0
    calls: int = 0
    """Under way; Telemetry is none."""
    connections: int = 0
    creations_per_h: int = 0
    """Topics and groups that first use makes."""

    @property
    def is_none(self) -> bool:
        return not any(self.amounts)

    @property
    def amounts(self) -> tuple[int, ...]:
        _, *amounts = astuple(self)
        return tuple(amounts)


def check_limits(limits: Limits) -> Limits:
    """With its subject as it is written. Raises `IllegalAccessEntry`."""
    kind, colon, name = limits.subject.partition(":")
    found = [one for one in KINDS if one.lower() == kind.strip().lower()]
    if not colon or not name or not found:
        reason = (
            f"{limits.subject!r} is not one of User:NAME, Topic:NAME, Client:*, User:*, Topic:*"
        )
        raise IllegalAccessEntry(reason=reason)
    if found == ["Client"] and name != EACH:
        raise IllegalAccessEntry(reason="clients have limits together: Client:*")
    if min(limits.amounts) < 0:
        raise IllegalAccessEntry(reason="a limit is 0, for none, or more")
    if found == ["Topic"] and (limits.calls or limits.connections):
        raise IllegalAccessEntry(reason="calls and connections are of users and clients")
    if found != ["User"] and limits.creations_per_h:
        raise IllegalAccessEntry(reason="creations are of users: User:NAME, User:*")
    return replace(limits, subject=f"{found[0]}:{name}")


class Ceilings(NamedTuple):
    """One limit of one kind of subject, by name."""

    own: Mapping[str, int]
    """Of those that have limits of their own; 0: not this one."""
    each: int
    """Of the others."""

    def of(self, name: str) -> int:
        """0: without a limit."""
        return self.own.get(name, self.each)


def ceilings(
    limits: Mapping[str, Limits], kind: str, amount: Callable[[Limits], int]
) -> Ceilings | None:
    """`limits` by subject; `kind`: one of `KINDS`. None: nobody has such a limit."""
    amounts = {
        subject.partition(":")[2]: amount(one)
        for subject, one in limits.items()
        if subject.startswith(f"{kind}:")
    }
    each = amounts.pop(EACH, 0)
    return Ceilings(amounts, each) if each or any(amounts.values()) else None


class Amount(NamedTuple):
    """What one request sends."""

    messages: int
    bytes: int


class TokenBucket:
    """What may be taken in `every_s`: a second's worth of something, an hour's."""

    __slots__ = ("_at_s", "_left", "_per_s", "rate")

    def __init__(self, rate: int, now_s: float, every_s: float = 1.0) -> None:
        self.rate = rate
        self._per_s = rate / every_s
        self._left = float(rate)
        self._at_s = now_s

    def wait_s(self, amount: int, now_s: float) -> float:
        """0: so much may be taken now."""
        self._left = min(float(self.rate), self._left + (now_s - self._at_s) * self._per_s)
        self._at_s = now_s
        missing = min(amount, self.rate) - self._left
        return max(0.0, missing / self._per_s)

    def take(self, amount: int) -> None:
        self._left -= amount
