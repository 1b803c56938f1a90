"""Messages: late, lost, doubled, in any order; partitions, also of one direction."""

import random
from collections.abc import Callable
from typing import Any

from replication_sim.loop import MS, SECOND, Loop

REGISTER = "register"


class Network:
    def __init__(self, loop: Loop, rng: random.Random) -> None:
        self._loop = loop
        self._rng = rng
        self.blocked: set[tuple[str, str]] = set()
        """From, to."""
        self.lost = self.doubled = self.late = 0.0
        """Shares of messages."""

    def send(self, start: str, end: str, deliver: Callable[..., None], *args: Any) -> None:
        if (start, end) in self.blocked:
            return
        chance = self._rng.random
        if chance() < self.lost:
            return
        for _ in range(2 if chance() < self.doubled else 1):
            delay = 100 + int(chance() * 900)
            if chance() < self.late:
                delay = self._rng.choice((20 * MS, 200 * MS, 1 * SECOND, 5 * SECOND, 20 * SECOND))
            self._loop.after(delay, self._arrive, start, end, deliver, args)

    def _arrive(
        self, start: str, end: str, deliver: Callable[..., None], args: tuple[Any, ...]
    ) -> None:
        if (start, end) not in self.blocked:
            deliver(*args)

    def block(self, one: str, other: str, *, both: bool = True) -> None:
        self.blocked.add((one, other))
        if both:
            self.blocked.add((other, one))
