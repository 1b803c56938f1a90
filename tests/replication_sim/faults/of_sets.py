"""Faults of the set in sync, of who is who, and of what is shown."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from replication_sim import replica
from replication_sim.disk import Meta
from replication_sim.faults.planting import fault, fault_with
from replication_sim.leading import PrimaryRole
from replication_sim.world import World

from popmq_broker.core.replication import election
from popmq_broker.core.replication.follower import Following
from popmq_broker.core.replication.group_record import GroupRecord
from popmq_broker.core.replication.primary import Primary


@fault
def any_replicas_count() -> Iterator[None]:
    def advance(self: Primary) -> int:
        ends = [self._durable_end, *(one.durable_end for one in self.followers.values())]
        if len(ends) >= self.record.min_in_sync:
            end = sorted(ends)[-self.record.min_in_sync]
            self.commit_point = max(self.commit_point, end)
        return self.commit_point

    with patch.object(Primary, "_advance", advance):
        yield


@fault
def the_proposed_set_is_forgotten() -> Iterator[None]:
    def counted(self: Primary) -> list[tuple[str, str]]:
        return list(self.record.in_sync.items())

    with patch.object(Primary, "_counted", counted):
        yield


@fault
def a_member_is_out_before_the_register_says_so() -> Iterator[None]:
    def counted(self: Primary) -> list[tuple[str, str]]:
        return list((self.proposed or self.record).in_sync.items())

    with patch.object(Primary, "_counted", counted):
        yield


@fault
def a_member_is_added_before_it_has_all() -> Iterator[None]:
    def may_be_added(self: Primary, name: str, one: Any, _: int) -> bool:
        return not self.record.counts(name, one.incarnation)

    with patch.object(Primary, "_may_be_added", may_be_added):
        yield


@fault
def the_set_shrinks_below_the_minimum() -> Iterator[None]:
    real = Primary.propose

    def propose(self: Primary, now_ms: int) -> GroupRecord | None:
        record, least = self.record, self.record.min_in_sync
        self.record = replace(record, min_in_sync=1)
        real(self, now_ms)
        self.record = record
        if self.proposed is not None:
            self.proposed = replace(self.proposed, min_in_sync=least)
        return self.proposed

    with patch.object(Primary, "propose", propose):
        yield


@fault
def a_new_primary_keeps_too_few() -> Iterator[None]:
    real = election.next_epoch

    def next_epoch(me: Any, record: GroupRecord, *more: Any) -> GroupRecord:
        made = real(me, replace(record, min_in_sync=1), *more)
        return replace(made, min_in_sync=record.min_in_sync)

    with patch.object(replica, "next_epoch", next_epoch):
        yield


@fault_with("one way", "weather", "wipe")
def an_answer_that_was_lost_is_a_refusal() -> Iterator[None]:
    real, goes_on = PrimaryRole._propose, PrimaryRole._goes_on

    async def propose(self: PrimaryRole) -> None:
        await real(self)
        self.primary.proposed = None

    async def look(self: PrimaryRole, view: Any) -> bool:
        if view.record is not None and view.record.epoch == self.primary.record.epoch:
            self._version = max(self._version, view.version)
        return await goes_on(self, view)

    with patch.multiple(PrimaryRole, _propose=propose, _goes_on=look):
        yield


@fault_with("wipe", "weather", "pause")
def acks_of_an_old_session_count() -> Iterator[None]:
    real = Primary.heard

    def heard(self: Primary, name: str, session: int, *more: Any) -> int:
        known = self.followers.get(name)
        return real(self, name, session if known is None else known.session, *more)

    with patch.object(Primary, "heard", heard):
        yield


@fault
def a_wiped_directory_is_the_old_one() -> Iterator[None]:
    real = World.new_disk

    def new_disk(self: World, name: str) -> None:
        before = self.disks.get(name)
        real(self, name)
        if before is not None:
            disk = self.disks[name]
            disk.meta = Meta(before.meta.incarnation, before.meta.identity)
            self.judge.disks[disk.meta.incarnation] = disk

    with patch.object(World, "new_disk", new_disk):
        yield


@fault
def a_directory_has_two_processes() -> Iterator[None]:
    def start_second(self: World, name: str) -> None:
        if name in self.running and len(self.doubles) < 2:
            self.doubles.append(self._process(name))

    with patch.object(World, "start_second", start_second):
        yield


@fault
def another_directory_beats_for_the_primary() -> Iterator[None]:
    def is_alive(_: GroupRecord, name: str, alive: Any) -> bool:
        return any(one.startswith(f"{name}.") for one in alive)

    with patch.object(election, "is_alive", is_alive):
        yield


@fault
def a_replica_leads_though_it_is_not_in_sync() -> Iterator[None]:
    real = GroupRecord.counts

    def counts(self: GroupRecord, name: str, incarnation: str) -> bool:
        return name not in self.in_sync or real(self, name, incarnation)

    with patch.object(GroupRecord, "counts", counts):
        yield


@fault
def a_follower_shows_what_is_not_committed() -> Iterator[None]:
    with patch.object(Following, "commit_point", property(lambda self: self.durable_end)):
        yield


@fault
def a_follower_shows_what_it_does_not_have() -> Iterator[None]:
    def told(self: Following) -> int:
        return self._told_commit_point

    with patch.object(Following, "commit_point", property(told)):
        yield
