"""Owners of topics and groups on two brokers."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.broker import EngineDriver
from harness.proxy import ProxyDriver

from popmq_admin.v1 import admin_pb2 as admin
from popmq_common.errors import BadRequest, IllegalOwner, OwnedByOther

BROKERS = ("broker-a", "broker-b")


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[ProxyDriver]:
    first = EngineDriver(tmp_path / "a", name="broker-a")
    second = EngineDriver(tmp_path / "b", like=first, name="broker-b")
    yield ProxyDriver(first, second)
    second.close()
    first.close()


def create(proxy: ProxyDriver, owner: str = "") -> list[bool]:
    """Whether topic and group were there."""
    topic = admin.Topic(name="t", message_type="NORMAL", queues=1, owner=owner)
    group = admin.Group(name="g", owner=owner)
    return [
        proxy.admin("CreateTopic", admin.CreateTopicRequest(topic=topic)).existed,
        proxy.admin("CreateGroup", admin.CreateGroupRequest(group=group)).existed,
    ]


def set_owner(proxy: ProxyDriver, owner: str) -> list[str]:
    """As the answers have it."""
    topic = proxy.admin("UpdateTopic", admin.UpdateTopicRequest(name="t", owner=owner)).topic
    group = proxy.admin("UpdateGroup", admin.UpdateGroupRequest(name="g", owner=owner)).group
    return [topic.owner, group.owner]


def kept(proxy: ProxyDriver) -> list[tuple[str, str]]:
    """(topic's, group's) at each broker."""
    states = [proxy.engine(broker).broker.state.catalog_state for broker in BROKERS]
    return [(state.topics["t"].owner, state.groups["g"].owner) for state in states]


def told(proxy: ProxyDriver) -> set[str]:
    """By everything that tells settings."""
    found = [
        *proxy.admin("ListTopics", admin.ListTopicsRequest()).topics,
        *proxy.admin("ListGroups", admin.ListGroupsRequest()).groups,
    ]
    for short in (False, True):
        topic = admin.DescribeTopicRequest(name="t", settings_only=short)
        group = admin.DescribeGroupRequest(name="g", settings_only=short)
        found.append(proxy.admin("DescribeTopic", topic).topic)
        found.append(proxy.admin("DescribeGroup", group).group)
    return {one.owner for one in found}


def test_named_changed_and_cleared(proxy: ProxyDriver) -> None:
    create(proxy, "payments")
    assert (kept(proxy), told(proxy)) == ([("payments", "payments")] * 2, {"payments"})
    assert set_owner(proxy, "orders") == ["orders", "orders"]
    assert (kept(proxy), told(proxy)) == ([("orders", "orders")] * 2, {"orders"})
    assert set_owner(proxy, "") == ["", ""]
    assert (kept(proxy), told(proxy)) == ([("", "")] * 2, {""})


def test_other_changes_leave_it(proxy: ProxyDriver) -> None:
    create(proxy, "payments")
    proxy.admin("UpdateTopic", admin.UpdateTopicRequest(name="t", queues=2))
    proxy.admin("UpdateGroup", admin.UpdateGroupRequest(name="g", max_attempts=3))
    assert kept(proxy) == [("payments", "payments")] * 2


def test_create_again_without_an_owner_or_with_the_same(proxy: ProxyDriver) -> None:
    create(proxy, "payments")
    assert create(proxy) == [True, True]
    assert create(proxy, "payments") == [True, True]
    assert kept(proxy) == [("payments", "payments")] * 2


def test_create_with_another_owner_is_refused_everywhere(proxy: ProxyDriver) -> None:
    create(proxy, "payments")
    proxy.engine("broker-a").call(delete_topic={"topic": "t"})
    proxy.engine("broker-a").call(delete_group={"group": "g"})
    topic = admin.Topic(name="t", message_type="NORMAL", queues=1, owner="orders")
    with pytest.raises(OwnedByOther, match="popmq topic set t --owner orders"):
        proxy.admin("CreateTopic", admin.CreateTopicRequest(topic=topic))
    group = admin.Group(name="g", owner="orders")
    with pytest.raises(OwnedByOther, match="popmq group set g --owner orders"):
        proxy.admin("CreateGroup", admin.CreateGroupRequest(group=group))
    state = proxy.engine("broker-a").broker.state.catalog_state
    assert "t" not in state.topics
    assert "g" not in state.groups


def test_a_broker_that_lacks_it_gets_the_owner_of_the_others(proxy: ProxyDriver) -> None:
    create(proxy, "payments")
    for broker in BROKERS:
        proxy.engine(broker).call(delete_topic={"topic": "t"})
        proxy.engine(broker).call(delete_group={"group": "g"})
        create(proxy)
        assert kept(proxy) == [("payments", "payments")] * 2


def test_a_topic_is_spread_with_its_owner(proxy: ProxyDriver) -> None:
    create(proxy, "payments")
    proxy.engine("broker-b").call(delete_topic={"topic": "t"})
    proxy.admin("SpreadTopics", admin.SpreadTopicsRequest(name="t"))
    assert kept(proxy) == [("payments", "payments")] * 2


def test_brokers_that_differ_refuse_no_create_that_names_none(proxy: ProxyDriver) -> None:
    """One was away when the owner was set."""
    create(proxy)
    for call in (
        {"put_topic": {"topic": _topic(), "only_settings": ["owner"]}},
        {"put_group": {"group": _group(), "only_settings": ["owner"]}},
    ):
        proxy.engine("broker-a").call(**call)
    assert create(proxy) == [True, True]
    assert kept(proxy) == [("payments", "payments"), ("", "")]


def _topic() -> dict[str, object]:
    queues = {"read_queues": 1, "write_queues": 1}
    return {"name": "t", "message_type": "NORMAL", "owner": "payments", **queues}


def _group() -> dict[str, object]:
    return {"name": "g", "max_attempts": 16, "owner": "payments"}


def test_an_illegal_one_is_refused_before_anything_is_made(proxy: ProxyDriver) -> None:
    topic = admin.Topic(name="t", owner="pay ments")
    with pytest.raises(IllegalOwner, match="1 to 64 characters"):
        proxy.admin("CreateTopic", admin.CreateTopicRequest(topic=topic))
    with pytest.raises(IllegalOwner, match="1 to 64 characters"):
        proxy.admin("CreateGroup", admin.CreateGroupRequest(group=admin.Group(name="g", owner="é")))
    assert not proxy.admin("ListTopics", admin.ListTopicsRequest()).topics
    assert not proxy.admin("ListGroups", admin.ListGroupsRequest()).groups
    create(proxy, "payments")
    with pytest.raises(IllegalOwner):
        set_owner(proxy, "x" * 65)
    assert issubclass(IllegalOwner, BadRequest)
    assert kept(proxy) == [("payments", "payments")] * 2
