"""What the connections of one server share: time, budgets, and what each address has of it."""

import asyncio
import gc
from ipaddress import IPv6Address, ip_address
from typing import Final

from popmq_common.process.floods import FloodMemory
from popmq_common.units import KiB
from popmq_proxy.front.client_budgets import Account, Accounts, ClientBudget, ClientBudgets
from popmq_proxy.front.http2.budgets.deadlines import Arrivals, Stalls
from popmq_proxy.front.http2.budgets.idle import AddressFrames, IdleFrames
from popmq_proxy.front.http2.budgets.limits import Http2Limits
from popmq_proxy.front.http2.budgets.scheduler import ConnectionWorker, Scheduler, Use, Work
from popmq_proxy.front.http2.budgets.unsent import Backlogs
from popmq_proxy.front.http2.wire import Error

TASKS_BETWEEN_LOOKS: Final = 128
"""For garbage among young objects."""
LOOKS_AT_YOUNGEST: Final = 3
"""Of as many, the last one is at the next generation too."""
BYTES_OF_A_CALL: Final = 10 * KiB
"""Of held bytes, in the count of what is in use."""
IPV6_NETWORK_BYTES: Final = 8
"""Of an address of IPv6: a client has a network of that length to itself."""


class Address:
    """All connections of a client's address."""

    def __init__(self, connections: Account) -> None:
        self.connections = connections
        self.arriving = Account()
        self.accounts = Accounts(Account(), Account(), Account())
        self.frames = AddressFrames()
        self.use = Use()


class Shared:
    def __init__(self, limits: Http2Limits, budgets: ClientBudgets, connections_max: int) -> None:
        self.limits = limits
        self.budgets = budgets
        self.connections = ClientBudget(connections_max)
        self.scheduler = Scheduler(asyncio.get_running_loop())
        self.arrivals = Arrivals(limits.arriving_max, limits.arrival_s)
        self.stalls = Stalls(limits.stall_s)
        self.backlogs = Backlogs()
        self.memory = FloodMemory(lambda: budgets.calls.taken)
        self.tick = 0
        """Of `TICK_S`, since the start."""
        self._begun_count = 0
        self._addresses: dict[bytes | str, Address] = {}

    def begin_task(self) -> None:
        """Have the collector look at young objects now and then. By itself it waits until there are
        so many more objects than before; where calls end as fast as others begin there may be a
        hundred thousand new ones then, which take 40 ms in one go."""
        self._begun_count += 1
        if self._begun_count % TASKS_BETWEEN_LOOKS == 0:
            looks = self._begun_count // TASKS_BETWEEN_LOOKS
            gc.collect(0 if looks % LOOKS_AT_YOUNGEST else 1)
        self.memory.begin_call()

    def pass_tick(self) -> None:
        """`TICK_S` have passed: requests that did not arrive and answers that nobody reads end."""
        self.tick += 1
        self.backlogs.look()
        self.memory.pass_tick(*self._in_use())
        for stream in (*self.arrivals.overdue(self.tick), *self.stalls.overdue(self.tick)):
            stream.give_up(Error.CANCEL)

    def _in_use(self) -> tuple[int, int]:
        """(now, at most since this was asked last): calls, requests and connections, and for held
        bytes as many as take about so much memory."""
        counted = (self.budgets.calls, self.arrivals.budget, self.connections)
        bytes_of = (self.budgets.request_buffer, self.budgets.answer_buffer)
        now = sum(budget.taken for budget in counted)
        most = sum(budget.most_since() for budget in counted)
        now += sum(budget.taken for budget in bytes_of) // BYTES_OF_A_CALL
        most += sum(budget.most_since() for budget in bytes_of) // BYTES_OF_A_CALL
        return now, most

    def join(self, host: str) -> Address | None:
        """One more connection of this host. None: there is no room for it."""
        network = network_of(host)
        address = self._addresses.get(network)
        account = address.connections if address is not None else self.connections.open()
        if not self.connections.admits(account):
            if address is None:
                self.connections.close(account)
            return None
        if address is None:
            address = self._addresses[network] = Address(account)
        self.connections.take(account)
        address.frames.connection_count += 1
        return address

    def leave(self, host: str) -> None:
        network = network_of(host)
        address = self._addresses[network]
        self.connections.give(address.connections)
        address.frames.connection_count -= 1
        if not address.frames.connection_count:
            self.connections.close(address.connections)
            del self._addresses[network]


class Member:
    """One connection among the others."""

    def __init__(self, shared: Shared, address: Address, work: Work, abort: Work) -> None:
        limits = shared.limits
        self.worker = ConnectionWorker(work, abort, address.use)
        self.idle = IdleFrames(
            address.frames, limits.idle_frames_max, limits.address_idle_frames_max
        )
        self.accounts = shared.budgets.open(address.accounts)
        self.arriving = shared.arrivals.budget.open(address.arriving)
        self._shared = shared

    def leave(self) -> None:
        self._shared.budgets.close(self.accounts)
        self._shared.arrivals.budget.close(self.arriving)


def network_of(host: str) -> bytes | str:
    """By what a client is known: an address of IPv4, a network of IPv6."""
    try:
        found = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if not isinstance(found, IPv6Address):
        return found.packed
    mapped = found.ipv4_mapped
    return mapped.packed if mapped is not None else found.packed[:IPV6_NETWORK_BYTES]
