"""Positions: what is told is on disk, and consumers that pull follow a reset."""

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness.broker import EngineDriver
from harness.broker_calls import ack_body
from harness.names import GROUP, TOPIC

from popmq_common.errors import NoPermission, ResetMeanwhile
from popmq_internal.v1 import link_pb2 as link


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[EngineDriver]:
    made = EngineDriver(tmp_path)
    made.make(queues=1)
    for body in "abcdef":
        made.send(body)
    yield made
    made.close()


def pull_body(client: str, offset: int, poll_ms: int = 0) -> dict[str, Any]:
    pull = link.Pull(
        group=GROUP, topic=TOPIC, offset=offset, batch_size=2, poll_ms=poll_ms, client_id=client
    )
    return {"pull": pull}


def pull(driver: EngineDriver, client: str, offset: int) -> tuple[bool, int]:
    """(whether it was sent elsewhere, next offset)"""
    reply = driver.call(**pull_body(client, offset)).pull
    assert not (reply.corrected and reply.records)
    return reply.corrected, reply.next_offset


def commit(driver: EngineDriver, client: str, offset: int) -> int:
    request = link.CommitOffset(group=GROUP, topic=TOPIC, offset=offset, client_id=client)
    return driver.call(commit_offset=request).offset.offset


def offset(driver: EngineDriver) -> int:
    return driver.call(get_offset=link.GetOffset(group=GROUP, topic=TOPIC)).offset.offset


def reset(driver: EngineDriver, to: int) -> None:
    driver.call(reset_offsets=link.ResetOffsets(group=GROUP, topic=TOPIC, queue_id=0, offset=to))


@pytest.mark.parametrize("how", ["commit", "acks of a FIFO group"])
def test_an_offset_that_is_told_is_on_disk(driver: EngineDriver, how: str) -> None:
    """Else a crash would take back what somebody was told."""
    if how == "commit":
        commit(driver, "me", 1)
        change: Any = {
            "commit_offset": link.CommitOffset(group=GROUP, topic=TOPIC, offset=3, client_id="me")
        }
    else:
        driver.make(queues=1, fifo=True)
        (first,) = driver.pop(1)
        change = ack_body([first.handle])
    driver.hold_disk()
    changing = driver.start(**change)
    asking = driver.start(get_offset=link.GetOffset(group=GROUP, topic=TOPIC))
    assert not changing.done()
    assert not asking.done()
    driver.let_go_of_disk()
    driver.run(asyncio.wait_for(changing, 10))
    assert driver.run(asyncio.wait_for(asking, 10)).offset.offset == offset(driver)


def test_a_consumer_that_pulls_is_told_of_a_reset_and_cannot_undo_it(driver: EngineDriver) -> None:
    assert pull(driver, "me", 2) == (False, 4)
    assert commit(driver, "me", 4) == 4
    reset(driver, 1)
    with pytest.raises(ResetMeanwhile, match="superseded"):
        commit(driver, "me", 4)
    assert offset(driver) == 1
    assert pull(driver, "me", 4) == (True, 1)
    assert pull(driver, "me", 1) == (False, 3)
    assert commit(driver, "me", 3) == 3
    assert pull(driver, "me", 5) == (False, 6), "once"


def test_a_reset_forward_skips_for_a_consumer_that_pulls(driver: EngineDriver) -> None:
    assert pull(driver, "me", 0) == (False, 2)
    reset(driver, 5)
    assert pull(driver, "me", 2) == (True, 5)
    assert pull(driver, "me", 5) == (False, 6)


def test_a_pull_that_waits_learns_of_a_reset_at_once(driver: EngineDriver) -> None:
    waiting = driver.start(**pull_body("me", 6, poll_ms=19_000))
    reset(driver, 3)
    reply = driver.run(asyncio.wait_for(waiting, 5)).pull
    assert (reply.corrected, reply.next_offset) == (True, 3)


def test_a_consumer_that_comes_after_the_reset_is_left_alone(driver: EngineDriver) -> None:
    pull(driver, "old", 0)
    reset(driver, 3)
    assert pull(driver, "new", 5) == (False, 6)
    assert commit(driver, "new", 6) == 6


def test_a_group_made_again_has_no_reset(driver: EngineDriver) -> None:
    pull(driver, "me", 0)
    reset(driver, 3)
    driver.call(delete_group=link.DeleteGroup(group=GROUP))
    driver.make(queues=1)
    assert pull(driver, "me", 5) == (False, 6)


def test_a_group_is_not_moved_in_a_topic_that_it_may_not_read(driver: EngineDriver) -> None:
    topic = link.TopicConfig(
        name=TOPIC, read_queues=1, write_queues=1, perm=2, message_type="MIXED"
    )
    driver.call(put_topic=link.PutTopic(topic=topic))
    with pytest.raises(NoPermission, match="not readable"):
        reset(driver, 3)
    topic.perm = 6
    driver.call(put_topic=link.PutTopic(topic=topic))
    reset(driver, 3)
    assert offset(driver) == 3


@pytest.mark.parametrize("crash", [False, True])
def test_a_reset_drops_retries_that_are_on_their_way_to_the_disk(
    driver: EngineDriver, crash: bool
) -> None:
    """Each message comes once behind it, with its first attempt."""
    driver.pop(2, invisible_ms=1_000)
    driver.clock.advance(1_000)
    driver.hold_disk()

    async def revive() -> "asyncio.Task[int]":
        reviving = asyncio.create_task(driver.broker.revive.revive_due())
        await asyncio.sleep(0)
        return reviving

    reviving = driver.run(revive())
    assert not reviving.done()
    to_first = link.ResetOffsets(group=GROUP, topic=TOPIC, at=link.OFFSET_AT_MIN)
    resetting = driver.start(reset_offsets=to_first)
    driver.let_go_of_disk()
    assert driver.run(asyncio.wait_for(resetting, 10)).reset_offsets.retries_dropped == 2
    assert driver.run(asyncio.wait_for(reviving, 10)) == 2
    if crash:
        driver.crash(random.Random(1))
    came = [(message.body, message.delivery_attempt) for message in driver.pop(32)]
    assert sorted(came) == [(bytes([body]), 1) for body in b"abcdef"]
    assert driver.pop(32) == []
