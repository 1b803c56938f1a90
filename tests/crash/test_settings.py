"""kill -9 at every step of every change of settings: topics, groups, users, peers, the permission.

What was answered OK is there after the start; what was not is there as a whole or not at all; the
files of config/ and the log tell the same. A step is a call that changes a file (crash/stepped.py).
"""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from crash.setting_changes import CHANGES, config, prepare
from crash.setting_faults import FAULTS
from crash.stepped import START
from harness.broker import QUICK_DISK
from harness.setting_histories import held

from popmq_broker import rebuild
from popmq_broker.app import open_engine
from popmq_broker.engine.broker import Broker
from popmq_broker.engine.journal.catalog_state import CatalogState
from popmq_common.errors import Corrupt
from popmq_common.process.clock import VirtualClock

TESTS = Path(__file__).resolve().parents[1]
Held = tuple[object, ...]


class Stepped:
    """The process that forks brokers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0
        self._process = subprocess.Popen(
            [sys.executable, "-m", "crash.stepped"],
            env={**os.environ, "PYTHONPATH": str(TESTS)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def life(
        self,
        start: Path,
        change: str,
        kill_at: int,
        *,
        torn: bool = False,
        fault: str | None = None,
    ) -> tuple[Path, dict[str, Any]]:
        """(its directory, a copy of `start`; what the process answered)"""
        self._count += 1
        data_dir = self._folder / f"life-{self._count}"
        shutil.copytree(start, data_dir)
        request = {"dir": str(data_dir), "change": change, "kill_at": kill_at, "torn": torn}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps({**request, "fault": fault}), file=self._process.stdin, flush=True)
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return data_dir, answer

    def close(self) -> None:
        self._process.communicate(timeout=60)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    made = Path(QUICK_DISK or tmp_path_factory.mktemp("x")) / f"popmq-settings-{os.getpid()}"
    made.mkdir()
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def stepped(folder: Path) -> Iterator[Stepped]:
    made = Stepped(folder)
    yield made
    made.close()


@pytest.fixture(scope="module")
def before(folder: Path) -> Path:
    """The directory that each life begins with."""
    opened(folder / "before", prepare)
    return folder / "before"


def opened(data_dir: Path, work: Any = None) -> CatalogState:
    """What a start finds there; a clean stop ends it."""

    async def life() -> CatalogState:
        broker: Broker = await open_engine(config(data_dir), VirtualClock())
        if work is not None:
            await work(broker)
        await broker.close()
        return broker.state.catalog_state

    return asyncio.run(life())


def from_log(data_dir: Path) -> Held:
    """What the log alone makes of a stopped broker's settings."""
    copy = data_dir.with_name(f"{data_dir.name}-rebuilt")
    shutil.copytree(data_dir, copy)
    asyncio.run(rebuild.rebuild(config(copy), offsets=False, settings=True))
    found = held(opened(copy))
    shutil.rmtree(copy)
    return found


def cut_everywhere(
    stepped: Stepped, start: Path, change: str, fault: str | None = None
) -> dict[str, int]:
    """How many lives ended before and behind the answer. Raises `AssertionError`."""
    old = held(opened(shutil.copytree(start, start.with_name("old"))))
    shutil.rmtree(start.with_name("old"))
    whole_dir, whole = stepped.life(start, change, 0, fault=fault)
    assert whole["status"] == 0
    assert whole["told"][-1] == "saved"
    new_state = opened(whole_dir)
    new = held(new_state)
    assert change == START or CHANGES[change].is_seen(new_state)
    ends = {"unanswered, absent": 0, "unanswered, whole": 0, "answered": 0}
    for number, name in enumerate(whole["steps"], 1):
        for torn in (False, True) if name == "pwrite" else (False,):
            where = f"{change}, killed at step {number} of {whole['steps']}, torn: {torn}"
            data_dir, life = stepped.life(start, change, number, torn=torn, fault=fault)
            found = held(opened(data_dir))
            if life["status"] == 0 and len(life["steps"]) < number:
                # Writes of one moment may share a sync: this life was over before that step.
                assert found == new, f"neither killed nor whole: {where}"
                continue
            assert life["status"] == -signal.SIGKILL, where
            if "answered" in life["told"]:
                assert found == new, f"undone: {where}"
                ends["answered"] += 1
            else:
                assert found in (old, new), f"neither whole nor absent: {where}"
                ends["unanswered, whole" if found == new else "unanswered, absent"] += 1
            assert from_log(data_dir) == found, f"the log tells something else: {where}"
            assert held(opened(data_dir)) == found, f"the second start: {where}"
            shutil.rmtree(data_dir)
    shutil.rmtree(whole_dir)
    return ends


@pytest.mark.timeout(600)
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_whole_or_absent_wherever_it_is_cut_off(
    change: str, stepped: Stepped, before: Path
) -> None:
    ends = cut_everywhere(stepped, before, change)
    print(change, ends)
    assert ends["answered"] > 5
    assert sum(ends.values()) - ends["answered"] > 1


@pytest.mark.timeout(600)
def test_a_start_that_is_cut_off_loses_no_change_that_only_the_log_has(
    stepped: Stepped, before: Path, folder: Path
) -> None:
    """Changes that were answered, and not saved."""
    start = folder / "unsaved"

    async def changes(broker: Broker) -> None:
        for name in ("topic made", "topic changed", "group deleted", "users and policies"):
            await CHANGES[name].change(broker)

    shutil.copytree(before, start)

    async def life() -> None:
        broker = await open_engine(config(start), VirtualClock())
        await changes(broker)
        broker.state.runtime.store.abandon()

    asyncio.run(life())
    state = opened(shutil.copytree(start, folder / "look"))
    assert CHANGES["group deleted"].is_seen(state)
    ends = cut_everywhere(stepped, start, START)
    print(ends)
    assert sum(ends.values()) > 5


@pytest.mark.timeout(600)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str, stepped: Stepped, before: Path) -> None:
    with pytest.raises((AssertionError, Corrupt)) as found:
        cut_everywhere(stepped, before, "topic changed", fault)
    print(fault, found.value)
