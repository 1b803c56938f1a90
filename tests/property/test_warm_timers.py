"""Does a follower that keeps delayed messages warm know the same as one that reads the log?"""

import random
from pathlib import Path

import pytest
from harness.broker import EngineDriver
from harness.names import TOPIC
from harness.warm_follower import Follower

from popmq_broker.core.timers.timer_table import TimerTable
from popmq_broker.core.timers.timer_wheel import GONE, MARK, WheelEntry
from popmq_broker.engine.timers import timer_load
from popmq_broker.store.store import Draft
from popmq_common.errors import NothingToRecall, RecallTooLate
from popmq_common.records import hosts, properties

STEPS = 150
ROLL_MS = 40_000
DELAYS_MS = [1, 999, 5_000, 30_000, 70_000, 5_000_000]
PACKAGE = "popmq_broker.engine.replication.warm_timers"


class Life:
    """Random steps of clients, and what a broker does by itself."""

    def __init__(self, driver: EngineDriver, rng: random.Random) -> None:
        self._driver, self._rng = driver, rng
        self._sent: list[tuple[str, int]] = []

    def step(self) -> None:
        steps = [self.send] * 4 + [self.wait] * 3
        self._rng.choice([*steps, self.recall, self.park, self.roll])()

    def send(self) -> None:
        for _ in range(self._rng.randint(1, 4)):
            body = f"m{len(self._sent)}"
            self._sent.append((body, self._driver.send_later(body, self._rng.choice(DELAYS_MS))))

    def wait(self) -> None:
        self._driver.advance(self._rng.choice([1, 998, 1_001, 30_000, 45_000]))

    def recall(self) -> None:
        try:
            self._driver.recall(*self._rng.choice(self._sent or [("none", 1)]))
        except (NothingToRecall, RecallTooLate):
            return

    def park(self) -> None:
        """One of a delay level."""
        named = {
            properties.UNIQ_KEY: "leveled",
            properties.DELAY_LEVEL: str(self._rng.choice("12")),
        }
        plain = Draft(TOPIC, 0, b"leveled", properties.encode(named), 0, 0, 0, 7, hosts.LOCAL)
        store, now_ms = self._driver.broker.state.runtime.store, self._driver.clock.now_ms()

        async def append() -> None:
            store.append([self._driver.broker.timers.levels.park(plain, now_ms)], now_ms)
            await store.durable(store.log_end)

        self._driver.run(append())

    def roll(self) -> None:
        store = self._driver.broker.state.runtime.store

        async def roll() -> None:
            while self._driver.broker.timer_keeper.roll():
                pass
            await store.durable(store.log_end)

        self._driver.run(roll())


def known(table: TimerTable, now_ms: int) -> tuple[list[WheelEntry], dict[int, int], int]:
    """Without marks that are over."""
    waiting = []
    for bucket in table.wheel.buckets():
        parts = bucket.dues[bucket.at :], bucket.offsets[bucket.at :], bucket.codes[bucket.at :]
        for due, offset, code in zip(*parts, strict=True):
            due_ms = bucket.start_ms + due
            if offset != GONE and not (code & MARK and due_ms <= now_ms):
                waiting.append(WheelEntry(due_ms, offset, code))
    return sorted(waiting), table.level_offsets, table.loaded_to


async def both(follower: Follower) -> tuple[TimerTable | None, TimerTable]:
    """As it would lead: from memory, and from its whole log."""
    await follower.lead()
    (follower.config.data_dir / timer_load.TIMERS_FILE).unlink(missing_ok=True)
    state = follower.empty(follower.store)
    await timer_load.load(state.runtime, state.timers)
    return await follower.warm.timers.take(), state.timers


@pytest.mark.parametrize("turn", range(6))
def test_warm_timers_are_what_the_log_says(
    tmp_path: Path, turn: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    for name in ("LOOK_S", "AGAIN_S", "PAUSE_S"):
        monkeypatch.setattr(f"{PACKAGE}.{name}", 0.0)
    monkeypatch.setattr(f"{PACKAGE}.RECORDS_MAX", rng.choice([3, 6, 20_000]))
    monkeypatch.setattr(f"{PACKAGE}.TURN_RECORDS", rng.choice([1, 2, 128]))
    settings = {"timer_snapshot_interval_ms": rng.choice([1, 3_600_000])}
    driver = EngineDriver(tmp_path, timer_roll_ms=ROLL_MS, delay_levels="1s 50s")
    driver.make(queues=1)
    life = Life(driver, rng)
    for _ in range(rng.randint(0, 30)):
        life.step()
    follower = Follower(driver, tmp_path / "follower", **settings)
    follower.copy_files()
    for _ in range(STEPS):
        life.step()
        if rng.random() < 0.5:
            follower.fetch()
        if rng.random() < 0.03:
            follower.start_again()
    follower.fetch()
    warm, cold = driver.run(both(follower))
    assert warm is not None
    now_ms = driver.clock.now_ms()
    assert known(warm, now_ms) == known(cold, now_ms)
    follower.close()
    driver.close()
