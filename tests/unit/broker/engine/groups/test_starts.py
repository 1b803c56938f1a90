"""Where a group starts: one moment, fixed in all queues at once, kept over crashes."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.broker import EngineDriver
from harness.broker_calls import pop_body, popped, send_body
from harness.names import GROUP, TOPIC

from popmq_broker.core.groups.starts import CLOCKS_DIFFER_MS_MAX
from popmq_common.errors import GroupNotFound, StartNotFixed
from popmq_internal.v1 import link_pb2 as link

RANDOM = random.Random(7)
"""What a crash keeps of what was not synced; here nothing is left unsynced."""


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[EngineDriver]:
    made = EngineDriver(tmp_path)
    made.make(queues=4, start="LAST")
    yield made
    made.close()


def fix(driver: EngineDriver, at_ms: int = 0, *, is_now: bool = True) -> link.FixStartReply:
    request = link.FixStart(group=GROUP, topic=TOPIC, at_ms=at_ms, is_now=is_now)
    return driver.call(fix_start=request).fix_start


def pop(driver: EngineDriver) -> list[str]:
    body = pop_body(32, 1_000)
    body["pop"].needs_start = True
    found = driver.call(**body).pop.messages
    return sorted(popped(message).body.decode() for message in found)


def send_to(driver: EngineDriver, queue_id: int, body: str) -> None:
    driver.call(**send_body(body, queue_id=queue_id))


def set_queues(driver: EngineDriver, count: int) -> None:
    topic = link.TopicConfig(
        name=TOPIC, read_queues=count, write_queues=count, message_type="NORMAL"
    )
    driver.call(put_topic=link.PutTopic(topic=topic))


@pytest.mark.parametrize("how", ["nothing happens", "restart", "crash"])
def test_what_is_sent_after_the_start_comes_whatever_queue_it_is_in(
    driver: EngineDriver, how: str
) -> None:
    for body in "abcde":
        driver.send(body)
    assert fix(driver, driver.clock.now_ms()).skipped == 5
    if how == "restart":
        driver.restart()
    elif how == "crash":
        driver.crash(RANDOM)
    for body in "uvwxyz":
        driver.send(body)
    assert pop(driver) == list("uvwxyz")


def test_the_first_start_stays(driver: EngineDriver) -> None:
    first_ms = driver.clock.now_ms()
    assert fix(driver).at_ms == 0
    assert fix(driver, first_ms).at_ms == first_ms
    driver.send("a")
    driver.clock.advance(60_000)
    assert fix(driver, driver.clock.now_ms()).at_ms == first_ms
    driver.crash(RANDOM)
    assert fix(driver).at_ms == first_ms
    assert pop(driver) == ["a"]


def test_a_broker_that_was_away_finds_the_place_by_the_time(driver: EngineDriver) -> None:
    driver.send("before")
    driver.clock.advance(CLOCKS_DIFFER_MS_MAX + 1)
    start_ms = driver.clock.now_ms()
    driver.clock.advance(1)
    driver.send("after")
    reply = fix(driver, start_ms, is_now=False)
    assert (reply.at_ms, reply.skipped) == (start_ms, 1)
    assert pop(driver) == ["after"]


@pytest.mark.parametrize("has_topic", [True, False])
def test_what_is_sent_between_the_question_and_the_start_comes(
    driver: EngineDriver, *, has_topic: bool
) -> None:
    if has_topic:
        driver.send("before")
    else:
        driver.call(delete_topic=link.DeleteTopic(topic=TOPIC))
    ends = fix(driver).ends
    set_queues(driver, 6)
    for queue_id in range(6):
        send_to(driver, queue_id, f"{queue_id}")
    at_ms = driver.clock.now_ms()
    request = link.FixStart(group=GROUP, topic=TOPIC, at_ms=at_ms, is_now=True, ends=ends)
    assert driver.call(fix_start=request).fix_start.skipped == has_topic
    assert pop(driver) == list("012345")


def test_the_place_that_a_consumer_named_is_told_to_who_asks(driver: EngineDriver) -> None:
    """So that a broker which was away gets the same."""
    at_ms = driver.clock.now_ms()
    named = link.FixStart(group=GROUP, topic=TOPIC, at_ms=at_ms)
    named.consume_from, named.consume_from_ms = "TIME", at_ms - 1
    driver.call(fix_start=named)
    for _ in range(2):  # from the journal, then from the file of offsets
        driver.crash(RANDOM)
        reply = fix(driver)
        assert (reply.consume_from, reply.consume_from_ms) == ("TIME", at_ms - 1)
        driver.restart()


def test_a_clock_that_is_behind_skips_nothing(driver: EngineDriver) -> None:
    driver.send("sent after the start, by a clock that is behind")
    start_ms = driver.clock.now_ms() + CLOCKS_DIFFER_MS_MAX
    fix(driver, start_ms, is_now=False)
    assert len(pop(driver)) == 1


def test_queues_that_come_later_are_read_from_their_first_message(driver: EngineDriver) -> None:
    fix(driver, driver.clock.now_ms())
    set_queues(driver, 8)
    for queue_id in range(8):
        send_to(driver, queue_id, f"{queue_id}")
    assert pop(driver) == list("01234567")


def test_queues_that_were_taken_away_before_the_start_hold_nothing_for_the_group(
    driver: EngineDriver,
) -> None:
    for queue_id in range(4):
        send_to(driver, queue_id, "old")
    set_queues(driver, 1)
    fix(driver, driver.clock.now_ms())
    set_queues(driver, 4)
    send_to(driver, 3, "new")
    assert pop(driver) == ["new"]


def test_a_topic_that_comes_later_is_read_from_its_first_message(driver: EngineDriver) -> None:
    driver.call(delete_topic=link.DeleteTopic(topic=TOPIC))
    fix(driver, driver.clock.now_ms())
    driver.make(queues=2, start="LAST")
    driver.send("a")
    driver.crash(RANDOM)
    assert pop(driver) == ["a"]


def test_a_group_that_is_made_again_starts_again(driver: EngineDriver) -> None:
    fix(driver, driver.clock.now_ms())
    driver.call(delete_group=link.DeleteGroup(group=GROUP))
    driver.send("between")
    with pytest.raises(GroupNotFound):
        fix(driver)
    driver.make(queues=4, start="LAST")
    driver.crash(RANDOM)
    assert fix(driver).at_ms == 0
    assert fix(driver, driver.clock.now_ms()).skipped == 1
    assert pop(driver) == []


def test_a_receive_waits_for_the_start(driver: EngineDriver) -> None:
    with pytest.raises(StartNotFixed):
        pop(driver)


def test_the_lag_counts_from_the_start(driver: EngineDriver) -> None:
    """Also in queues that nobody has received from."""
    driver.send("before")
    fix(driver, driver.clock.now_ms())
    for queue_id in range(4):
        send_to(driver, queue_id, "after")
    described = driver.call(describe=link.Describe(group=GROUP)).describe
    assert sum(queue.lag for queue in described.groups[0].queues) == 4
