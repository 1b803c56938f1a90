"""A broker that is read only takes nothing new, gives what it has, and stays so over a restart."""

import pytest
from harness.broker import EngineDriver
from harness.names import TOPIC

from popmq_broker.engine.catalog.catalog import PERMISSION_FILE
from popmq_broker.engine.catalog.permission import decode_permission
from popmq_broker.engine.catalog.topics import Announced
from popmq_common.errors import BadRequest, Corrupt, NoPermission
from popmq_internal.v1 import link_pb2 as link

READ, BOTH = 4, 6


@pytest.fixture
def driver(driver: EngineDriver) -> EngineDriver:
    driver.make()
    return driver


def set_permission(driver: EngineDriver, perm: int) -> None:
    driver.call(set_permission=link.SetPermission(perm=perm))


def perm_told(driver: EngineDriver) -> int:
    (topic,) = [
        one
        for one in Announced(driver.broker.state.catalog_state).everything()
        if one.name == TOPIC
    ]
    return topic.perm


def test_read_only_refuses_sends_and_still_gives_and_can_be_taken_back(
    driver: EngineDriver,
) -> None:
    driver.send("before")
    versions = driver.broker.state.catalog_state.topic_versions
    before = versions.current
    set_permission(driver, READ)
    assert versions.current > before, "nameservers are told by its version"
    assert perm_told(driver) == READ
    with pytest.raises(NoPermission):
        driver.send("refused")
    driver.restart()
    assert perm_told(driver) == READ
    with pytest.raises(NoPermission):
        driver.send("refused")
    assert [message.body for message in driver.pop()] == [b"before"]
    set_permission(driver, BOTH)
    assert perm_told(driver) == BOTH
    driver.send("after")


@pytest.mark.parametrize("perm", [0, 1, 2, 5, 7])
def test_a_broker_can_always_be_read(driver: EngineDriver, perm: int) -> None:
    with pytest.raises(BadRequest, match=f"permission {perm}"):
        set_permission(driver, perm)
    driver.send("taken")


@pytest.mark.parametrize("text", ["", "{}", '{"perm": "no"}', '{"perm": 2}', "[]"])
def test_a_file_that_is_none_is_told(text: str) -> None:
    with pytest.raises(Corrupt, match=PERMISSION_FILE):
        decode_permission(text)


def test_where_message_groups_are_is_kept_with_the_topic(driver: EngineDriver) -> None:
    topic = link.TopicConfig(
        name="ordered",
        read_queues=2,
        write_queues=2,
        message_type="FIFO",
        order_conf="broker-a:2;broker-b:2",
    )
    driver.call(put_topic=link.PutTopic(topic=topic))
    driver.restart()
    (found,) = [
        one
        for one in Announced(driver.broker.state.catalog_state).everything()
        if one.name == "ordered"
    ]
    assert found.order_conf == "broker-a:2;broker-b:2"


def test_a_broker_that_drains_takes_nothing_whatever_its_permission(driver: EngineDriver) -> None:
    driver.send("before")
    driver.stop()
    driver.go_on(drains=True)
    assert perm_told(driver) == READ
    with pytest.raises(NoPermission):
        driver.send("refused")
    set_permission(driver, BOTH)
    assert perm_told(driver) == READ
    assert [message.body for message in driver.pop()] == [b"before"]
    driver.stop()
    driver.go_on(drains=False)
    assert perm_told(driver) == BOTH
    driver.send("after")
