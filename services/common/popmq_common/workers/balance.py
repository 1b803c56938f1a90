"""When a worker gives up a client's connection, so that the client comes to one with less to do.

Who connects gets the worker with the fewest connections, whatever these do later. So several that
do much may meet at one worker while another is idle, and a client has but one connection. When that
lasts, the busy worker parts with one of them; the client connects again and is handed to the other.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

LOOK_S: Final = 1.0
"""Between two looks at how busy the workers are."""
RETURN_S: Final = 10.0
"""How long a client may take to connect again."""


@dataclass(frozen=True, slots=True)
class BalanceRules:
    busy: float = 0.8
    """Of a core. A worker that uses less is not relieved."""
    gap: float = 0.4
    """Of a core, between the busiest and the least busy."""
    looks: int = 5
    """In a row at which it was so."""
    rest_looks: int = 10
    """After a move: the clients have connected again, and the figures are new."""


RULES: Final = BalanceRules()


class ConnectionMove(NamedTuple):
    busiest: int
    least_busy: int
    share: float
    """Of what the busiest has to do: with that much less both would have the same."""


class WorkerBalance:
    """Told at each look how busy the workers are; workers by number."""

    def __init__(self, rules: BalanceRules) -> None:
        self._rules = rules
        self._busiest: int | None = None
        self._seen = 0
        self._rests = 0

    def look(self, busy: Mapping[int, float], takes: Mapping[int, bool]) -> ConnectionMove | None:
        """`busy`: parts of a core that they used since the last look. `takes`: it may be handed
        connections. None: nothing is to be done."""
        if self._rests:
            self._rests -= 1
            return None
        targets = [number for number in busy if takes[number]]
        if len(busy) < 2 or not targets:
            return None
        busiest = max(busy, key=lambda number: busy[number])
        least_busy = min(targets, key=lambda number: busy[number])
        gap = busy[busiest] - busy[least_busy]
        if busy[busiest] < self._rules.busy or gap < self._rules.gap:
            self._seen = 0
            return None
        if busiest != self._busiest:
            self._seen = 0
        self._busiest = busiest
        self._seen += 1
        if self._seen < self._rules.looks:
            return None
        self._seen, self._rests = 0, self._rules.rest_looks
        return ConnectionMove(busiest, least_busy, gap / 2 / busy[busiest])


class MovedClients:
    """Clients with which a busy worker has parted, and where they go when they connect again."""

    def __init__(self) -> None:
        self._expected: deque[tuple[str, int, float]] = deque()
        """Address, worker, until when."""

    def expect(self, address: str, worker: int, now_s: float) -> None:
        self._expected.append((address, worker, now_s + RETURN_S))

    def worker_for(self, address: str, now_s: float) -> int | None:
        """None: it is not expected. One of several with its address is taken for the other."""
        while self._expected and self._expected[0][2] < now_s:
            self._expected.popleft()
        for one in self._expected:
            if one[0] == address:
                self._expected.remove(one)
                return one[1]
        return None
