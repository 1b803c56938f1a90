"""Who works next: little work hardly waits for much work, and nobody waits for ever."""

import asyncio
from collections.abc import Callable

import pytest

from popmq_proxy.front.http2.budgets import scheduler as turns
from popmq_proxy.front.http2.budgets.scheduler import (
    SLICE_S,
    TURN_S,
    ConnectionWorker,
    Scheduler,
    Use,
)


class Clock:
    """Time passes when somebody works."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


class Rig:
    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.turns = Scheduler(asyncio.get_running_loop())
        self.done: list[str] = []
        self.aborted: list[str] = []

    def worker(self, name: str, slices: int, address: Use | None = None) -> ConnectionWorker:
        """It has work for so many slices."""
        left = slices

        def work() -> None:
            nonlocal left
            left -= 1
            self.done.append(name)
            self.clock.now_s += SLICE_S
            self.turns.charge(made, self.clock.now_s, SLICE_S)
            if left:
                self.turns.wait(made)

        made = ConnectionWorker(work, lambda: self.aborted.append(name), address or Use())
        return made

    async def turn(self) -> list[str]:
        before = len(self.done)
        await asyncio.sleep(0)
        return self.done[before:]


@pytest.fixture
async def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    clock = Clock()
    monkeypatch.setattr(turns, "monotonic", clock)
    return Rig(clock)


async def test_a_turn_is_over_when_its_time_is_used(rig: Rig) -> None:
    worker = rig.worker("one", 1)
    assert not rig.turns.is_over
    rig.turns.charge(worker, rig.clock.now_s, TURN_S)
    assert rig.turns.is_over
    await rig.turn()
    assert not rig.turns.is_over


async def test_each_turn_does_a_few_slices_whoever_waits(rig: Rig) -> None:
    for number in range(100):
        rig.turns.wait(rig.worker(f"{number}", 5))
    for _ in range(10):
        assert 1 <= len(await rig.turn()) <= 4


async def test_who_had_least_goes_first(rig: Rig) -> None:
    for number in range(50):
        heavy = rig.worker(f"heavy {number}", 1_000)
        heavy.use.since_s, heavy.use.used_s = rig.clock.now_s, 0.1
        rig.turns.wait(heavy)
    await rig.turn()
    rig.turns.wait(rig.worker("light", 1))
    assert "light" in await rig.turn()


async def test_many_connections_of_one_address_count_together(rig: Rig) -> None:
    address = Use()
    for number in range(50):
        rig.turns.wait(rig.worker(f"one of many {number}", 1_000, address))
    for _ in range(5):
        await rig.turn()
    rig.turns.wait(rig.worker("another address", 1))
    assert "another address" in await rig.turn()


async def test_nobody_waits_for_ever(rig: Rig) -> None:
    """Though others that had less always come first."""
    heavy = rig.worker("heavy", 1)
    heavy.use.since_s, heavy.use.used_s = rig.clock.now_s, 1.0
    rig.turns.wait(heavy)
    for _ in range(30):
        for number in range(5):
            rig.turns.wait(rig.worker(f"{number}", 1))
        await rig.turn()
    assert "heavy" in rig.done


async def test_who_waits_is_called_once_and_leaves_nothing_behind(rig: Rig) -> None:
    names = [f"{number}" for number in range(300)]
    for name in names:
        worker = rig.worker(name, 1)
        rig.turns.wait(worker)
        rig.turns.wait(worker)
    for _ in range(1_000):
        await rig.turn()
    assert sorted(rig.done) == sorted(names)
    left: list[Callable[[], int]] = [rig.turns._by_use.__len__, rig.turns._by_time.__len__]
    assert sum(one() for one in left) <= turns.LEFT_MAX


async def test_a_connection_that_fails_is_ended_and_the_others_go_on(rig: Rig) -> None:
    found: list[str] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, what: found.append(f"{what['message']}: {what['exception']}")
    )

    def work() -> None:
        raise ValueError("a bug")

    broken = ConnectionWorker(work, lambda: rig.aborted.append("broken"), Use())
    rig.turns.wait(rig.worker("before", 2))
    rig.turns.wait(broken)
    rig.turns.wait(rig.worker("behind", 2))
    for _ in range(10):
        await rig.turn()
    assert sorted(rig.done) == ["before", "before", "behind", "behind"]
    assert rig.aborted == ["broken"]
    assert found == ["a connection has failed: a bug"]
