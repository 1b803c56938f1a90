"""Gathering: sends of a proxy that wait for others leave for one broker together.

With several brokers each would get its part of a stream by itself, though together the sends are
many enough to wait for each other. So they are counted together, and one whose place is free goes
where others wait already. Who begins a gathering takes the next broker in turn, so that all get as
much in the long run.
"""

from typing import Protocol

from popmq_proxy.core.routing.linger import Linger


class Departing(Protocol):
    """A link to a broker."""

    @property
    def broker(self) -> str: ...

    def hurry(self) -> None:
        """What waits there leaves soon."""
        ...


class Gathering:
    def __init__(self, wait_ms_max: int = 0) -> None:
        """See `Linger`."""
        self._linger = Linger(wait_ms_max)
        self._under_way = 0
        self._waiting: dict[str, Departing] = {}
        self._broker = ""
        self._until_s = 0.0

    def begin(self, link: Departing, now_s: float) -> float:
        """How many seconds a send over this link waits. One that does not takes along what waits
        at all of them: then every client waits for an answer."""
        self._under_way += 1
        wait_s = self._linger.wait_s(now_s, self._under_way)
        if wait_s:
            self._waiting[link.broker] = link
            if now_s >= self._until_s:
                self._broker, self._until_s = link.broker, now_s + wait_s
        elif self._waiting:
            waiting, self._waiting = self._waiting, {}
            self._until_s = 0.0
            for other in waiting.values():
                other.hurry()
        return wait_s

    def end(self, count: int = 1) -> None:
        """So many sends have their answer, or will not get one."""
        self._under_way -= count

    def place(self, now_s: float) -> str:
        """The broker for which sends wait now; empty: none do."""
        return self._broker if now_s < self._until_s else ""
