"""A send that is repeated because its answer was lost: stored once, and it gets its first place."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness.broker import EngineDriver
from harness.broker_calls import half_body, later_body, recall_body, received, send_body
from harness.names import TOPIC

from popmq_broker.engine.startup import known_sends_replay
from popmq_common.errors import AlreadySettled, TopicNotFound
from popmq_common.link.sends import SendDone
from popmq_internal.v1 import link_pb2 as link

ON: dict[str, Any] = {"known_sends_max": 1_000}


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[EngineDriver]:
    made = EngineDriver(tmp_path, **ON)
    made.make(queues=1)
    yield made
    made.close()


def offset_of(driver: EngineDriver, body: dict[str, Any]) -> tuple[int, list[int]]:
    """(queue offset, offsets of the single messages if some were known)"""
    reply = driver.call(**body).send
    return reply.queue_offset, list(reply.queue_offsets)


def bodies(driver: EngineDriver) -> list[bytes]:
    return [message.body for message in driver.pop()]


def batch(*texts: str) -> dict[str, Any]:
    records = [send_body(text)["send"].records[0] for text in texts]
    return {"send": link.Send(topic=TOPIC, queue_id=0, records=records)}


def test_a_repeated_send_gets_the_first_place(driver: EngineDriver) -> None:
    assert offset_of(driver, send_body("a")) == (0, [])
    assert offset_of(driver, send_body("b")) == (1, [])
    assert offset_of(driver, send_body("a")) == (0, [0])
    assert bodies(driver) == [b"a", b"b"]
    assert driver.broker.state.runtime.stats.sent[TOPIC] == 2
    assert driver.broker.state.runtime.stats.repeated[TOPIC] == 1


def test_an_id_of_another_length_is_known_too(driver: EngineDriver) -> None:
    for name in ("0123456789ABCDEF0123456789ABCDEF01", "short", "a-" * 40):
        assert offset_of(driver, send_body(name))[1] == []
        assert offset_of(driver, send_body(name))[1] != []


def test_the_second_try_may_hold_more_messages(driver: EngineDriver) -> None:
    assert offset_of(driver, batch("a", "b")) == (0, [])
    assert offset_of(driver, batch("c", "b", "d", "a")) == (2, [2, 1, 3, 0])
    assert bodies(driver) == [b"a", b"b", b"c", b"d"]


def test_both_tries_may_come_in_one_frame(driver: EngineDriver) -> None:
    answered: dict[int, link.Reply] = {}

    async def run() -> None:
        calls = [link.Call(id=i, **batch(*texts)) for i, texts in enumerate(("ab", "c", "ba"))]
        driver.broker.handle_sends(
            calls, lambda reply: answered.__setitem__(reply.id, received(reply))
        )
        store = driver.broker.state.runtime.store
        await store.durable(store.log_end)

    driver.run(run())
    assert [list(answered[i].send.queue_offsets) for i in range(3)] == [[], [], [1, 0]]
    assert bodies(driver) == [b"a", b"b", b"c"]


def test_one_message_twice_in_a_call_is_one(driver: EngineDriver) -> None:
    assert offset_of(driver, batch("a", "b", "a")) == (0, [0, 1, 0])
    assert bodies(driver) == [b"a", b"b"]


def test_a_repeat_is_not_answered_before_the_first_is_on_disk(driver: EngineDriver) -> None:
    driver.hold_disk()
    answered: list[link.Reply | SendDone] = []

    async def run() -> None:
        driver.broker.handle_sends([link.Call(id=1, **send_body("a"))], answered.append)
        driver.broker.handle_sends([link.Call(id=2, **send_body("a"))], answered.append)

    driver.run(run())
    assert answered == []


def test_the_same_id_in_another_topic_is_another_message(driver: EngineDriver) -> None:
    other = link.TopicConfig(name="other", read_queues=1, write_queues=1, message_type="NORMAL")
    driver.call(put_topic=link.PutTopic(topic=other))
    for _ in range(2):
        for topic in (TOPIC, "other"):
            body = send_body("a")
            body["send"].topic = topic
            assert driver.call(**body).send.queue_offset == 0
    store = driver.broker.state.runtime.store
    assert [store.end_offset(topic, 0) for topic in (TOPIC, "other")] == [1, 1]


def test_another_body_under_the_same_id_is_stored(driver: EngineDriver) -> None:
    assert offset_of(driver, send_body("a")) == (0, [])
    other = send_body("a")
    other["send"].records[0].body = b"A"
    assert offset_of(driver, other) == (1, [])


def test_messages_without_an_id_are_all_stored(driver: EngineDriver) -> None:
    body = batch("a", "a")
    for record in body["send"].records:
        record.properties = b"colour\x01blue\x02"
    assert [offset_of(driver, body) for _ in range(2)] == [(0, []), (2, [])]


@pytest.mark.parametrize("clean", [True, False])
def test_it_is_known_after_a_restart(driver: EngineDriver, clean: bool) -> None:
    for text in "abc":
        driver.send(text)
    driver.call(**later_body("later", driver.clock.now_ms() + 60_000))
    half = driver.call(**half_body("half")).send
    if clean:
        driver.restart()
    else:
        driver.crash(random.Random(1))
    assert offset_of(driver, send_body("b")) == (1, [1])
    assert offset_of(driver, later_body("later", driver.clock.now_ms() + 60_000)) == (0, [0])
    again = driver.call(**half_body("half")).send
    assert (again.queue_offset, again.log_offsets) == (half.queue_offset, half.log_offsets)
    assert bodies(driver) == [b"a", b"b", b"c"]


def test_a_delayed_message_is_stored_once_before_and_after_its_time(driver: EngineDriver) -> None:
    due_ms = driver.clock.now_ms() + 60_000
    for _ in range(2):
        assert driver.call(**later_body("a", due_ms)).send.queue_offset == 0
    assert len(driver.broker.timers.wheel) == 1
    driver.advance(61_000)
    assert offset_of(driver, later_body("a", due_ms))[1] == [0]
    assert bodies(driver) == [b"a"]
    driver.restart()
    assert offset_of(driver, later_body("a", due_ms))[1] == [0]


def test_what_was_recalled_stays_recalled(driver: EngineDriver) -> None:
    due_ms = driver.clock.now_ms() + 60_000
    driver.call(**later_body("a", due_ms))
    driver.call(**recall_body("a", due_ms))
    assert offset_of(driver, later_body("a", due_ms))[1] == [0]
    driver.restart()
    assert offset_of(driver, later_body("a", due_ms))[1] == [0]
    driver.advance(61_000)
    assert bodies(driver) == []


def test_a_half_message_is_one_transaction(driver: EngineDriver) -> None:
    first, again = driver.half("a"), driver.half("a")
    assert again == first
    assert len(driver.broker.state.halves) == 1
    driver.end(first, commit=True)
    assert driver.half("a") == first
    with pytest.raises(AlreadySettled):
        driver.end(first, commit=False)
    assert bodies(driver) == [b"a"]


def test_a_topic_that_was_created_again_knows_nothing(driver: EngineDriver) -> None:
    driver.send("a")
    driver.call(delete_topic=link.DeleteTopic(topic=TOPIC))
    with pytest.raises(TopicNotFound):
        driver.send("a")
    driver.make(queues=1)
    driver.send("a")
    assert bodies(driver) == [b"a"]


def test_a_retry_copy_and_a_dead_letter_are_no_repeats(driver: EngineDriver) -> None:
    driver.send("a")
    driver.pop(invisible_ms=1_000)
    driver.advance(2_000)
    assert [message.delivery_attempt for message in driver.pop()] == [2]
    driver.restart()
    assert offset_of(driver, send_body("a")) == (0, [0])


def test_a_refused_broker_still_answers_what_it_has(driver: EngineDriver) -> None:
    driver.send("a")
    driver.call(set_permission=link.SetPermission(perm=4))
    assert offset_of(driver, send_body("a")) == (0, [0])


def test_the_table_is_bounded_by_count(tmp_path: Path) -> None:
    driver = EngineDriver(tmp_path, known_sends_max=10)
    driver.make(queues=1)
    for number in range(50):
        driver.send(f"{number}")
        assert len(driver.broker.state.known_sends) <= 10
    assert offset_of(driver, send_body("45"))[1] == [45]
    assert offset_of(driver, send_body("10"))[1] == []
    driver.close()


def test_the_table_is_bounded_by_time(driver: EngineDriver) -> None:
    age_ms = driver.broker.state.runtime.config.known_sends_ms
    driver.send("0")
    driver.advance(age_ms)
    driver.send("1")
    assert offset_of(driver, send_body("0"))[1] == [0]
    driver.advance(age_ms)
    driver.send("2")
    assert len(driver.broker.state.known_sends) == 2
    assert offset_of(driver, send_body("0"))[1] == []


def test_a_start_reads_the_end_of_a_long_log_alone(
    driver: EngineDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_sends_replay, "BYTES_MAX", 4_096)
    monkeypatch.setattr(known_sends_replay, "SEARCH_BYTES", 256)
    for number in range(100):
        driver.send(f"{number}")
    driver.restart()
    assert 3 < len(driver.broker.state.known_sends) < 40
    assert offset_of(driver, send_body("99"))[1] == [99]


def test_a_start_reads_no_more_records_than_it_may(
    driver: EngineDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_sends_replay, "RECORDS_MAX", 20)
    monkeypatch.setattr(known_sends_replay, "SEARCH_BYTES", 256)
    monkeypatch.setattr(known_sends_replay, "SAMPLE_BYTES", 2_048)
    for number in range(100):
        driver.send(f"{number}")
    driver.restart()
    assert 10 < len(driver.broker.state.known_sends) < 40
    assert offset_of(driver, send_body("99"))[1] == [99]


def test_a_start_reads_what_is_young_enough(
    driver: EngineDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_sends_replay, "SEARCH_BYTES", 256)
    for number in range(50):
        driver.send(f"old-{number}")
    driver.advance(driver.broker.state.runtime.config.known_sends_ms + 1)
    for number in range(50):
        driver.send(f"{number}")
    driver.restart()
    assert len(driver.broker.state.known_sends) == 50
    store = driver.broker.state.runtime.store
    start = known_sends_replay.begin(store, store.last_store_ms, 1 << 40)
    assert start is not None
    found = store.read_at(start)
    assert found is not None
    assert found[0].queue_offset > 40


def test_older_sends_are_read_while_the_broker_serves(
    driver: EngineDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest are known at once; a send under way keeps its place."""
    monkeypatch.setattr(known_sends_replay, "SEARCH_BYTES", 256)
    monkeypatch.setattr(known_sends_replay, "SAMPLE_BYTES", 2_048)
    monkeypatch.setattr(known_sends_replay, "NEWEST_RECORDS", 10)
    for number in range(100):
        driver.send(str(number))
    driver.restart()
    assert driver.broker.older_sends is not None
    assert offset_of(driver, send_body("99")) == (99, [99])
    assert offset_of(driver, send_body("5")) == (100, [])
    state = driver.broker.state
    work = known_sends_replay.load_older(
        state.runtime, state.known_sends, driver.broker.older_sends
    )
    driver.run(work)
    assert offset_of(driver, send_body("6")) == (6, [6])
    assert offset_of(driver, send_body("5")) == (100, [100])
