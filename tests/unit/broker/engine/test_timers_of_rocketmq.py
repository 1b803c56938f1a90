"""A directory of RocketMQ's with delayed messages: those that waited come once, the others not."""

import pytest
from harness.broker import EngineDriver
from harness.names import TOPIC

from popmq_broker.engine.timers.timer_load import TIMERS_FILE
from popmq_broker.store.store import Draft
from popmq_common.records import hosts, properties
from popmq_common.records.names import TIMER_TOPIC

DELAY_MS = 5_000


@pytest.fixture
def driver(driver: EngineDriver) -> EngineDriver:
    driver.make(queues=1)
    return driver


def stored(driver: EngineDriver, topic: str, body: str, due_ms: int, **more: str) -> None:
    """As RocketMQ's timer writes it: parked, parked again, or delivered."""
    named = {"UNIQ_KEY": f"id-{body}", "REAL_TOPIC": TOPIC, "REAL_QID": "0"}
    named |= {"TIMER_OUT_MS": str(due_ms), **more}
    draft = Draft(
        topic=topic,
        queue_id=0,
        body=body.encode(),
        properties=properties.encode(named),
        tags_code=0,
        sys_flag=0,
        flag=0,
        born_timestamp_ms=7,
        born_host=hosts.LOCAL,
    )

    async def append() -> None:
        driver.broker.state.runtime.store.append([draft], driver.clock.now_ms())
        await driver.broker.state.runtime.store.settled()

    driver.run(append())


def reopened(driver: EngineDriver) -> None:
    """What was stored by hand is news to the broker."""
    driver.run(driver.broker.close())
    (driver.data_dir / TIMERS_FILE).unlink(missing_ok=True)
    driver.broker = driver._open()


def came(driver: EngineDriver) -> list[bytes]:
    driver.advance(DELAY_MS)
    return sorted(message.body for message in driver.pop())


def test_what_waited_comes_and_what_was_delivered_does_not_come_again(driver: EngineDriver) -> None:
    due_ms = driver.clock.now_ms() + DELAY_MS
    for body in ("delivered", "waiting"):
        stored(driver, TIMER_TOPIC, body, due_ms)
    stored(driver, TOPIC, "delivered", due_ms, TIMER_DEQUEUE_MS="1")
    reopened(driver)
    assert came(driver) == [b"delivered", b"waiting"]
    driver.restart()
    assert came(driver) == []


def test_what_was_written_again_for_a_later_turn_comes_once(driver: EngineDriver) -> None:
    due_ms = driver.clock.now_ms() + DELAY_MS
    stored(driver, TIMER_TOPIC, "far", due_ms)
    again = {"TIMER_DEQUEUE_MS": "1", "TIMER_ROLL_TIMES": "1"}
    stored(driver, TIMER_TOPIC, "far", due_ms, **again)
    reopened(driver)
    assert came(driver) == [b"far"]


@pytest.mark.parametrize("delay_ms", [5_000, 5_001, 5_999])
def test_what_we_parked_and_rocketmq_recalled_never_comes(
    driver: EngineDriver, delay_ms: int
) -> None:
    """Its mark has the time in the handle, rounded down; our record has the millisecond."""
    driver.clock.advance(-driver.clock.now_ms() % 1_000)
    due_ms = driver.send_later("recalled", delay_ms)
    driver.send_later("other", delay_ms)
    (entry, _) = driver.broker.state.runtime.store.entries(TIMER_TOPIC, 0, 0, 2)
    record = driver.broker.state.runtime.store.read(entry.log_offset, entry.size_bytes)
    assert record is not None
    message_id = properties.decode(record.properties)["UNIQ_KEY"]
    rounded_ms = (due_ms - 1) // 1_000 * 1_000
    mark = {"TIMER_DEL_UNIQKEY": f"{TOPIC}+{message_id}", "TIMER_DELIVER_MS": str(due_ms)}
    stored(driver, TIMER_TOPIC, "0", rounded_ms, UNIQ_KEY=message_id, **mark)
    reopened(driver)
    driver.advance(delay_ms)
    assert came(driver) == [b"other"]


def test_leases_are_not_messages(driver: EngineDriver) -> None:
    """They are brought in at start, and nothing of them comes at its time."""
    revive = driver.broker.state.runtime.revive_topic
    due_ms = driver.clock.now_ms() + DELAY_MS
    stored(driver, TIMER_TOPIC, "[]", due_ms, REAL_TOPIC=revive)
    before = driver.broker.state.runtime.store.max_offset(revive, 0)
    reopened(driver)
    assert came(driver) == []
    assert driver.broker.state.runtime.store.max_offset(revive, 0) == before
