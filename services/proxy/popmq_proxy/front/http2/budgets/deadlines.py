"""By when a request must be whole, and an answer must go on."""

from collections import OrderedDict
from typing import Final

from popmq_common.process.floods import TICK_S
from popmq_proxy.front.client_budgets import Account, ClientBudget
from popmq_proxy.front.http2.stream_state import StreamState

OVERDUE_MAX: Final = 64
"""Streams found in one tick, so that their end holds up nobody."""


class Arrivals:
    """Requests that are not whole, the oldest first."""

    def __init__(self, count_max: int, seconds: float) -> None:
        self.budget = ClientBudget(count_max)
        self._ticks = int(seconds / TICK_S)
        self._streams: OrderedDict[StreamState, Account] = OrderedDict()

    def begin(self, stream: StreamState, account: Account) -> bool:
        """False: there is no room."""
        if not self.budget.admits(account):
            return False
        self.budget.take(account)
        self._streams[stream] = account
        stream.arrives = True
        return True

    def end(self, stream: StreamState) -> None:
        """It is whole, or gone."""
        stream.arrives = False
        self.budget.give(self._streams.pop(stream))
        if not self._streams:
            self._streams.clear()  # a table for thousands would stay as large as it was

    def overdue(self, tick: int) -> list[StreamState]:
        found: list[StreamState] = []
        for stream in self._streams:
            if tick - stream.born_tick <= self._ticks or len(found) == OVERDUE_MAX:
                break
            found.append(stream)
        return found


class Stalls:
    """Answers that wait for their clients, by when something of them left last."""

    def __init__(self, seconds: float) -> None:
        self._ticks = int(seconds / TICK_S)
        self._streams: OrderedDict[StreamState, int] = OrderedDict()

    def goes_on(self, stream: StreamState, tick: int) -> None:
        """It begins to wait, or something has left."""
        self._streams[stream] = tick
        self._streams.move_to_end(stream)

    def end(self, stream: StreamState) -> None:
        self._streams.pop(stream, None)
        if not self._streams:
            self._streams.clear()  # a table for thousands would stay as large as it was

    def overdue(self, tick: int) -> list[StreamState]:
        found: list[StreamState] = []
        for stream, since_tick in self._streams.items():
            if tick - since_tick <= self._ticks or len(found) == OVERDUE_MAX:
                break
            found.append(stream)
        return found
