"""Long work in steps: how much of it a turn has time for, and in which order it is done."""

import asyncio
from collections.abc import Callable

import pytest

from popmq_proxy.front import time_slices as steps
from popmq_proxy.front.time_slices import STEPS_S, TimeSlices


class Rig:
    def __init__(self) -> None:
        self.now_s = 1_000.0
        self.done: list[str] = []
        self.steps = TimeSlices()

    def work(self, name: str, count: int, each_s: float = STEPS_S / 2) -> Callable[[], bool]:
        left = count

        def step() -> bool:
            nonlocal left
            self.now_s += each_s
            self.done.append(name)
            left -= 1
            return not left

        return step

    def begin(self, name: str, count: int) -> "asyncio.Task[None]":
        return asyncio.create_task(self.steps.run(self.work(name, count)))


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    made = Rig()
    monkeypatch.setattr(steps, "monotonic", lambda: made.now_s)
    return made


async def test_a_turn_has_time_for_a_few_of_them_whoever_waits(rig: Rig) -> None:
    tasks = [rig.begin(f"{number}", 5) for number in range(100)]
    turns = 0
    while not all(task.done() for task in tasks):
        before = len(rig.done)
        await asyncio.sleep(0)
        assert len(rig.done) - before <= 3
        turns += 1
    assert len(rig.done) == 500
    assert turns < 1_000


async def test_each_has_a_step_before_any_has_another_one(rig: Rig) -> None:
    tasks = [rig.begin(f"{number}", 3) for number in range(10)]
    await asyncio.gather(*tasks)
    for name in ("0", "9"):
        assert rig.done.index(name) < 12
    assert sorted(rig.done[-4:]) == ["6", "7", "8", "9"]


async def test_one_alone_goes_on_without_waiting_for_others(rig: Rig) -> None:
    await asyncio.wait_for(rig.begin("one", 50), 5)
    assert rig.done == ["one"] * 50


async def test_who_is_cancelled_holds_up_nobody(rig: Rig) -> None:
    tasks = [rig.begin(f"{number}", 50) for number in range(6)]
    for _ in range(5):
        await asyncio.sleep(0)
    for task in tasks[:5]:
        task.cancel()
    await asyncio.wait_for(tasks[5], 5)
    assert rig.done.count("5") == 50


async def test_a_step_that_fails_ends_its_call_alone(rig: Rig) -> None:
    def failing() -> bool:
        raise ValueError("no")

    others = [rig.begin(f"{number}", 10) for number in range(3)]
    with pytest.raises(ValueError, match="no"):
        await rig.steps.run(failing)
    await asyncio.wait_for(asyncio.gather(*others), 5)
    assert len(rig.done) == 30
