"""Faults planted in recovery and checkpoints: the simulated crashes find each."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from harness.crash_world import CrashWorld

from popmq_broker.core.store import recovery
from popmq_broker.core.store.recovery import RecoveryAction, RecoveryDecision, Scan
from popmq_broker.store.files import checkpoint_file
from popmq_broker.store.files.segments import Segments
from popmq_broker.store.log.commit_log import CommitLog
from popmq_broker.store.log.flush import Flusher, Position
from popmq_broker.store.queues.queue_ends import QueueEnds
from popmq_broker.store.queues.queues import Queues
from popmq_broker.store.recovery import checkpoints, recover
from popmq_broker.store.store import Store

WORLDS_MAX = 1_500
Plant = Callable[[pytest.MonkeyPatch], None]


def answered_before_it_is_on_disk(patch: pytest.MonkeyPatch) -> None:
    def request(self: Flusher, position: Position) -> None:
        self._loop.call_soon(self._done, position, 0.0)

    patch.setattr(Flusher, "request", request)


def kept_but_not_synced(patch: pytest.MonkeyPatch) -> None:
    """What a start makes visible a second crash takes back: seen when it was answered since."""
    patch.setattr(CommitLog, "sync", lambda self, start, end: None)


def half_a_pair_is_kept(patch: pytest.MonkeyPatch) -> None:
    def judge(scan: Scan) -> RecoveryDecision:
        return recovery.judge_scan(replace(scan, half_pair_at=None))

    patch.setattr(recover, "judge_scan", judge)


def torn_bytes_are_left(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Segments, "zero_from", lambda self, offset: None)


def damage_is_kept(patch: pytest.MonkeyPatch) -> None:
    def judge(scan: Scan) -> RecoveryDecision:
        return RecoveryDecision(RecoveryAction.KEEP, scan.end)

    patch.setattr(recover, "judge_scan", judge)


def ends_before_the_queues_are_on_disk(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(checkpoints, "sync_files", lambda files, paths: None)


def ends_claim_more_than_there_is(patch: pytest.MonkeyPatch) -> None:
    ends = Queues.ends

    def more(self: Queues, log_start: int, log_end: int) -> QueueEnds:
        return ends(self, log_start, log_end + 1)

    patch.setattr(Queues, "ends", more)


def a_checkpoint_does_not_wait_for_the_log(patch: pytest.MonkeyPatch) -> None:
    async def at_once(self: Store, end_offset: int) -> None:
        return

    patch.setattr(Store, "_on_disk", at_once)


def ends_outlive_a_rebuild(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(recover.Recovery, "_forget_queues", lambda self, log_start: None)


def marks_are_ahead(patch: pytest.MonkeyPatch) -> None:
    save = checkpoint_file.save
    patch.setattr(
        checkpoint_file,
        "save",
        lambda files, path, marks: save(files, path, replace(marks, log_end=marks.log_end + 200)),
    )


def slots_behind_the_end_are_left(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Queues, "zero_behind", lambda self: None)


@pytest.mark.parametrize(
    "plant",
    [
        answered_before_it_is_on_disk,
        kept_but_not_synced,
        half_a_pair_is_kept,
        torn_bytes_are_left,
        damage_is_kept,
        ends_before_the_queues_are_on_disk,
        ends_claim_more_than_there_is,
        a_checkpoint_does_not_wait_for_the_log,
        marks_are_ahead,
        slots_behind_the_end_are_left,
    ],
)
def test_a_planted_fault_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    for seed in range(WORLDS_MAX):
        try:
            asyncio.run(CrashWorld(random.Random(seed), sync_flush=seed % 4 > 0).run())
        except Exception as violated:
            print(f"{plant.__name__}: found in store {seed + 1}: {violated!r:.100}")
            return
    raise AssertionError(f"not found in {WORLDS_MAX} stores")
