"""What a broker says of itself to `popmq doctor`."""

import os

import pytest
from harness.broker import EngineDriver
from harness.names import GROUP, TOPIC

from popmq_broker.core.filters.filter import parse_tags
from popmq_broker.core.polls.receives import LastReceive, LastReceives
from popmq_broker.store.files.ownership import foreign_owner
from popmq_internal.v1 import link_pb2 as link


@pytest.fixture
def driver(driver: EngineDriver) -> EngineDriver:
    driver.make()
    return driver


def inspect(driver: EngineDriver) -> link.InspectReply:
    return driver.call(inspect=link.Inspect()).inspect


def test_who_asks_for_what(driver: EngineDriver) -> None:
    assert not inspect(driver).groups
    driver.pop()
    asked_ms = driver.clock.now_ms()
    for body in ("a", "b", "c"):
        driver.send(body)
    driver.nack(driver.pop(count=1)[0].handle, delay_ms=1)
    driver.advance(1_000)  # its copy is in the retry topic
    (use,) = inspect(driver).groups
    assert (use.group, use.topic, use.lag, use.in_flight) == (GROUP, TOPIC, 3, 0)
    assert use.last_receive_ms == asked_ms
    assert use.waiting_polls == 0
    driver.restart()
    assert inspect(driver).groups[0].last_receive_ms == 0


def start_last(driver: EngineDriver, group: str = "late") -> None:
    config = link.GroupConfig(name=group, max_attempts=16, consume_from="LAST")
    driver.call(put_group=link.PutGroup(group=config))
    at_ms = driver.clock.now_ms()
    driver.call(fix_start=link.FixStart(group=group, topic=TOPIC, at_ms=at_ms, is_now=True))


def skipped(driver: EngineDriver) -> list[tuple[str, int]]:
    return [(use.group, use.skipped) for use in inspect(driver).groups if use.skipped]


def test_a_group_that_skipped_messages_at_its_start(driver: EngineDriver) -> None:
    for body in ("a", "b"):
        driver.send(body)
    driver.clock.advance(1_000)
    start_last(driver)
    assert skipped(driver) == [("late", 2)]
    (use,) = inspect(driver).groups
    assert use.skipped_at_ms == driver.clock.now_ms()
    driver.restart()
    assert skipped(driver) == [("late", 2)]


def test_a_reset_of_the_topic_settles_what_was_skipped(driver: EngineDriver) -> None:
    driver.send("a")
    start_last(driver)
    reset = link.ResetOffsets(group="late", topic=TOPIC, at=link.OFFSET_AT_MIN, dry_run=True)
    driver.call(reset_offsets=reset)
    assert skipped(driver) == [("late", 1)]
    reset.dry_run = False
    driver.call(reset_offsets=reset)
    assert not skipped(driver)
    driver.restart()
    assert not skipped(driver)


def test_what_retention_has_deleted_is_not_told_as_skipped(driver: EngineDriver) -> None:
    driver.send("a" * 1_000)
    start_last(driver)
    driver.clock.advance(60_000)
    while driver.broker.state.runtime.store.log_start == 0:
        driver.send("b" * 1_000)
        driver.clock.advance(100 * 3_600_000)
        driver.retain()
    assert not skipped(driver)


def test_topics_that_are_read_in_more_queues_than_they_take(driver: EngineDriver) -> None:
    for _ in range(4):
        driver.send("a")
    driver.pop(1)
    topic = link.TopicConfig(name=TOPIC, read_queues=1, write_queues=1, message_type="MIXED")
    driver.call(put_topic=link.PutTopic(topic=topic))
    (told,) = inspect(driver).draining
    assert (told.topic, told.write_queues, told.read_queues, told.stored) == (TOPIC, 1, 2, 2)
    assert [(one.group, one.count) for one in told.left] == [(GROUP, 2)]
    for message in driver.pop():
        driver.ack(message.handle)
    (told,) = inspect(driver).draining
    assert told.stored == 2


def test_polls_that_wait(driver: EngineDriver) -> None:
    request = link.Pop(group=GROUP, topic=TOPIC, batch_size=1, invisible_ms=10_000, poll_ms=60_000)
    poll = driver.start(pop=request)
    (use,) = inspect(driver).groups
    assert use.waiting_polls == 1
    driver.send("a")
    assert len(driver.loop.run_until_complete(poll).pop.messages) == 1
    assert inspect(driver).groups[0].waiting_polls == 0


def test_disk_and_files(driver: EngineDriver) -> None:
    driver.fill_disk(95)
    told = inspect(driver)
    assert (told.disk_total_bytes, told.disk_free_bytes) == (100, 5)
    assert told.data_dir == str(driver.data_dir)
    assert told.now_ms == driver.clock.now_ms()
    assert told.started_ms <= told.now_ms


def test_files_of_another_user(driver: EngineDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    assert foreign_owner(driver.data_dir) == ""
    assert foreign_owner(driver.data_dir / "nothing") == ""
    other = os.geteuid() + 7_777
    monkeypatch.setattr(os, "geteuid", lambda: other)
    assert foreign_owner(driver.data_dir) != ""
    assert inspect(driver).data_dir_owner == foreign_owner(driver.data_dir)


def test_last_receives_are_bounded() -> None:
    receives = LastReceives(pairs_max=2)
    for group in ("a", "b", "a", "c"):
        receives.note(group, "t", LastReceive(1, parse_tags("x"), "x"))
    assert len(receives) == 2
    assert receives.of("b", "t") is None
    assert receives.of("a", "t") is not None
    assert receives.of("c", "t") is not None
