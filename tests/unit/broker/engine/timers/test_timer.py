"""Delayed messages in a real engine: what the state machine does not ask."""

import asyncio
import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.broker import EngineDriver
from harness.broker_calls import later_body, recall_body
from harness.names import TOPIC

from popmq_broker.app import open_engine
from popmq_broker.config import BrokerConfig
from popmq_broker.core.store.queue_entry import tags_code
from popmq_broker.engine.timers.timer_load import LEVELS_FILE, TIMERS_FILE
from popmq_broker.store.store import Draft
from popmq_common.errors import BadRequest, TopicNotFound
from popmq_common.process.clock import VirtualClock
from popmq_common.records import hosts, properties
from popmq_common.records.names import LEVELS_TOPIC, TIMER_TOPIC
from popmq_common.records.record import Record
from popmq_internal.v1 import link_pb2 as link


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[EngineDriver]:
    made = EngineDriver(tmp_path, delay_levels="1s 5s", timer_roll_ms=20_000)
    made.make(queues=4)
    yield made
    made.close()


def records(driver: EngineDriver, topic: str = TOPIC, queue_id: int = 0) -> list[Record]:
    store = driver.broker.state.runtime.store
    found = [
        store.read(entry.log_offset, entry.size_bytes)
        for entry in store.entries(topic, queue_id, 0, 100)
    ]
    return [record for record in found if record is not None]


def append(driver: EngineDriver, *drafts: Draft) -> None:
    async def step() -> None:
        store = driver.broker.state.runtime.store
        store.append(drafts, driver.clock.now_ms())
        await store.durable(store.log_end)

    driver.run(step())


def test_a_delayed_message_is_parked_as_rocketmq_does_it(driver: EngineDriver) -> None:
    due_ms = driver.send_later("a", 5_000, tag="x")
    (parked,) = records(driver, TIMER_TOPIC)
    named = properties.decode(parked.properties)
    assert named["TIMER_OUT_MS"] == named["TIMER_DELIVER_MS"] == str(due_ms)
    assert (named["REAL_TOPIC"], named["REAL_QID"]) == (TOPIC, "0")
    (entry,) = driver.broker.state.runtime.store.entries(TIMER_TOPIC, 0, 0, 1)
    assert entry.tags_code == tags_code("x")
    driver.advance(5_000)
    (delivered,) = records(driver)
    assert (delivered.body, delivered.born_timestamp_ms) == (b"a", parked.born_timestamp_ms)
    assert "REAL_TOPIC" not in properties.decode(delivered.properties)


def test_what_is_usual_is_delivered_without_decoding_it(
    driver: EngineDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same record as by decoding, bit by bit, but for its place and time."""
    for body in ("quick", "slow "):
        driver.send_later(body, 5_000, tag="x")
        with monkeypatch.context() as patched:
            if body == "quick":
                patched.setattr(driver.broker.timers.records, "read", None)
            else:
                patched.setattr(driver.broker.timers.records, "_copied", lambda *_: None)
            driver.advance(5_000)
    quick, slow = records(driver)
    for name in ("flag", "sys_flag", "born_host", "reconsume_times", "queue_id"):
        assert getattr(quick, name) == getattr(slow, name)
    assert list(properties.decode(quick.properties)) == list(properties.decode(slow.properties))
    codes = [entry.tags_code for entry in driver.broker.state.runtime.store.entries(TOPIC, 0, 0, 2)]
    assert codes == [tags_code("x")] * 2


def test_it_counts_as_stored_when_it_is_delivered(driver: EngineDriver) -> None:
    driver.send_later("a", 5_000)
    driver.send_later("now", 0)
    assert driver.broker.state.runtime.stats.sent[TOPIC] == 1
    driver.advance(5_000)
    assert driver.broker.state.runtime.stats.sent[TOPIC] == 2
    assert driver.broker.state.runtime.stats.timed[TOPIC, "delivered"] == 1


def test_some_of_a_request_are_due_already(driver: EngineDriver) -> None:
    now_ms = driver.clock.now_ms()
    request = later_body("past", now_ms - 1)["send"]
    request.records.extend(later_body("later", now_ms + 1)["send"].records)
    driver.call(send=request)
    assert [record.body for record in records(driver)] == [b"past"]
    driver.advance(1)
    assert [record.body for record in records(driver)] == [b"past", b"later"]


@pytest.mark.parametrize("crash", [False, True])
def test_one_whose_topic_is_gone_is_dropped_for_good(driver: EngineDriver, crash: bool) -> None:
    due_ms = driver.send_later("a", 5_000)
    driver.call(delete_topic=link.DeleteTopic(topic=TOPIC))
    with pytest.raises(TopicNotFound):
        driver.recall("a", due_ms)
    driver.advance(5_000)
    assert driver.broker.state.runtime.stats.timed[TOPIC, "dropped"] == 1
    if crash:
        driver.crash(random.Random(1))
    driver.make(queues=4)
    driver.advance(5_000)
    assert records(driver) == []


@pytest.mark.parametrize("crash", [False, True])
def test_nothing_comes_into_a_topic_that_was_made_again(driver: EngineDriver, crash: bool) -> None:
    """Rolled or not; what is sent from then on does."""
    driver.send_later("old", 50_000)
    park(driver, "old level", "2")
    driver.call(delete_topic=link.DeleteTopic(topic=TOPIC))
    driver.make(queues=4)
    driver.send_later("new", 50_000)
    driver.advance(25_000)
    driver.run(_roll(driver))
    if crash:
        driver.crash(random.Random(1))
    driver.advance(25_000)
    assert [record.body for record in records(driver)] == [b"new"]
    assert records(driver, queue_id=2) == []


def test_the_mark_of_a_recall_that_was_written_again_is_there_once(driver: EngineDriver) -> None:
    driver.send_later("mark", 50_000)
    driver.recall("mark", driver.clock.now_ms() + 50_000)
    driver.advance(25_000)
    driver.run(_roll(driver))
    driver.stop()
    (driver.data_dir / TIMERS_FILE).unlink(missing_ok=True)
    driver.go_on()
    assert driver.broker.timers.wheel.mark_count == 1


async def _roll(driver: EngineDriver) -> None:
    store = driver.broker.state.runtime.store
    await _begin_roll(driver)
    await store.durable(store.log_end)


def test_its_topic_has_fewer_queues_by_then(driver: EngineDriver) -> None:
    request = later_body("a", driver.clock.now_ms() + 1_000)
    request["send"].queue_id = 3
    driver.call(**request)
    driver.make(queues=2)
    driver.advance(1_000)
    assert [record.body for record in records(driver, queue_id=1)] == [b"a"]


def test_a_send_that_was_repeated_is_recalled_as_one(driver: EngineDriver) -> None:
    due_ms = driver.send_later("a", 5_000)
    driver.call(**later_body("a", due_ms))
    driver.recall("a", due_ms)
    driver.crash(random.Random(1))
    driver.advance(5_000)
    assert records(driver) == []


def test_equal_ids_in_two_topics_are_two_messages(driver: EngineDriver) -> None:
    topic = link.TopicConfig(name="other", read_queues=1, write_queues=1, message_type="DELAY")
    driver.call(put_topic=link.PutTopic(topic=topic))
    due_ms = driver.send_later("a", 5_000)
    request = later_body("a", due_ms)
    request["send"].topic = "other"
    driver.call(**request)
    driver.recall("a", due_ms)
    driver.advance(5_000)
    assert records(driver) == []
    assert [record.body for record in records(driver, "other")] == [b"a"]


def test_a_mark_that_rocketmq_left_is_obeyed(driver: EngineDriver) -> None:
    """It names topic and id, but no offset."""
    due_ms = driver.send_later("a", 5_000)
    driver.send_later("b", 5_000)
    named = {"TIMER_DEL_UNIQKEY": f"{TOPIC}+id-a", "TIMER_OUT_MS": str(due_ms)}
    text = properties.encode({**named, "REAL_TOPIC": TOPIC, "REAL_QID": "0"})
    append(driver, Draft(TIMER_TOPIC, 0, b"0", text, 0, 0, 0, 0, hosts.LOCAL))
    driver.crash(random.Random(1))
    driver.advance(5_000)
    assert [record.body for record in records(driver)] == [b"b"]


def test_a_damaged_snapshot_is_made_again(driver: EngineDriver) -> None:
    driver.send_later("a", 5_000)
    driver.restart()
    path = driver.data_dir / TIMERS_FILE
    path.write_bytes(path.read_bytes()[:-1])
    driver.crash(random.Random(1))
    driver.advance(5_000)
    assert [record.body for record in records(driver)] == [b"a"]


def test_only_what_changed_is_written(driver: EngineDriver) -> None:
    path = driver.data_dir / TIMERS_FILE
    driver.run(driver.broker.timer_keeper.write())
    assert not path.exists(), "nothing waits, and nothing has"
    driver.send_later("a", 5_000)
    driver.run(driver.broker.timer_keeper.write())
    before = path.stat().st_ino
    driver.send("b")
    driver.run(driver.broker.timer_keeper.write())
    assert path.stat().st_ino == before


def test_the_log_is_needed_from_the_oldest_that_waits(driver: EngineDriver) -> None:
    keeper, store = driver.broker.timer_keeper, driver.broker.state.runtime.store
    assert keeper.needed_from() is None
    driver.send("before")
    driver.send_later("a", 5_000)
    driver.send_later("b", 9_000)
    (first, _) = store.entries(TIMER_TOPIC, 0, 0, 2)
    assert keeper.needed_from() == first.log_offset
    driver.advance(5_000)
    (_, second) = store.entries(TIMER_TOPIC, 0, 0, 2)
    assert keeper.needed_from() == second.log_offset
    driver.advance(5_000)
    assert keeper.needed_from() is None


def test_a_roll_frees_the_log(driver: EngineDriver) -> None:
    """Only what has become old is written again, and not twice."""
    driver.send_later("a", 600_000)
    driver.advance(15_000)
    driver.send_later("b", 600_000)
    driver.advance(10_000)
    store, keeper = driver.broker.state.runtime.store, driver.broker.timer_keeper
    before = store.log_end
    driver.run(_roll(driver))
    (_, younger, moved) = records(driver, TIMER_TOPIC)
    assert (moved.body, moved.log_offset) == (b"a", before)
    assert properties.decode(moved.properties)["TIMER_ROLL_TIMES"] == "1"
    assert keeper.needed_from() == younger.log_offset
    driver.advance(600_000)
    assert sorted(record.body for record in records(driver)) == [b"a", b"b"]


def test_what_becomes_old_soon_is_looked_for_soon(tmp_path: Path) -> None:
    driver = EngineDriver(tmp_path, timer_roll_ms=20)
    driver.make()
    driver.send_later("a", 600_000)
    driver.clock.advance(100)

    async def rolled() -> bool:
        rolling = asyncio.create_task(driver.broker.timer_keeper.run())
        for _ in range(800):
            await asyncio.sleep(0.01)
            if driver.broker.state.runtime.store.max_offset(TIMER_TOPIC, 0) == 2:
                break
        return (
            rolling.cancel() and driver.broker.state.runtime.store.max_offset(TIMER_TOPIC, 0) == 2
        )

    assert driver.run(rolled())
    driver.close()


@pytest.mark.parametrize("recalled_before", [False, True])
def test_it_is_recalled_while_its_record_is_on_its_way_to_the_disk(
    driver: EngineDriver, recalled_before: bool
) -> None:
    """Written again by a roll, or the mark of a recall whose caller asks again."""
    due_ms = driver.send_later("a", 50_000)
    driver.advance(25_000)
    driver.hold_disk()
    if recalled_before:
        driver.start(**recall_body("a", due_ms))
    else:
        driver.run(_begin_roll(driver))
    asked = driver.start(**recall_body("a", due_ms))
    driver.let_go_of_disk()
    driver.run(asyncio.wait_for(asked, 5))
    driver.advance(25_000)
    assert records(driver) == []


async def _begin_roll(driver: EngineDriver) -> None:
    assert not driver.broker.timer_keeper.roll(), "there is no more"


def leveled(body: str, level: str) -> Draft:
    named = {properties.UNIQ_KEY: body, properties.DELAY_LEVEL: level}
    text = properties.encode({**named, properties.DELIVER_MS: "99"})
    return Draft(TOPIC, 2, body.encode(), text, 0, 0, 0, 7, hosts.LOCAL, 3)


def park(driver: EngineDriver, body: str, level: str) -> Draft:
    async def parked() -> Draft:
        return driver.broker.timers.levels.park(leveled(body, level), driver.clock.now_ms())

    draft = driver.run(parked())
    append(driver, draft)
    return draft


def test_levels_deliver_in_order_at_their_time(driver: EngineDriver) -> None:
    for body, level in (("a", "2"), ("b", "1"), ("c", "1"), ("d", "9")):
        park(driver, body, level)
    assert driver.broker.timers.levels.pending() == {1: 2, 2: 2}
    for ms, expected in ((999, ""), (1, "bc"), (3_999, "bc"), (1, "bcad")):
        driver.advance(ms)
        found = records(driver, queue_id=2)
        assert "".join(record.body.decode() for record in found) == expected
    assert found[0].reconsume_times == 3
    named = properties.decode(found[0].properties)
    assert named == {properties.UNIQ_KEY: "b", properties.TIMER_OF: "1@0"}


def test_no_level_is_no_delay(driver: EngineDriver) -> None:
    draft = leveled("a", "0")
    assert driver.broker.timers.levels.park(draft, 0) is draft


@pytest.mark.parametrize("rebuild", [False, True])
def test_a_levels_entry_holds_the_time_also_after_a_rebuild(
    driver: EngineDriver, rebuild: bool
) -> None:
    """RocketMQ reads it there; a tag's code would be taken for a time long past."""
    park(driver, "a", "2")
    due_ms = driver.clock.now_ms() + 5_000
    if rebuild:
        driver.crash(random.Random(1))
        driver.run(driver.broker.close())
        for path in (driver.data_dir / "consumequeue" / LEVELS_TOPIC / "1").iterdir():
            path.unlink()
        driver.broker = driver._open()
    (entry,) = driver.broker.state.runtime.store.entries(LEVELS_TOPIC, 1, 0, 1)
    assert entry.tags_code == due_ms
    driver.advance(4_999)
    assert records(driver, queue_id=2) == []
    driver.advance(1)
    assert len(records(driver, queue_id=2)) == 1


def test_levels_that_became_shorter_do_not_park_for_ever(tmp_path: Path) -> None:
    longer = EngineDriver(tmp_path, delay_levels="10h")
    longer.make(queues=4)
    park(longer, "a", "1")
    longer._settings["delay_levels"] = "1s"
    longer.restart()
    longer.advance(1_000)
    assert len(records(longer, queue_id=2)) == 1
    longer.close()


def test_progress_of_levels_is_written_for_rocketmq_and_read_from_it(
    driver: EngineDriver,
) -> None:
    for body in "abc":
        park(driver, body, "1")
    driver.advance(1_000)
    driver.restart()
    path = driver.data_dir / "config" / LEVELS_FILE
    assert json.loads(path.read_text())["offsetTable"]["1"] == 3
    driver.run(driver.broker.close())
    (driver.data_dir / TIMERS_FILE).unlink()
    driver.broker = driver._open()
    driver.advance(10_000)
    assert len(records(driver, queue_id=2)) == 3


def test_what_rocketmq_has_delivered_of_a_level_does_not_come_again(driver: EngineDriver) -> None:
    """Its file is newer than our snapshot: it had the directory in between."""
    park(driver, "ours", "1")
    driver.advance(1_000)
    for body in ("theirs", "left"):
        park(driver, body, "1")
    driver.run(driver.broker.close())
    path = driver.data_dir / "config" / LEVELS_FILE
    path.write_text('{"dataVersion":{"counter":9},"offsetTable":{1:2}}')
    driver.broker = driver._open()
    driver.advance(10_000)
    assert [record.body for record in records(driver, queue_id=2)] == [b"ours", b"left"]


async def test_levels_that_cannot_be_read_are_told_at_start(tmp_path: Path) -> None:
    config = BrokerConfig(data_dir=tmp_path, delay_levels="1s 5")
    with pytest.raises(BadRequest, match="'5' is no delay"):
        await open_engine(config, VirtualClock())
