"""What each group asked for last: remembered to tell why a message was passed over.

Of a group's receives of a topic the last one is kept, since the broker's start. Nothing is decided
by it.
"""

from collections import OrderedDict
from typing import Final, NamedTuple

from popmq_broker.core.filters.filter import Filter

PAIRS_MAX: Final = 20_000
"""Groups and topics that are remembered; who was silent longest is forgotten first."""


class LastReceive(NamedTuple):
    at_ms: int
    wanted: Filter
    expression: str
    """As the consumer wrote it; empty: everything."""


class LastReceives:
    def __init__(self, pairs_max: int = PAIRS_MAX) -> None:
        self._pairs_max = pairs_max
        self._last: OrderedDict[tuple[str, str], LastReceive] = OrderedDict()

    def __len__(self) -> int:
        return len(self._last)

    def note(self, group: str, topic: str, receive: LastReceive) -> None:
        """0.3 µs."""
        key = (group, topic)
        self._last[key] = receive
        self._last.move_to_end(key)
        if len(self._last) > self._pairs_max:
            self._last.popitem(last=False)

    def of(self, group: str, topic: str) -> LastReceive | None:
        """`topic` is the one the group consumes, never the retry topic."""
        return self._last.get((group, topic))
