"""What sockets have not taken: bytes that have left for their clients, and are still held here.

They count among the unread answers of all clients. A transport tells how much it holds when it is
asked: before the next write, when it is full or empty again, and in each tick for those that held
something. So what is not counted is one write of a connection that read all before it.
"""

import asyncio
from collections import OrderedDict
from typing import Final

from popmq_proxy.front.client_budgets import Account, ClientBudget

LOOKED_AT_MAX: Final = 1_024
"""In one tick."""


class Unsent:
    """Of one connection."""

    __slots__ = ("_account", "_among", "_budget", "_transport", "held_bytes")

    def __init__(
        self,
        transport: asyncio.WriteTransport,
        budget: ClientBudget,
        account: Account,
        among: "Backlogs",
    ) -> None:
        self.held_bytes = 0
        self._transport = transport
        self._budget = budget
        self._account = account
        self._among = among

    def look(self) -> None:
        held_bytes = self._transport.get_write_buffer_size()
        if held_bytes != self.held_bytes:
            self._count(held_bytes)

    def end(self) -> None:
        """The connection is gone."""
        if self.held_bytes:
            self._count(0)

    def _count(self, held_bytes: int) -> None:
        grown_bytes = held_bytes - self.held_bytes
        self.held_bytes = held_bytes
        if held_bytes:
            self._among.ones[self] = None
        else:
            self._among.ones.pop(self, None)
        if grown_bytes > 0:
            self._budget.take(self._account, grown_bytes)
        else:
            self._budget.give(self._account, -grown_bytes)


class Backlogs:
    """Connections whose sockets have not taken all."""

    def __init__(self) -> None:
        self.ones: OrderedDict[Unsent, None] = OrderedDict()

    def look(self) -> None:
        """At some of them, those first that were looked at longest ago."""
        for _ in range(min(LOOKED_AT_MAX, len(self.ones))):
            one, _ = self.ones.popitem(last=False)
            self.ones[one] = None
            one.look()
