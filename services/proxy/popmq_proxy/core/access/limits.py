"""How much a user, a topic, a client may send and wait for.

A bucket holds what is left of a second's worth and fills with time. Who asks for more than that at
once gets it when the bucket is full, and everybody waits until that is made up for.
"""

from dataclasses import dataclass
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

    @property
    def is_none(self) -> bool:
        return not (self.messages_per_s or self.bytes_per_s or self.waiting_receives)


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
    if min(limits.messages_per_s, limits.bytes_per_s, limits.waiting_receives) < 0:
        raise IllegalAccessEntry(reason="a limit is 0, for none, or more")
    subject = f"{found[0]}:{name}"
    return Limits(subject, limits.messages_per_s, limits.bytes_per_s, limits.waiting_receives)


class Amount(NamedTuple):
    """What one request sends."""

    messages: int
    bytes: int


class TokenBucket:
    """A second's worth of something."""

    __slots__ = ("_at_s", "_left", "rate")

    def __init__(self, rate: int, now_s: float) -> None:
        self.rate = rate
        self._left = float(rate)
        self._at_s = now_s

    def wait_s(self, amount: int, now_s: float) -> float:
        """0: so much may be taken now."""
        self._left = min(float(self.rate), self._left + (now_s - self._at_s) * self.rate)
        self._at_s = now_s
        missing = min(amount, self.rate) - self._left
        return max(0.0, missing / self.rate)

    def take(self, amount: int) -> None:
        self._left -= amount
