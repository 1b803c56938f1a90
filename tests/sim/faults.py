"""Faults that the simulation must find: the engine, changed in one place while a test runs."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from popmq_broker import opening
from popmq_broker.core.leases.by_grant import LeasesByGrant
from popmq_broker.core.leases.checkpoint import Checkpoint
from popmq_broker.core.leases.fifo_queue import FifoEntry, FifoQueue
from popmq_broker.core.leases.grant import Grant
from popmq_broker.core.leases.leases import (
    Due,
    GroupQueueState,
    LeaseOutcome,
    LeaseTable,
)
from popmq_broker.core.leases.revive_progress import ReviveProgress
from popmq_broker.core.retries import retry
from popmq_broker.engine.catalog.catalog import Catalog
from popmq_broker.engine.catalog.topics import Topics
from popmq_broker.engine.journal import journal
from popmq_broker.engine.journal.lease_state import LeaseState
from popmq_broker.engine.journal.long_polls import WaitingPolls
from popmq_broker.engine.leases import extend, extend_lease, pop, queue_scan, revive
from popmq_broker.engine.leases.ack import Ack
from popmq_broker.engine.leases.extend import Extend
from popmq_broker.engine.leases.poll import Polls
from popmq_broker.engine.leases.revive import Revive
from popmq_broker.engine.retries.copies import copy_draft
from popmq_broker.engine.startup import journal_replay
from popmq_broker.store.store import Store

Fault = Callable[[], AbstractContextManager[Any]]
FAULTS: dict[str, Fault] = {}


def fault(plant: Callable[[], Iterator[None]]) -> Fault:
    made = contextmanager(plant)
    FAULTS[plant.__name__] = made
    return made


def _nothing(*_: Any, **__: Any) -> None:
    return


async def _nothing_async(*_: Any, **__: Any) -> None:
    return


@fault
def position_goes_one_too_far() -> Iterator[None]:
    real = queue_scan.scan_queue

    def scan(*args: Any, **more: Any) -> Any:
        found = real(*args, **more)
        found.next_offset += found.more and bool(found.offsets)
        return found

    with patch.object(pop, "scan_queue", scan):
        yield


@fault
def arrivals_wake_nobody() -> Iterator[None]:
    with patch.object(WaitingPolls, "arrived", _nothing):
        yield


@fault
def a_settled_message_wakes_nobody_behind_it() -> Iterator[None]:
    with patch("popmq_broker.engine.journal.lease_state.LeaseState.wake_for_fifo", _nothing):
        yield


@fault
def a_checkpoint_leaves_out_a_message() -> Iterator[None]:
    real = journal.checkpoint

    def checkpoint(state: Any, record: Checkpoint, *more: Any) -> Any:
        if len(record.offsets) > 1:
            record = replace(
                record,
                offsets=record.offsets[1:],
                attempts=record.attempts[1:],
                handed_out=record.handed_out[1:],
            )
        return real(state, record, *more)

    with patch.object(journal, "checkpoint", checkpoint):
        yield


@fault
def a_message_is_revived_twice() -> Iterator[None]:
    real = Revive._end

    def end(self: Revive, queue: GroupQueueState, leases: Any, *, counted: bool) -> None:
        leases = list(leases)
        if queue.fifo_queue is None and leases:
            made = self._copy(queue, *leases[0], counted=counted)
            if made is not None:
                draft = copy_draft(*made)
                self._runtime.store.append([draft], self._runtime.clock.now_ms(), system=True)
        real(self, queue, leases, counted=counted)

    with patch.object(Revive, "_end", end):
        yield


@fault
def an_ack_is_not_journaled() -> Iterator[None]:
    def journal_acks(self: Ack, acked: LeasesByGrant, _: int) -> None:
        for queue, offsets in acked.held.values():
            self._lease_state.settle(queue, tuple(offsets), LeaseOutcome.ALREADY_ACKED)
            self._lease_state.wake_for_fifo(queue)

    with patch.object(Ack, "_journal_acks", journal_acks):
        yield


@fault
def an_extension_is_not_journaled() -> Iterator[None]:
    def grow(
        self: Extend, queue: GroupQueueState, grant: Grant, offsets: Any, until_ms: int, _: int
    ) -> None:
        longer = replace(grant, invisible_ms=until_ms - grant.pop_time_ms)
        leases = {offset: queue.leases[offset]._replace(grant=longer) for offset in offsets}
        self._lease_state.table.add(queue, leases)
        if queue.fifo_queue is not None:
            queue.fifo_queue.regrant(leases)

    with patch.object(Extend, "_extend", grow):
        yield


@fault
def a_nack_journals_its_first_message_alone() -> Iterator[None]:
    real = journal.grant_record

    def first(runtime: Any, key: Any, grant: Grant, offsets: Any, **more: Any) -> Any:
        return real(runtime, key, grant, offsets[:1] if grant.nack else offsets, **more)

    with patch.object(journal, "grant_record", first):
        yield


@fault
def a_start_reads_no_extensions() -> Iterator[None]:
    real = extend_lease.extend_leases

    def forget(lease_state: LeaseState, queue: Any, grant: Grant, offsets: Any) -> None:
        with patch.object(lease_state.progress, "opened", _nothing):
            real(lease_state, queue, grant, offsets)

    with patch.object(extend, "extend_leases", forget):
        yield


@fault
def answers_do_not_wait_for_the_disk() -> Iterator[None]:
    with patch.object(Store, "durable", _nothing_async):
        yield


@fault
def pops_do_not_wait_for_their_checkpoint() -> Iterator[None]:
    with patch.object(Polls, "_durable", _nothing_async):
        yield


@fault
def generations_are_not_compared() -> Iterator[None]:
    real = GroupQueueState.judge

    def judge(self: GroupQueueState, ref: Any, now_ms: int) -> LeaseOutcome:
        lease = self.leases.get(ref.queue_offset)
        if lease is not None:
            grant = lease.grant
            ref = ref._replace(generation=grant.generation, pop_time_ms=grant.pop_time_ms)
        return real(self, ref, now_ms)

    with patch.object(GroupQueueState, "judge", judge):
        yield


@fault
def late_acks_are_taken() -> Iterator[None]:
    real = GroupQueueState.judge_one_of

    def judge(self: GroupQueueState, ref: Any, queue_offset: int, now_ms: int) -> LeaseOutcome:
        return real(self, ref, queue_offset, 0 if queue_offset in self.leases else now_ms)

    with patch.object(GroupQueueState, "judge_one_of", judge):
        yield


@fault
def fifo_lets_the_next_one_go_early() -> Iterator[None]:
    real = FifoQueue.next_entries

    def next_entries(self: FifoQueue, count: int, room_bytes: int) -> list[FifoEntry]:
        waiting = [e for e in self.entries.values() if not e.held and not e.settled]
        return real(self, count, room_bytes) or waiting[:1]

    with patch.object(FifoQueue, "next_entries", next_entries):
        yield


@fault
def the_offsets_file_passes_a_live_lease() -> Iterator[None]:
    with patch.object(ReviveProgress, "first_needed", lambda _self, _queue, end: end):
        yield


@fault
def the_offsets_file_passes_a_move() -> Iterator[None]:
    with patch.object(ReviveProgress, "first_position_change", lambda _self, _from: None):
        yield


@fault
def a_start_ignores_acks() -> Iterator[None]:
    with patch.object(journal_replay, "_apply_ack", _nothing):
        yield


@fault
def a_start_ignores_moves() -> Iterator[None]:
    with patch.object(journal_replay, "_apply_position_change", _nothing):
        yield


@fault
def what_is_given_back_is_counted() -> Iterator[None]:
    real = Revive._end

    def end(self: Revive, queue: GroupQueueState, leases: Any, *, counted: bool) -> None:
        real(self, queue, leases, counted=True)

    with patch.object(Revive, "_end", end):
        yield


@fault
def one_attempt_too_many() -> Iterator[None]:
    real = retry.retry_or_dead_letter

    def decide(record: Any, *, max_attempts: int, **more: Any) -> Any:
        return real(record, max_attempts=max_attempts + 1, **more)

    with patch.object(revive, "retry_or_dead_letter", decide):
        yield


@fault
def deleted_topics_have_no_floor() -> Iterator[None]:
    with patch.object(Topics, "_floors", _nothing):
        yield


@fault
def half_a_pair_is_kept() -> Iterator[None]:
    with patch.object(opening, "is_first_of_pair", lambda _record: False):
        yield


@fault
def a_due_lease_is_forgotten() -> Iterator[None]:
    real = LeaseTable.take_due

    def take_due(self: LeaseTable, now_ms: int, count_max: int) -> list[Due]:
        due = real(self, now_ms, count_max)
        return due[:-1] if len(due) > 1 else due

    with patch.object(LeaseTable, "take_due", take_due):
        yield


@fault
def leases_are_told_apart_by_generation_alone() -> Iterator[None]:
    def live(self: LeaseTable, due: Due) -> Iterator[int]:
        queue = self.queues.get(due.key)
        for offset in due.offsets if queue is not None else ():
            lease = queue.leases.get(offset) if queue is not None else None
            if lease is not None and lease.grant.generation == due.grant.generation:
                yield offset

    with patch.object(LeaseTable, "_live", live):
        yield


@fault
def the_catalog_is_marked_and_not_written() -> Iterator[None]:
    with patch.object(Catalog, "_texts", lambda _self, _kinds: []):
        yield
