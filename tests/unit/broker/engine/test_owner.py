"""Owners of topics and groups: kept, changed, never lost by those who do not speak of them."""

import random
from pathlib import Path
from typing import Any

import pytest
from harness.broker import EngineDriver
from harness.names import GROUP, TOPIC
from harness.setting_histories import rebuilt

from popmq_broker.core.catalog import tables
from popmq_common.errors import GroupExists, IllegalOwner, OwnedByOther, TopicExists
from popmq_internal.v1 import link_pb2 as link


def put_topic(driver: EngineDriver, owner: str | None = None, queues: int = 2, **put: Any) -> None:
    topic = link.TopicConfig(
        name=TOPIC, read_queues=queues, write_queues=queues, message_type="MIXED", owner=owner
    )
    driver.call(put_topic=link.PutTopic(topic=topic, **put))


def put_group(driver: EngineDriver, owner: str | None = None, most: int = 3, **put: Any) -> None:
    group = link.GroupConfig(name=GROUP, max_attempts=most, consume_from="FIRST", owner=owner)
    driver.call(put_group=link.PutGroup(group=group, **put))


def owners(driver: EngineDriver) -> tuple[str, str]:
    state = driver.broker.state.catalog_state
    return state.topics[TOPIC].owner, state.groups[GROUP].owner


PUTS = (put_topic, put_group)


def test_it_is_one_of_the_settings(driver: EngineDriver) -> None:
    for put in PUTS:
        put(driver, "payments")
        put(driver, "orders", 9, only_settings=["owner"])
    state = driver.broker.state.catalog_state
    assert owners(driver) == ("orders", "orders")
    assert (state.topics[TOPIC].write_queues, state.groups[GROUP].max_attempts) == (2, 3)
    (topic,) = driver.call(describe=link.Describe(topic=TOPIC)).describe.topics
    (group,) = driver.call(describe=link.Describe(group=GROUP)).describe.groups
    assert (topic.config.owner, group.config.owner) == ("orders", "orders")
    for put in PUTS:
        put(driver, "", only_settings=["owner"])
    assert owners(driver) == ("", "")


@pytest.mark.parametrize("how", [{}, {"only_new": True}, {"create": True}])
def test_who_says_nothing_of_it_leaves_it(driver: EngineDriver, how: dict[str, bool]) -> None:
    """So do proxies of an earlier version."""
    for put in PUTS:
        put(driver, "payments")
        put(driver, None, **how)
    assert owners(driver) == ("payments", "payments")


def test_a_create_with_the_same_or_no_owner_finds_it(driver: EngineDriver) -> None:
    for put in PUTS:
        for owner in ("payments", "payments", None, ""):
            put(driver, owner, create=True)
    assert owners(driver) == ("payments", "payments")


@pytest.mark.parametrize(("known", "told"), [("payments", "payments"), (None, "nobody")])
def test_a_create_with_another_owner_is_refused(
    driver: EngineDriver, known: str | None, told: str
) -> None:
    for put, kind in ((put_topic, f"topic {TOPIC}"), (put_group, f"group {GROUP}")):
        put(driver, known)
        with pytest.raises(OwnedByOther) as refused:
            put(driver, "orders", create=True)
        assert str(refused.value) == (
            f"The {kind} exists and belongs to {told}, not to orders. Change that with: popmq "
            f"{kind.replace(' ', ' set ')} --owner orders."
        )
    assert owners(driver) == (known or "", known or "")


def test_other_settings_are_refused_as_before(driver: EngineDriver) -> None:
    for put, error in ((put_topic, TopicExists), (put_group, GroupExists)):
        put(driver, "payments")
        with pytest.raises(error):
            put(driver, "payments", 9, create=True)


@pytest.mark.parametrize("how", [{}, {"only_settings": ["owner"]}, {"create": True}])
def test_an_owner_that_is_none_changes_nothing(driver: EngineDriver, how: dict[str, Any]) -> None:
    for put in PUTS:
        with pytest.raises(IllegalOwner, match="'pay ments'"):
            put(driver, "pay ments", **how)
    state = driver.broker.state.catalog_state
    assert TOPIC not in state.topics
    assert GROUP not in state.groups


def test_topics_that_are_made_for_a_group_have_none(driver: EngineDriver) -> None:
    put_topic(driver, "payments", 1)
    put_group(driver, "orders", 2)
    driver.send("1")
    for _ in range(2):
        (message,) = driver.pop()
        driver.nack(message.handle, delay_ms=0)
        driver.advance(1_000)
    assert driver.dead_letters().letters
    inner = {
        name: topic.owner
        for name, topic in driver.broker.state.catalog_state.topics.items()
        if name != TOPIC
    }
    assert {f"%RETRY%{GROUP}_{TOPIC}", f"%DLQ%{GROUP}"} <= inner.keys()
    assert set(inner.values()) == {""}


def test_it_survives_crashes_and_is_in_the_log(tmp_path: Path) -> None:
    driver = EngineDriver(tmp_path)
    try:
        for put in PUTS:
            put(driver, "payments")
            put(driver, "orders", only_settings=["owner"])
        driver.crash(random.Random(3))
        assert owners(driver) == ("orders", "orders")
        driver.restart()
        assert owners(driver) == ("orders", "orders")
        topics, groups, *_ = rebuilt(driver, tmp_path)
        assert isinstance(topics, dict)
        assert isinstance(groups, dict)
        assert (topics[TOPIC].owner, groups[GROUP].owner) == ("orders", "orders")
        text = (tmp_path / "copy" / "config" / "topics.json").read_text()
        assert tables.decode_topics(text, where="copy")[0][TOPIC].owner == "orders"
    finally:
        driver.close()
