"""Faults of what is cut, and of what is on disk."""

from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

from replication_sim import following
from replication_sim.disk import Disk
from replication_sim.faults.planting import fault
from replication_sim.following import FollowerRole
from replication_sim.leading import PrimaryRole
from replication_sim.replica import Replica

from popmq_broker.core.replication.follower import GoOn, start_of


@fault
def a_cut_is_in_memory_only() -> Iterator[None]:
    with patch.object(Disk, "zero_from", lambda *_: None):
        yield


@fault
def a_cut_leaves_the_epochs() -> Iterator[None]:
    async def cut(self: Replica, end: int) -> None:
        self.world.judge.cut(self.run_name, end, self.disk)
        self.log_end = self.durable_end = end
        self.disk.zero_from(end)
        await self.disk.sync()

    with patch.object(Replica, "cut", cut):
        yield


@fault
def epochs_are_cut_before_the_bytes() -> Iterator[None]:
    real = Replica.cut

    async def cut(self: Replica, end: int) -> None:
        await self.persist(epochs=self.meta.epochs.cut(end))
        await real(self, end)

    with patch.object(Replica, "cut", cut):
        yield


@fault
def a_promoted_replica_cuts_to_its_commit_point() -> Iterator[None]:
    async def cut(self: Replica) -> None:
        if self.shown_end < self.log_end:
            await self.cut(self.shown_end)

    with patch.object(Replica, "_cut_half_a_record", cut):
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


@fault
def an_epoch_begins_behind_half_a_record() -> Iterator[None]:
    async def cut(_: Replica) -> None:
        return

    with patch.object(Replica, "_cut_half_a_record", cut):
        yield


@fault
def half_a_record_is_shown() -> Iterator[None]:
    def whole(_: Replica, end: int) -> int:
        return end

    with patch.object(Replica, "whole", whole):
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


@fault
def a_hello_counts_what_is_not_synced() -> Iterator[None]:
    real: Callable[..., None] = PrimaryRole.hello

    def hello(self: PrimaryRole, *seen: Any) -> None:
        *first, log_end, _ = seen
        real(self, *first, log_end, log_end)

    with patch.object(PrimaryRole, "hello", hello):
        yield


@fault
def what_a_start_finds_is_not_synced() -> Iterator[None]:
    async def recover(self: Replica) -> None:
        self.log_end = self.durable_end = self.whole_from_start(len(self.disk.log))
        self.shown_end = self._remembered_end()
        await self.persist(epochs=self.meta.epochs.cut(self.log_end + 1))

    with patch.object(Replica, "_recover", recover):
        yield
