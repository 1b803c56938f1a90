"""Settings that are changed one by one: the others stay as they are, whatever is sent of them."""

import pytest
from harness.broker import EngineDriver
from harness.broker_calls import send_body
from harness.names import GROUP, TOPIC

from popmq_broker.core.catalog.tables import ConsumeFrom
from popmq_common.errors import BadRequest
from popmq_internal.v1 import link_pb2 as link


def set_topic(driver: EngineDriver, queues: int, kind: str, *settings: str) -> None:
    topic = link.TopicConfig(name=TOPIC, read_queues=queues, write_queues=queues, message_type=kind)
    driver.call(put_topic=link.PutTopic(topic=topic, only_settings=settings))


def test_one_setting_of_a_topic(driver: EngineDriver) -> None:
    set_topic(driver, 4, "FIFO", "queues")  # it is not there: made with all of them
    set_topic(driver, 6, "NORMAL", "queues")
    now = driver.broker.state.catalog_state.topics[TOPIC]
    assert (now.message_type, now.write_queues, now.read_queues) == ("FIFO", 6, 6)
    set_topic(driver, 1, "MIXED", "message_type")
    now = driver.broker.state.catalog_state.topics[TOPIC]
    assert (now.message_type, now.write_queues, now.read_queues) == ("MIXED", 6, 6)


def test_queues_that_are_too_many_are_read_on(driver: EngineDriver) -> None:
    """Also when another setting changes meanwhile; with enough queues again none is too many."""
    driver.make(queues=4)
    driver.call(**send_body("m", queue_id=3))
    set_topic(driver, 1, "NORMAL", "queues")
    set_topic(driver, 1, "NORMAL", "message_type")
    now = driver.broker.state.catalog_state.topics[TOPIC]
    assert (now.write_queues, now.read_queues, now.drains) == (1, 4, True)
    set_topic(driver, 8, "MIXED", "queues")
    now = driver.broker.state.catalog_state.topics[TOPIC]
    assert (now.write_queues, now.read_queues, now.drains) == (8, 8, False)


def test_one_setting_of_a_group(driver: EngineDriver) -> None:
    before = link.GroupConfig(name=GROUP, max_attempts=5, lock_hold_ms=30_000)
    driver.call(put_group=link.PutGroup(group=before))
    other = link.GroupConfig(name=GROUP, max_attempts=7, consume_from="TIME", consume_from_ms=1_000)
    driver.call(put_group=link.PutGroup(group=other, only_settings=["consume_from"]))
    now = driver.broker.state.catalog_state.groups[GROUP]
    assert (now.consume_from, now.consume_from_ms) == (ConsumeFrom.TIME, 1_000)
    assert (now.max_attempts, now.lock_hold_ms) == (5, 30_000)


def test_a_group_that_was_made_meanwhile_stays_as_it_is(driver: EngineDriver) -> None:
    for attempts in (5, 7):
        group = link.GroupConfig(name=GROUP, max_attempts=attempts)
        driver.call(put_group=link.PutGroup(group=group, only_new=True))
    assert driver.broker.state.catalog_state.groups[GROUP].max_attempts == 5


def test_a_setting_that_is_none(driver: EngineDriver) -> None:
    driver.make()
    with pytest.raises(BadRequest, match="no setting 'colour'"):
        set_topic(driver, 1, "MIXED", "colour")
