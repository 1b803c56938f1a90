"""Delayed messages as a state machine: any order of sends, recalls, time, snapshots, rolls,
restarts, lost snapshots and crashes at any moment keeps the promises.

I10 never early · delivered at its time, once · recalled is never delivered · nothing is lost; all
of it over crashes that lose what was not synced. What is looked at is the topic itself.
"""

import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.broker import QUICK_DISK, EngineDriver
from harness.broker_calls import later_body, recall_body
from harness.names import TOPIC
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from popmq_broker.engine.timers.timer_load import TIMERS_FILE
from popmq_broker.store.store import Draft
from popmq_common.errors import NothingToRecall, RecallTooLate
from popmq_common.records import hosts, properties
from popmq_common.records.names import TIMER_TOPIC
from popmq_common.records.record import Record

ROLL_MS = 40_000
DELAYS_MS = [1, 2, 999, 1_000, 1_024, 5_000, 30_000, 70_000, 5_000_000]


@dataclass
class Waiting:
    due_ms: int
    stored: bool = True
    """Its send was answered."""
    recalled: bool = False
    recall_unknown: bool = False
    by_level: bool = False


class TimerMachine(RuleBasedStateMachine):
    delivered_count = 0
    """By all histories of the class together."""

    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self._folder = tempfile.TemporaryDirectory(dir=QUICK_DISK)
        self.driver = EngineDriver(
            Path(self._folder.name), timer_roll_ms=ROLL_MS, delay_levels="1s 5s 10s"
        )
        self.driver.make(queues=1)
        self.book: dict[str, Waiting] = {}
        self.count = 0
        self.send(1_000)

    def teardown(self) -> None:
        if not hasattr(self, "driver"):
            return
        try:
            self.driver.advance(2 * max(DELAYS_MS))
            self.in_its_topic_at_its_time_and_once()
            assert self.driver.broker.timers.wheel.message_count == 0
        finally:
            type(self).delivered_count += len(self._stored())
            self.driver.close()
            self._folder.cleanup()

    def _now(self) -> int:
        return self.driver.clock.now_ms()

    def _body(self) -> str:
        self.count += 1
        return f"m{self.count}"

    @rule(delay_ms=st.sampled_from(DELAYS_MS))
    def send(self, delay_ms: int) -> None:
        body = self._body()
        self.book[body] = Waiting(self.driver.send_later(body, delay_ms))

    @rule(level=st.integers(1, 4))
    def send_with_a_level(self, level: int) -> None:
        body = self._body()
        named = {properties.UNIQ_KEY: f"id-{body}", properties.DELAY_LEVEL: str(level)}
        plain = Draft(TOPIC, 0, body.encode(), properties.encode(named), 0, 0, 0, 7, hosts.LOCAL)
        runtime, now_ms = self.driver.broker.state.runtime, self._now()

        async def append() -> None:
            draft = self.driver.broker.timers.levels.park(plain, now_ms)
            runtime.store.append([draft], now_ms)
            await runtime.store.durable(runtime.store.log_end)

        self.driver.run(append())
        delay_ms = [1_000, 5_000, 10_000, 10_000][level - 1]
        self.book[body] = Waiting(now_ms + delay_ms, by_level=True)

    @rule(pick=st.randoms(use_true_random=False), answered=st.booleans())
    def recall(self, pick: random.Random, answered: bool) -> None:
        known = [body for body, entry in self.book.items() if not entry.by_level]
        waiting = [body for body in known if self.book[body].due_ms > self._now()]
        body = pick.choice(waiting if waiting and pick.random() < 0.8 else known)
        entry = self.book[body]
        if not answered:
            self.driver.hold_disk()
            call = self.driver.start(**recall_body(body, entry.due_ms))
            if call.done():
                if call.exception() is None:  # an earlier recall of it was on disk
                    assert entry.recalled or entry.recall_unknown, "answered too early"
                    entry.recalled = True
            elif not entry.recalled:
                entry.recall_unknown = True
            self._lose_power()
            return
        was_delivered = body in self._stored()
        try:
            self.driver.recall(body, entry.due_ms)
        except RecallTooLate:
            assert entry.due_ms <= self._now()
            assert was_delivered or entry.recalled or entry.recall_unknown or not entry.stored
        except NothingToRecall:
            assert not entry.stored, f"{body} waits, and was not found"
        else:
            assert not was_delivered, f"{body} was recalled after its delivery"
            entry.recalled, entry.recall_unknown = True, False

    @rule(ms=st.sampled_from([0, 1, 998, 999, 1_000, 1_001, 30_000, 45_000]))
    def time_passes(self, ms: int) -> None:
        self.driver.advance(ms)

    @rule()
    def snapshot(self) -> None:
        self.driver.run(self.driver.broker.timer_keeper.write())

    @rule(then=st.sampled_from(["nothing", "restart", "crash"]))
    def grow_old(self, then: str) -> None:
        """What grew old is written again, and waits once."""
        self.send(70_000)
        self.driver.advance(ROLL_MS + 1)
        self._roll()
        store = self.driver.broker.state.runtime.store
        self.driver.run(store.durable(store.log_end))
        if then != "nothing":
            self._start_again(crash=then == "crash", lose_snapshot=self.rng.random() < 0.5)

    def _roll(self) -> None:
        async def step() -> None:
            while self.driver.broker.timer_keeper.roll():
                pass

        self.driver.run(step())

    @rule(crash=st.booleans(), lose_snapshot=st.sampled_from([False, False, True]))
    def start_again(self, crash: bool, lose_snapshot: bool) -> None:
        self._start_again(crash=crash, lose_snapshot=lose_snapshot)

    def _start_again(self, *, crash: bool, lose_snapshot: bool) -> None:
        driver = self.driver
        if not crash:
            driver.run(driver.broker.close())
        if lose_snapshot:
            (driver.data_dir / TIMERS_FILE).unlink(missing_ok=True)
        if crash:
            self._lose_power()
        else:
            driver.broker = driver._open()
            driver.deliver_due()

    @rule(
        work=st.sampled_from(["send", "delivery", "roll", "delivery, roll and snapshot"]),
        ms=st.sampled_from([1, 1_000, 45_000]),
    )
    def crash_in_the_middle(self, work: str, ms: int) -> None:
        """It was appended, or half of it, but never answered."""
        self.driver.hold_disk()
        if work == "send":
            body, due_ms = self._body(), self._now() + ms
            self.book[body] = Waiting(due_ms, stored=False)
            assert not self.driver.start(**later_body(body, due_ms)).done()
        else:
            self.driver.clock.advance(ms)
            if "delivery" in work:
                self.driver.run(self._deliver())
            if "roll" in work:
                self._roll()
            store = self.driver.broker.state.runtime.store
            if "snapshot" in work and store.durable_end < store.log_end:  # waits for the disk
                self.driver.loop.create_task(self.driver.broker.timer_keeper.write())
        self._lose_power()

    async def _deliver(self) -> None:
        while self.driver.broker.timers.deliver_due():
            pass

    def _lose_power(self) -> None:
        self.driver.crash(self.rng)
        self.driver.deliver_due()

    def _records(self) -> Iterator[Record]:
        store = self.driver.broker.state.runtime.store
        low, high = store.min_offset(TOPIC, 0), store.max_offset(TOPIC, 0)
        for entry in store.entries(TOPIC, 0, low, high - low):
            record = store.read(entry.log_offset, entry.size_bytes)
            assert record is not None
            yield record

    def _stored(self) -> dict[str, int]:
        """What is in the topic, and since when."""
        return {record.body.decode(): record.store_timestamp_ms for record in self._records()}

    @invariant()
    def in_its_topic_at_its_time_and_once(self) -> None:
        if not hasattr(self, "driver"):
            return
        counts = Counter(record.body.decode() for record in self._records())
        assert all(count == 1 for count in counts.values()), f"delivered twice: {counts}"
        stored = self._stored()
        for body, at_ms in stored.items():
            assert at_ms >= self.book[body].due_ms, f"{body} came early"
            assert not self.book[body].recalled, f"{body} was recalled, and came"
        for body, entry in self.book.items():
            certain = entry.stored and not entry.recalled and not entry.recall_unknown
            if certain and entry.due_ms <= self._now():
                assert body in stored, f"{body} did not come"

    @invariant()
    def the_log_is_kept(self) -> None:
        """Whatever waits lies behind what retention may delete."""
        if not hasattr(self, "driver"):
            return
        needed = self.driver.broker.timer_keeper.needed_from()
        store = self.driver.broker.state.runtime.store
        for entry in self.driver.broker.timers.wheel.before(1 << 62, 1 << 20):
            (found,) = store.entries(TIMER_TOPIC, 0, entry.offset, 1)
            assert needed is not None
            assert needed <= found.log_offset
