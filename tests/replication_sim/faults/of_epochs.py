"""Faults of epochs."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from replication_sim import leading
from replication_sim.faults.planting import fault
from replication_sim.following import FollowerRole
from replication_sim.leading import PrimaryRole
from replication_sim.replica import Replica

from popmq_broker.core.replication.epochs import Epochs, EpochStart, epoch_at
from popmq_broker.core.replication.follower import Following, Shipment


@fault
def a_primary_restarts_without_a_new_epoch() -> Iterator[None]:
    real = Replica._lead

    async def lead(self: Replica, view: Any) -> None:
        record = view.record
        if record.primary != self.name or record.epoch != self.meta.epochs.promised:
            await real(self, view)
            return
        self.world.judge.began(self.run_name, record.epoch, self.disk)
        self.append()
        await self._play(PrimaryRole(self, record, view.version))

    with patch.object(Replica, "_lead", lead):
        yield


@fault
def an_epoch_is_not_on_disk_before_its_bytes() -> Iterator[None]:
    real = FollowerRole._take

    async def take(self: FollowerRole, one: Following, shipment: Shipment) -> None:
        begins = one.check(shipment)
        if begins is not None:
            self._replica.meta = replace(self._replica.meta, epochs=one.begin(begins))
        await real(self, one, shipment)

    with patch.object(FollowerRole, "_take", take):
        yield


@fault
def the_own_epoch_is_not_on_disk_before_its_bytes() -> Iterator[None]:
    real = Replica.persist

    async def persist(self: Replica, **changes: Any) -> None:
        epochs: Epochs = changes.get("epochs", Epochs())
        begun = epochs.last == EpochStart(epochs.promised, self.log_end)
        if begun and self.role is None:
            self.meta = replace(self.meta, **changes)
        else:
            await real(self, **changes)

    with patch.object(Replica, "persist", persist):
        yield


@fault
def a_promise_is_not_on_disk() -> Iterator[None]:
    async def promise(self: FollowerRole) -> None:
        one = self._replica
        await one.persist(identity=self._record.identity)
        one.meta = replace(one.meta, epochs=one.meta.epochs.promise(self._record.epoch))

    with patch.object(FollowerRole, "_promise", promise):
        yield


@fault
def bytes_of_two_epochs_have_the_name_of_one() -> Iterator[None]:
    def found_at(*seen: Any) -> Any:
        found = epoch_at(*seen)
        return None if found is None else (found[0], None)

    with patch.object(leading, "epoch_at", found_at):
        yield


@fault
def a_start_keeps_epochs_behind_its_end() -> Iterator[None]:
    def cut(self: Epochs, _: int) -> Epochs:
        return self

    with patch.object(Epochs, "cut", cut):
        yield
