"""When which lease is renewed.

    hold ──half of its time──► under way ──renewed──► held again
                                   └──failed──► again soon, until the lease is over

A lease is renewed at half of its time until it is ended, or has been held for its longest time:
then it runs out, and the message comes again.

Leases of one length are in one line, in the order of their times, so that holding and ending one
costs the same however many there are. Most leases end before they are ever due.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
AGAIN: Final = 8
"""A renewal that failed is tried again after this part of the lease's time."""


@dataclass(slots=True, eq=False)
class Held(Generic[K]):
    key: K
    lease_s: float
    until_s: float
    """When it is over, as far as is known."""
    last_s: float
    """It is not renewed from then on."""
    due_s: float
    line: float
    under_way: bool = False


class Renewals(Generic[K]):
    def __init__(self) -> None:
        self._held: dict[K, Held[K]] = {}
        self._lines: dict[float, dict[K, Held[K]]] = {}
        """How long from joining a line until due → who is in it, the first one due first."""

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, key: K, now_s: float, lease_s: float, longest_s: float) -> float:
        """A new lease, or a new length of one that is held; returns when it is due."""
        known = self._held.pop(key, None)
        if known is not None:
            self._leave_line(known)
        last_s = now_s + longest_s
        held = Held(key, lease_s, now_s + lease_s, last_s, 0.0, 0.0)
        self._held[key] = held
        self._join(held, now_s, lease_s / 2)
        return held.due_s

    def end(self, key: K) -> bool:
        """It is renewed no more; True: a renewal is under way."""
        held = self._held.pop(key, None)
        if held is None:
            return False
        self._leave_line(held)
        return held.under_way

    def holds(self, key: K) -> bool:
        return key in self._held

    def due(self, now_s: float, room: int) -> tuple[list[Held[K]], list[K]]:
        """Up to `room` leases to renew now, from now on under way; and those that are let go of:
        they have been held for their longest time, or are over."""
        renew: list[Held[K]] = []
        over: list[K] = []
        for line in list(self._lines.values()):
            while line and len(renew) < room:
                held = next(iter(line.values()))
                if held.due_s > now_s:
                    break
                self._leave_line(held)
                if now_s >= min(held.last_s, held.until_s):
                    del self._held[held.key]
                    over.append(held.key)
                else:
                    held.under_way = True
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
        firsts = [next(iter(line.values())).due_s for line in self._lines.values() if line]
        return min(firsts, default=None)

    def _join(self, held: Held[K], now_s: float, after_s: float) -> None:
        held.line, held.due_s = after_s, now_s + after_s
        self._lines.setdefault(after_s, {})[held.key] = held

    def _leave_line(self, held: Held[K]) -> None:
        line = self._lines.get(held.line)
        if line is not None and line.get(held.key) is held:
            del line[held.key]
            if not line:
                del self._lines[held.line]
