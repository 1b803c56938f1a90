"""What a replica is made of: its names, its disk, the register, and how a broker is built on it."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from popmq_broker.clients.register.register import Register
from popmq_broker.engine.broker import Broker
from popmq_broker.engine.journal.state import BrokerState
from popmq_broker.engine.replication.directory import ReplicaDirectory
from popmq_broker.engine.replication.follow import ToPrimary
from popmq_broker.store.files.config import StoreConfig
from popmq_broker.store.files.files import Files
from popmq_broker.store.replica_store import ReplicaStore
from popmq_common.process.logs import Log


class Connected(ToPrimary, Protocol):
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaParts:
    name: str
    """Of the broker."""
    replica: str
    address: str
    min_in_sync: int
    lag_ms: int
    lease_s: float
    catch_up_bytes_per_s: int
    register: Register
    directory: ReplicaDirectory
    files: Files
    store_config: StoreConfig
    log: Log
    wall_ms: Callable[[], int]
    steady_ms: Callable[[], int]
    """A clock that never goes back."""
    open_store: Callable[[], Awaitable[ReplicaStore]]
    new_state: Callable[[ReplicaStore], BrokerState]
    """Empty."""
    load: Callable[[BrokerState, bool, int], Awaitable[Broker]]
    """The broker of a state, which is warm or empty, in that epoch."""
    serving: Callable[[Broker, int], AbstractAsyncContextManager[None]]
    """Clients find the broker while it lasts; when its epoch began."""
    connect: Callable[[str], Awaitable[Connected]]
    """To a primary's address."""
