"""Faults of what is cut, and of what is on disk."""

from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

from replication_sim import following, leading
from replication_sim.disk import Disk
from replication_sim.faults.planting import fault, fault_with
from replication_sim.following import FollowerRole
from replication_sim.leading import PrimaryRole
from replication_sim.replica import Replica

from popmq_broker.core.replication.follower import GoOn, start_of


@fault_with("power", "cut off", "one way", "power of all")
def a_cut_is_in_memory_only() -> Iterator[None]:
    with patch.object(Disk, "zero_from", lambda *_: None):
        yield


@fault
def a_promoted_replica_cuts_to_its_commit_point() -> Iterator[None]:
    real = Replica._promote

    async def promote(self: Replica, *seen: Any) -> None:
        if self.shown_end < self.log_end:
            await self.cut(self.shown_end)
        await real(self, *seen)

    with patch.object(Replica, "_promote", promote):
        yield


@fault
def a_follower_cuts_at_its_commit_point() -> Iterator[None]:
    def start_at(**seen: Any) -> tuple[GoOn, int]:
        start, at = start_of(**seen)
        if start is not GoOn.ANEW and seen["shown_end"] < seen["log_end"]:
            return GoOn.CUT, int(seen["shown_end"])
        return start, at

    with patch.object(following, "start_of", start_at):
        yield


async def _not_awaited(self: Replica) -> int:
    """The sync goes on behind an end that already counts."""

    async def later() -> None:
        await self.disk.sync()

    self.spawn(later())
    self.durable_end = self.log_end
    return self.log_end


def _of(role: type) -> Callable[[Replica], Any]:
    real = Replica.sync

    async def sync(self: Replica) -> int:
        return await (_not_awaited(self) if isinstance(self.role, role) else real(self))

    return sync


@fault
def a_follower_acks_before_its_sync() -> Iterator[None]:
    with patch.object(Replica, "sync", _of(FollowerRole)):
        yield


@fault
def a_primary_counts_before_its_sync() -> Iterator[None]:
    with patch.object(Replica, "sync", _of(PrimaryRole)):
        yield


@fault_with("power", "slow disk", "weather")
def a_hello_counts_what_is_not_synced() -> Iterator[None]:
    real: Callable[..., None] = PrimaryRole.hello

    def hello(self: PrimaryRole, *seen: Any) -> None:
        *first, log_end, _ = seen
        real(self, *first, log_end, log_end)

    with patch.object(PrimaryRole, "hello", hello):
        yield


@fault_with("power", "slow disk", "kill")
def what_a_start_finds_is_not_synced() -> Iterator[None]:
    async def recover(self: Replica) -> None:
        self.log_end = self.durable_end = self.whole_from_start(len(self.disk.log))
        self.shown_end = self._remembered_end()
        await self.persist(epochs=self.meta.epochs.cut(self.log_end + 1))

    with patch.object(Replica, "_recover", recover):
        yield


@fault
def what_is_sent_ends_within_a_record() -> Iterator[None]:
    def end(_log: Any, _start: int, end: int) -> int:
        return end

    with patch.object(leading, "whole_end", end):
        yield
