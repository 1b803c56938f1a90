"""Leases that RocketMQ's timer holds: are they kept by whoever opens its directory?"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.broker import EngineDriver
from harness.names import GROUP, TOPIC

from popmq_broker.core.leases import checkpoint as ck
from popmq_broker.core.store.queue_entry import tags_code
from popmq_broker.store.store import Draft
from popmq_common.records import hosts, properties
from popmq_common.records.names import TIMER_TOPIC
from popmq_common.units import QueueOffset

LEASE_MS = 30_000


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[EngineDriver]:
    driver = EngineDriver(tmp_path)
    driver.make(queues=1)
    for body in ("a", "b", "c"):
        driver.send(body)
    yield driver
    driver.close()


def park(driver: EngineDriver, tag: str, body: bytes, real_topic: str = "") -> None:
    """As RocketMQ's timer does."""
    state = driver.broker.state
    real_topic = real_topic or state.runtime.revive_topic
    named = {"TAGS": tag, "REAL_TOPIC": real_topic, "REAL_QID": "3", "TIMER_OUT_MS": "1"}
    draft = Draft(
        topic=TIMER_TOPIC,
        queue_id=0,
        body=body,
        properties=properties.encode(named),
        tags_code=tags_code(tag),
        sys_flag=0,
        flag=0,
        born_timestamp_ms=7,
        born_host=hosts.LOCAL,
    )

    async def append() -> None:
        state.runtime.store.append([draft], driver.clock.now_ms())
        await state.runtime.store.settled()

    driver.run(append())


def lease(driver: EngineDriver) -> ck.Checkpoint:
    """Of the first two messages, as RocketMQ makes it."""
    return ck.Checkpoint(
        topic=TOPIC,
        group=GROUP,
        queue_id=0,
        start_offset=QueueOffset(0),
        offsets=(0, 1),
        pop_time_ms=driver.clock.now_ms(),
        invisible_ms=LEASE_MS,
        broker="broker-a",
    )


def ack(held: ck.Checkpoint, *offsets: int) -> tuple[str, bytes]:
    return ck.encode_ack(
        ck.AckRecord(
            topic=TOPIC,
            group=GROUP,
            queue_id=0,
            start_offset=held.start_offset,
            offsets=offsets,
            pop_time_ms=held.pop_time_ms,
            broker="broker-a",
        )
    )


def popped(driver: EngineDriver) -> list[bytes]:
    return sorted(message.body for message in driver.pop(invisible_ms=2 * LEASE_MS))


def journal_count(driver: EngineDriver) -> int:
    state = driver.broker.state
    return sum(state.runtime.store.max_offset(state.runtime.revive_topic, i) for i in range(8))


def test_a_parked_lease_is_kept_and_ends_in_time(driver: EngineDriver) -> None:
    park(driver, "ck", ck.encode_checkpoint(lease(driver)))
    driver.restart()
    assert popped(driver) == [b"c"]
    driver.advance(LEASE_MS)
    again = driver.pop()
    assert sorted(message.body for message in again) == [b"a", b"b"]
    assert {message.delivery_attempt for message in again} == {2}


def test_a_parked_ack_ends_its_lease(driver: EngineDriver) -> None:
    held = lease(driver)
    park(driver, "ck", ck.encode_checkpoint(held))
    park(driver, *ack(held, 1))
    driver.restart()
    driver.advance(LEASE_MS)
    assert popped(driver) == [b"a", b"c"]


def test_an_ack_is_parked_longer_than_its_lease(driver: EngineDriver) -> None:
    """RocketMQ moves the lease first: then it is in the revive topic, and its acks are not."""
    held = lease(driver)
    park(driver, "ck", ck.encode_checkpoint(held))
    driver.restart()
    park(driver, *ack(held, 0))
    driver.restart()
    driver.advance(LEASE_MS)
    assert popped(driver) == [b"b", b"c"]


@pytest.mark.parametrize("lost", [False, True])
def test_what_was_brought_in_is_not_brought_in_again(driver: EngineDriver, lost: bool) -> None:
    held = lease(driver)
    park(driver, "ck", ck.encode_checkpoint(held))
    park(driver, *ack(held, 0, 1))
    driver.restart()
    assert journal_count(driver) == 2
    if lost:  # a crash before the offsets are written
        driver.run(driver.broker.close())
        for name in ("consumerOffset.json", "consumerOffset.json.bak"):
            (driver.data_dir / "config" / name).unlink(missing_ok=True)
        driver.broker = driver._open()
    else:
        driver.restart()
    assert journal_count(driver) == 2
    driver.advance(LEASE_MS)
    assert popped(driver) == [b"c"]


def test_rolled_records_count_once(driver: EngineDriver) -> None:
    """RocketMQ writes what waits for days anew now and then."""
    body = ck.encode_checkpoint(lease(driver))
    park(driver, "ck", body)
    park(driver, "ck", body)
    driver.restart()
    assert journal_count(driver) == 1


def test_a_users_delayed_message_with_such_a_tag_is_left_alone(driver: EngineDriver) -> None:
    state = driver.broker.state
    park(driver, "ck", b"mine", real_topic=TOPIC)
    driver.restart()
    assert state.lease_state.timer_topic_seen == 0
    assert driver.broker.state.lease_state.timer_topic_seen == 1
    assert journal_count(driver) == 0
