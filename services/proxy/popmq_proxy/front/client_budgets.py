"""Budgets that all clients share: calls under way, the request buffer and the answer buffer.

Three quarters of a budget are for whoever comes first. The next eighth goes by connections: one
gets some while it has less than its part of that eighth, divided among those that have any. The
last eighth goes by addresses in the same way. So one client may use nearly all while the others
need little, and cannot shut them out.
"""

import asyncio
from collections import OrderedDict
from typing import Final

FIRST_COME: Final = 0.75
SHARED: Final = 0.125
"""Of a budget, by connections; and as much by addresses."""
COUNTED_EVERY: Final = 64
"""Questions between two counts of who has any; it matters only where little is left."""
WOKEN_MAX: Final = 8
"""Of those who wait for room, asked again when some is given back."""


class Account:
    """What one connection has of a budget."""

    __slots__ = ("address", "needs", "taken")

    def __init__(self, address: "Account | None" = None) -> None:
        """`address`: what all connections of its address have together; that has none itself."""
        self.address = address
        self.taken = 0
        self.needs = 1
        """What it asked for last when there was too little."""


class ClientBudget:
    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.taken = 0
        self._most = 0
        self._first_come = int(limit * FIRST_COME)
        self._shared = int(limit * SHARED)
        self._accounts: set[Account] = set()
        self._asked = 0
        self._of_connection = self._of_address = self._shared

    def open(self, address: Account | None = None) -> Account:
        """An account; to be closed when its connection ends."""
        made = Account(address)
        self._accounts.add(made)
        return made

    def close(self, account: Account) -> None:
        """What it still has, it gives back as what took it ends."""
        self._accounts.discard(account)

    def admits(self, account: Account, size: int = 1) -> bool:
        """Whether so much more may be taken."""
        return self.taken + size <= self._first_come or size <= self._share_left(account)

    def left(self, account: Account) -> int:
        """How much more may be taken."""
        return max(0, self._first_come - self.taken, self._share_left(account))

    def _share_left(self, account: Account) -> int:
        all_left = self.limit - self.taken
        if self._asked % COUNTED_EVERY == 0:
            self._count_shares()
        self._asked += 1
        left = min(self._of_connection - account.taken, all_left - self._shared)
        if account.address is not None:
            left = max(left, min(self._of_address - account.address.taken, all_left))
        return left

    def take(self, account: Account, size: int = 1) -> None:
        self.taken += size
        if self.taken > self._most:
            self._most = self.taken
        account.taken += size
        if account.address is not None:
            account.address.taken += size

    def give(self, account: Account, size: int = 1) -> None:
        self.taken -= size
        account.taken -= size
        if account.address is not None:
            account.address.taken -= size

    def most_since(self) -> int:
        """The most that was taken at a time since this was asked last."""
        most, self._most = self._most, self.taken
        return most

    def _count_shares(self) -> None:
        using = [one for one in self._accounts if one.taken]
        addresses = {id(one.address) for one in using}
        self._of_connection = max(1, self._shared // (len(using) + 1))
        self._of_address = max(1, self._shared // (len(addresses) + 1))


class AnswerBudget(ClientBudget):
    """Bytes of answers that their clients do not read, as calls see it that bring more of them."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self._waiting: OrderedDict[asyncio.Future[None], Account] = OrderedDict()

    def give(self, account: Account, size: int = 1) -> None:
        super().give(account, size)
        for _ in range(min(WOKEN_MAX, len(self._waiting))):
            woken, who = self._waiting.popitem(last=False)
            if self.has_room(who) and not woken.done():
                woken.set_result(None)
            else:
                self._waiting[woken] = who

    def has_room(self, account: Account) -> bool:
        """For another answer like the last one that found none: an answer that does not fit must
        be given back, which costs much."""
        return self.admits(account, account.needs)

    def fits(self, account: Account, size: int) -> bool:
        """Whether an answer may wait for its client."""
        fits = self.admits(account, size)
        account.needs = 1 if fits else size
        return fits

    async def wait(self, account: Account, seconds: float) -> bool:
        """Until it has room; False: it had none in that time."""
        try:
            async with asyncio.timeout(seconds):
                while not self.has_room(account):
                    await self._wait(account)
        except TimeoutError:
            return False
        return True

    async def _wait(self, account: Account) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[woken] = account
        try:
            await woken
        finally:
            self._waiting.pop(woken, None)


class Accounts:
    """Those of one connection, or of an address."""

    __slots__ = ("answer_buffer", "calls", "request_buffer")

    def __init__(self, calls: Account, request_buffer: Account, answer_buffer: Account) -> None:
        self.calls = calls
        self.request_buffer = request_buffer
        self.answer_buffer = answer_buffer


class ClientBudgets:
    def __init__(self, *, calls_max: int, received_bytes_max: int, unread_bytes_max: int) -> None:
        self.calls = ClientBudget(calls_max)
        """Under way."""
        self.request_buffer = ClientBudget(received_bytes_max)
        """Bytes of requests that nobody works on yet."""
        self.answer_buffer = AnswerBudget(unread_bytes_max)

    def open(self, address: Accounts) -> Accounts:
        return Accounts(
            self.calls.open(address.calls),
            self.request_buffer.open(address.request_buffer),
            self.answer_buffer.open(address.answer_buffer),
        )

    def close(self, accounts: Accounts) -> None:
        self.calls.close(accounts.calls)
        self.request_buffer.close(accounts.request_buffer)
        self.answer_buffer.close(accounts.answer_buffer)
