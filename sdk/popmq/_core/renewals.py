"""When which lease is renewed.

    hold ──half of its time──► under way ──renewed──► held again
                                   └──failed──► again soon, until the lease is over

A lease is renewed at half of its time until it is ended, or has been held for its longest time:
then it runs out, and the message is redelivered.

Leases that wait equally long are kept together, in the order of their times, so that holding and
ending one costs the same however many there are. Most leases end before they are ever due: those
that begin together share one `Term`, and only one that is renewed gets a `Held` of its own.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
AGAIN: Final = 8
"""A renewal that failed is tried again after this part of the lease's time."""


@dataclass(slots=True, eq=False)
class Term:
    """Of leases that began together."""

    lease_s: float
    until_s: float
    """When it is over, as far as is known."""
    last_s: float
    """It is not renewed from then on."""
    due_s: float
    wait_s: float
    """From when it was last put off until `due_s`."""


@dataclass(slots=True, eq=False)
class Held(Term, Generic[K]):
    """Of one lease that is being renewed, or was."""

    key: K
    under_way: bool
    handle_stays: bool = False
    """The renewal that is under way gives it no new receipt handle."""


class LeaseRenewals(Generic[K]):
    def __init__(self) -> None:
        self._held: dict[K, Term] = {}
        self._by_wait: dict[float, dict[K, Term]] = {}
        """Wait until it is due → leases that wait so long, the first one due first."""

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, key: K, now_s: float, lease_s: float, longest_s: float) -> float:
        """A new lease, or a new length of one that is held; returns when it is due."""
        return self.hold_all([key], now_s, lease_s, longest_s)

    def hold_all(self, keys: Sequence[K], now_s: float, lease_s: float, longest_s: float) -> float:
        """The same for leases that begin together."""
        after_s = lease_s / 2
        due_s = now_s + after_s
        term = Term(lease_s, now_s + lease_s, now_s + longest_s, due_s, after_s)
        for key in keys:
            known = self._held.pop(key, None)
            if known is not None:
                self._take_out(key, known)
            self._held[key] = term
        self._by_wait.setdefault(after_s, {}).update(dict.fromkeys(keys, term))
        return due_s

    def end(self, key: K) -> bool:
        """It is renewed no more; True: a renewal is under way."""
        term = self._held.pop(key, None)
        if term is None:
            return False
        self._take_out(key, term)
        return isinstance(term, Held) and term.under_way

    def end_now(self, key: K) -> bool:
        """The same, unless a renewal is under way that gives it a new handle: then nothing changes,
        and it is False."""
        term = self._held.get(key)
        if term is not None:
            if isinstance(term, Held) and term.under_way and not term.handle_stays:
                return False
            del self._held[key]
            self._take_out(key, term)
        return True

    def holds(self, key: K) -> bool:
        return key in self._held

    def due(self, now_s: float, count_max: int) -> tuple[list[Held[K]], list[K]]:
        """Up to `count_max` leases to renew now, from now on under way; and those that are let go
        of: they have been held for their longest time, or are over."""
        renew: list[Held[K]] = []
        over: list[K] = []
        for line in list(self._by_wait.values()):
            while line and len(renew) < count_max:
                key, term = next(iter(line.items()))
                if term.due_s > now_s:
                    break
                self._take_out(key, term)
                if now_s >= min(term.last_s, term.until_s):
                    del self._held[key]
                    over.append(key)
                else:
                    held = Held(
                        term.lease_s, term.until_s, term.last_s, term.due_s, term.wait_s, key, True
                    )
                    self._held[key] = held
                    renew.append(held)
        return renew, over

    def renewed(self, held: Held[K], asked_s: float, now_s: float) -> bool:
        """The server said so; the lease counts from `asked_s`. False: it was ended meanwhile."""
        held.under_way = False
        if self._held.get(held.key) is not held:
            return False
        held.until_s = asked_s + held.lease_s
        self._join(held, now_s, held.lease_s / 2)
        return True

    def failed(self, held: Held[K], now_s: float) -> None:
        held.under_way = False
        if self._held.get(held.key) is held:
            self._join(held, now_s, held.lease_s / AGAIN)

    def next_s(self) -> float | None:
        """When something is due next."""
        firsts = [next(iter(line.values())).due_s for line in self._by_wait.values() if line]
        return min(firsts, default=None)

    def _join(self, held: Held[K], now_s: float, after_s: float) -> None:
        held.wait_s, held.due_s = after_s, now_s + after_s
        self._by_wait.setdefault(after_s, {})[held.key] = held

    def _take_out(self, key: K, term: Term) -> None:
        line = self._by_wait.get(term.wait_s)
        if line is not None and line.get(key) is term:
            del line[key]
            if not line:
                del self._by_wait[term.wait_s]
