"""Does every delayed message come at its time, once, whatever is truncated, damaged or full?

The traps are those of RocketMQ's timer: a wheel, a log of its own and a checkpoint that must agree
with each other and with the CommitLog.
"""

import random
import shutil

import pytest
from harness.broker import EngineDriver
from harness.broker_calls import later_body, recall_body
from harness.names import TOPIC
from harness.proxy import ProxyDriver
from prometheus_client import CollectorRegistry

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq_broker import metrics
from popmq_broker.core.timers.timer_wheel import WheelEntry
from popmq_broker.engine.timers.timer_load import TIMERS_FILE
from popmq_broker.store.store import Appended, Draft
from popmq_common.errors import BadRequest, DiskFull, RecallTooLate
from popmq_common.records import properties
from popmq_common.records.names import TIMER_TOPIC


def bodies(driver: EngineDriver) -> list[str]:
    """Everything that is in the topic, oldest first."""
    store = driver.broker.state.runtime.store
    found = []
    for i in range(driver.broker.state.catalog_state.topics[TOPIC].write_queues):
        for entry in store.entries(TOPIC, i, 0, 1_000):
            record = store.read(entry.log_offset, entry.size_bytes)
            assert record is not None
            found.append(record.body.decode())
    return found


def write_snapshot(driver: EngineDriver) -> None:
    driver.run(driver.broker.timer_keeper.write())


@pytest.mark.parametrize("with_snapshot", [True, False])
def test_t56_timers_follow_a_truncated_log(driver: EngineDriver, with_snapshot: bool) -> None:
    """The log ends earlier than what was written of the timers: nothing is lost, or made up."""
    driver.make()
    driver.send_later("kept", 5_000)
    write_snapshot(driver)
    driver.run(driver.broker.close())
    shorter = driver.data_dir.with_name("shorter")
    shutil.copytree(driver.data_dir, shorter)
    driver.broker = driver._open()
    driver.send_later("lost", 60_000)
    driver.send_later("lost too", 9_000)
    write_snapshot(driver)
    snapshot = (driver.data_dir / TIMERS_FILE).read_bytes()
    driver.run(driver.broker.close())
    shutil.rmtree(driver.data_dir)
    shorter.rename(driver.data_dir)
    if with_snapshot:
        (driver.data_dir / TIMERS_FILE).write_bytes(snapshot)
    driver.broker = driver._open()
    new = [f"new{number}" for number in range(4)]  # the log is longer again than it was
    for body in new:
        driver.send_later(body, 7_000)
    driver.crash(random.Random(1))
    driver.advance(10_000)
    assert bodies(driver) == ["kept", *new]
    driver.advance(60_000)
    assert bodies(driver) == ["kept", *new]


@pytest.mark.parametrize("stale", [(0, 12), (1, 99), (77, 12)])
def test_t57_a_stale_entry_does_not_deliver_another_message(
    driver: EngineDriver, stale: tuple[int, int]
) -> None:
    """Nor does it hold up those behind it."""
    driver.make()
    due_ms = driver.send_later("later", 50_000)
    driver.send_later("soon", 2_000)
    offset, code = stale
    driver.broker.timers.wheel.add(WheelEntry(due_ms - 49_000, offset, code))
    driver.advance(2_000)
    assert bodies(driver) == ["soon"]
    driver.advance(48_000)
    assert bodies(driver) == ["soon", "later"]


def test_t58_one_that_cannot_be_written_does_not_repeat_the_others(
    driver: EngineDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.make()
    for body in ("a", "spoilt", "c"):
        driver.send_later(body, 1_000)
    store = driver.broker.state.runtime.store
    append = store.append

    def refusing(drafts: list[Draft], now_ms: int, *, system: bool = False) -> list[Appended]:
        if any(draft.body == b"spoilt" for draft in drafts):
            raise BadRequest(reason="it does not fit")
        return append(drafts, now_ms, system=system)

    monkeypatch.setattr(store, "append", refusing)
    driver.advance(1_000)
    driver.advance(60_000)
    assert bodies(driver) == ["a", "c"]


@pytest.mark.parametrize("lose_snapshot", [False, True])
@pytest.mark.parametrize("at", range(6))
def test_t59_a_crash_at_every_step_of_a_delivery(
    driver: EngineDriver, at: int, lose_snapshot: bool
) -> None:
    """Parked, written down, due, delivered but not on disk, on disk, written down again."""
    driver.make()
    driver.send_later("a", 1_000)
    driver.send_later("b", 90_000)
    for step in range(at + 1):
        if step in (1, 5):
            write_snapshot(driver)
            driver.send_later(f"c{step}", 90_000)
        if step == 2:
            driver.clock.advance(1_000)
        if step == 3:
            driver.hold_disk()
            driver.run(_deliver(driver))
        if step == 4:
            driver.let_go_of_disk()
    if lose_snapshot:
        (driver.data_dir / TIMERS_FILE).unlink(missing_ok=True)
    driver.crash(random.Random(at))
    driver.advance(1_000)
    assert bodies(driver) == ["a"]
    driver.advance(90_000)
    later = [f"c{step}" for step in (1, 5) if step <= at]
    assert sorted(bodies(driver)) == ["a", "b", *later]


async def _deliver(driver: EngineDriver) -> None:
    while driver.broker.timers.deliver_due():
        pass


def test_t60_the_largest_message_is_delivered(driver: EngineDriver) -> None:
    """Files of the log hold so many bytes and no more: what is taken can be delivered, too."""
    driver.make()
    largest = 0
    for size in range(7_500, 8_300, 20):
        request = later_body("large", driver.clock.now_ms() + 1_000)
        request["send"].records[0].body = b"x" * size
        try:
            driver.call(**request)
        except BadRequest:
            break
        largest = size
    assert 7_500 < largest < 8_200, "the limit was met"
    driver.send_later("behind", 1_001)
    driver.advance(2_000)
    found = bodies(driver)
    assert "behind" in found
    assert max(map(len, found)) == largest


@pytest.mark.parametrize("fails", range(1, 4))
def test_t61_what_the_disk_does_not_take_is_tried_again(
    driver: EngineDriver, monkeypatch: pytest.MonkeyPatch, fails: int
) -> None:
    driver.make()
    for number in range(3):
        driver.send_later(f"m{number}", 1_000 + number)
    store = driver.broker.state.runtime.store
    append, left = store.append, [fails]

    def full(drafts: list[Draft], now_ms: int, *, system: bool = False) -> list[Appended]:
        if left[0]:
            left[0] -= 1
            raise DiskFull(path="/disk")
        return append(drafts, now_ms, system=system)

    monkeypatch.setattr(store, "append", full)
    driver.advance(1_001)
    assert bodies(driver) == []
    for _ in range(20):
        driver.advance(1_000)
    assert sorted(bodies(driver)) == ["m0", "m1", "m2"]


def test_t61_a_record_that_cannot_be_read_is_passed_over(driver: EngineDriver) -> None:
    driver.make()
    for body in ("a", "spoilt", "c"):
        driver.send_later(body, 1_000)
    log = next((driver.data_dir / "commitlog").iterdir())
    with log.open("r+b") as file:
        at = log.read_bytes().index(b"spoilt")  # no hexadecimal word: ids are in the log too
        file.seek(at)
        file.write(b"spoils")
    driver.advance(1_000)
    assert bodies(driver) == ["a", "c"]
    assert driver.broker.state.runtime.stats.timed["", "damaged"] == 1


def test_t61_what_was_delivered_behind_damage_is_not_delivered_again(driver: EngineDriver) -> None:
    """There is no snapshot, so the log alone says what has come to an end."""
    driver.make()
    driver.send("damaged")
    driver.send_later("a", 1_000)
    driver.advance(1_000)
    driver.stop()
    (driver.data_dir / TIMERS_FILE).unlink()
    log = next((driver.data_dir / "commitlog").iterdir())
    with log.open("r+b") as file:
        file.seek(log.read_bytes().index(b"damaged"))
        file.write(b"DAMAGED")
    driver.go_on()
    driver.advance(1_000)
    store = driver.broker.state.runtime.store
    readable = [record for record in store.walk(store.log_start) if record is not None]
    assert [record.body for record in readable if record.topic == TOPIC] == [b"a"]


def figures(driver: EngineDriver) -> tuple[float, float, float]:
    """(waiting, marks, lag in seconds) as /metrics tells them."""
    registry: CollectorRegistry = metrics.registry(driver.broker)
    values = [
        registry.get_sample_value(f"popmq_timer_{name}")
        for name in ("messages", "recall_marks", "lag_seconds")
    ]
    assert all(value is not None and value >= 0 for value in values)
    waiting, marks, lag = values
    return waiting or 0.0, marks or 0.0, lag or 0.0


def test_t62_figures_are_those_of_what_waits(driver: EngineDriver) -> None:
    """Over deliveries at once, recalls, restarts and crashes."""
    driver.make()
    driver.send_later("past", -5_000)
    assert figures(driver) == (0, 0, 0)
    dues = {body: driver.send_later(body, 5_000) for body in ("a", "b", "c")}
    assert figures(driver) == (3, 0, 0)
    driver.recall("b", dues["b"])
    driver.recall("b", dues["b"])
    assert figures(driver) == (2, 1, 0)
    for start_again in (driver.restart, lambda: driver.crash(random.Random(1))):
        start_again()
        assert figures(driver) == (2, 1, 0)
    driver.clock.advance(7_000)
    driver.broker.timers.wheel.open_near(driver.clock.now_ms(), 100)
    assert figures(driver) == (2, 1, 2)
    driver.advance(0)
    assert figures(driver) == (0, 0, 0)
    driver.crash(random.Random(1))
    assert figures(driver) == (0, 0, 0)


@pytest.mark.parametrize("start_ms", [0, 1, 999])
@pytest.mark.parametrize("delay_ms", [1, 1_000, 4_194_304])
def test_t63_never_early_at_exact_seconds(
    driver: EngineDriver, start_ms: int, delay_ms: int
) -> None:
    driver.clock.advance(start_ms)
    driver.make()
    driver.send_later("a", delay_ms)
    driver.advance(delay_ms - 1)
    assert bodies(driver) == []
    driver.advance(1)
    assert bodies(driver) == ["a"]


@pytest.mark.parametrize("seed", range(8))
def test_t63_a_recall_at_the_last_tick_is_decided_once(driver: EngineDriver, seed: int) -> None:
    """Recalled or delivered, also when the power fails before either is answered."""
    driver.make()
    due_ms = driver.send_later("a", 1_000)
    driver.clock.advance(1_000 + seed % 3)
    driver.hold_disk()
    if seed % 2:
        driver.run(_deliver(driver))
    call = driver.start(**recall_body("a", due_ms))
    if not seed % 2:
        driver.run(_deliver(driver))
    assert not call.done() or isinstance(call.exception(), RecallTooLate)
    if seed >= 4:
        driver.crash(random.Random(seed))
    else:
        driver.let_go_of_disk()
    driver.advance(10_000)
    was_recalled = not call.cancelled() and call.done() and call.exception() is None
    assert bodies(driver) in ([[]] if was_recalled else [["a"], []])
    if seed % 2:
        assert bodies(driver) == ["a"]
    driver.restart()
    again = bodies(driver)
    driver.advance(10_000)
    assert bodies(driver) == again


@pytest.mark.parametrize(
    "name", ["__TIMER_OF", "TIMER_OUT_MS", "TIMER_DEL_UNIQKEY", "REAL_TOPIC", "DELAY"]
)
def test_t63_nobody_sets_what_timers_live_by(proxy: ProxyDriver, name: str) -> None:
    status = proxy.send(b"x", properties={name: "0"})
    assert status.code == v2.ILLEGAL_MESSAGE_PROPERTY_KEY


def test_t63_nobody_sees_it(driver: EngineDriver, proxy: ProxyDriver) -> None:
    now_ms = driver.clock.now_ms()
    due = {"seconds": (now_ms + 5_000) // 1000}
    assert proxy.send(b"x", properties={"p": "v"}, delivery_timestamp=due).code == v2.OK
    driver.advance(6_000)
    (message,) = proxy.receive()
    assert dict(message.user_properties) == {"p": "v"}
    assert message.system_properties.message_type == v2.DELAY
    assert message.system_properties.delivery_timestamp.seconds == due["seconds"]
    assert TIMER_TOPIC not in str(message)
    assert properties.TIMER_OF not in str(message)
