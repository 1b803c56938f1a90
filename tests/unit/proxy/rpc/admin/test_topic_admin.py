"""Topics and groups on two brokers: create changes nothing that exists, set changes what was said,
spread brings topics to a broker that was added."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness.broker import EngineDriver
from harness.broker_calls import send_body
from harness.proxy import ProxyDriver

from popmq_admin.v1 import admin_pb2 as admin
from popmq_common.errors import GroupExists, GroupNotFound, TopicExists, TopicNotFound
from popmq_internal.v1 import link_pb2 as link


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[ProxyDriver]:
    first = EngineDriver(tmp_path / "a", name="broker-a")
    second = EngineDriver(tmp_path / "b", like=first, name="broker-b")
    yield ProxyDriver(first, second)
    second.close()
    first.close()


def create(proxy: ProxyDriver, queues: int, kind: str = "FIFO") -> bool:
    topic = admin.Topic(name="t", message_type=kind, queues=queues)
    response = proxy.admin("CreateTopic", admin.CreateTopicRequest(topic=topic))
    assert response.brokers == ["broker-a", "broker-b"]
    return bool(response.existed)


def shown(proxy: ProxyDriver) -> tuple[str, int, int]:
    topic = proxy.admin("DescribeTopic", admin.DescribeTopicRequest(name="t")).topic
    return topic.message_type, topic.queues, topic.read_queues


def test_create_twice_is_once(proxy: ProxyDriver) -> None:
    assert not create(proxy, 2)
    assert create(proxy, 2)
    assert shown(proxy) == ("FIFO", 2, 2)


@pytest.mark.parametrize(("queues", "kind"), [(8, "FIFO"), (2, "NORMAL")])
def test_create_with_other_settings_is_refused(proxy: ProxyDriver, queues: int, kind: str) -> None:
    create(proxy, 2)
    with pytest.raises(TopicExists, match="popmq topic set t"):
        create(proxy, queues, kind)
    assert shown(proxy) == ("FIFO", 2, 2)


def test_a_refused_create_makes_it_on_no_other_broker(proxy: ProxyDriver) -> None:
    create(proxy, 2)
    proxy.engine("broker-a").call(delete_topic={"topic": "t"})
    with pytest.raises(TopicExists):
        create(proxy, 8)
    assert "t" not in proxy.engine("broker-a").broker.state.catalog_state.topics


def test_set_changes_what_is_given(proxy: ProxyDriver) -> None:
    with pytest.raises(TopicNotFound):
        proxy.admin("UpdateTopic", admin.UpdateTopicRequest(name="t", queues=4))
    create(proxy, 2)
    response = proxy.admin("UpdateTopic", admin.UpdateTopicRequest(name="t", queues=4))
    assert (response.topic.message_type, response.topic.queues) == ("FIFO", 4)
    proxy.admin("UpdateTopic", admin.UpdateTopicRequest(name="t", message_type="MIXED"))
    assert shown(proxy) == ("MIXED", 4, 4)
    places = proxy.engine("broker-a").broker.state.catalog_state.topics["t"].order_conf
    assert places == "broker-a:4;broker-b:4"


def test_fewer_queues_are_told_as_long_as_they_are_read(proxy: ProxyDriver) -> None:
    create(proxy, 4, "NORMAL")
    engine = proxy.engine("broker-b")
    engine.call(**send_body("m", queue_id=2))
    response = proxy.admin("UpdateTopic", admin.UpdateTopicRequest(name="t", queues=1))
    assert (response.topic.queues, response.topic.read_queues) == (1, 3)
    assert shown(proxy) == ("NORMAL", 1, 3)


def test_a_broker_that_was_added_gets_the_topics_of_the_others(proxy: ProxyDriver) -> None:
    create(proxy, 2)
    other = admin.Topic(name="other", message_type="DELAY", queues=3)
    proxy.admin("CreateTopic", admin.CreateTopicRequest(topic=other))
    added = proxy.engine("broker-b")
    for name in ("t", "other"):
        added.call(delete_topic={"topic": name})
    (one,) = proxy.admin("SpreadTopics", admin.SpreadTopicsRequest(name="t")).topics
    assert (one.name, list(one.brokers)) == ("t", ["broker-b"])
    (rest,) = proxy.admin("SpreadTopics", admin.SpreadTopicsRequest()).topics
    assert rest.name == "other"
    topic = added.broker.state.catalog_state.topics["other"]
    assert (topic.message_type, topic.write_queues) == ("DELAY", 3)
    assert not proxy.admin("SpreadTopics", admin.SpreadTopicsRequest()).topics
    with pytest.raises(TopicNotFound):
        proxy.admin("SpreadTopics", admin.SpreadTopicsRequest(name="nothing"))


def test_groups_alike(proxy: ProxyDriver) -> None:
    group = admin.Group(name="g", max_attempts=5, consume_from="FIRST")
    request = admin.CreateGroupRequest(group=group)
    assert not proxy.admin("CreateGroup", request).existed
    assert proxy.admin("CreateGroup", request).existed
    group.max_attempts = 16
    with pytest.raises(GroupExists, match="popmq group set g"):
        proxy.admin("CreateGroup", admin.CreateGroupRequest(group=group))
    changed = proxy.admin("UpdateGroup", admin.UpdateGroupRequest(name="g", lock_hold_ms=7)).group
    assert (changed.max_attempts, changed.consume_from, changed.lock_hold_ms) == (5, "FIRST", 7)
    with pytest.raises(GroupNotFound):
        proxy.admin("UpdateGroup", admin.UpdateGroupRequest(name="nobody"))


def test_two_who_set_different_things_at_once_both_get_them(
    proxy: ProxyDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each looks at what is there before either changes it."""
    create(proxy, 2)
    call = proxy.brokers.call

    async def over_a_network(*args: Any) -> Any:
        await asyncio.sleep(0)
        return await call(*args)

    monkeypatch.setattr(proxy.brokers, "call", over_a_network)
    group = admin.Group(name="billing", max_attempts=5)
    proxy.admin("CreateGroup", admin.CreateGroupRequest(group=group))
    topics, groups = proxy.methods.topics, proxy.methods.groups

    async def all_at_once() -> None:
        ctx = proxy.context
        await asyncio.gather(
            topics.update(ctx, admin.UpdateTopicRequest(name="t", queues=4)),
            topics.update(ctx, admin.UpdateTopicRequest(name="t", message_type="MIXED")),
            groups.update(ctx, admin.UpdateGroupRequest(name="billing", max_attempts=7)),
            groups.update(ctx, admin.UpdateGroupRequest(name="billing", consume_from="FIRST")),
        )

    proxy.run(all_at_once())
    for broker in ("broker-a", "broker-b"):
        state = proxy.engine(broker).broker.state
        topic, billing = state.catalog_state.topics["t"], state.catalog_state.groups["billing"]
        assert (topic.message_type, topic.write_queues) == ("MIXED", 4)
        assert (billing.max_attempts, billing.consume_from) == (7, "FIRST")


def test_a_refused_group_is_made_on_no_other_broker(proxy: ProxyDriver) -> None:
    group = link.GroupConfig(name="billing", max_attempts=5)
    proxy.engine("broker-b").call(put_group=link.PutGroup(group=group))
    other = admin.CreateGroupRequest(group=admin.Group(name="billing", max_attempts=7))
    with pytest.raises(GroupExists):
        proxy.admin("CreateGroup", other)
    assert "billing" not in proxy.engine("broker-a").broker.state.catalog_state.groups


def test_a_list_has_the_names_with_a_text_and_says_how_many_there_are(proxy: ProxyDriver) -> None:
    for name in ("orders", "Orders-late", "parcels"):
        topic = admin.Topic(name=name, message_type="NORMAL", queues=1)
        proxy.admin("CreateTopic", admin.CreateTopicRequest(topic=topic))
        group = admin.Group(name=f"g-{name}")
        proxy.admin("CreateGroup", admin.CreateGroupRequest(group=group))
    topics = proxy.admin("ListTopics", admin.ListTopicsRequest(contains="ORDER"))
    assert [one.name for one in topics.topics] == ["Orders-late", "orders"]
    assert topics.total == 3
    groups = proxy.admin("ListGroups", admin.ListGroupsRequest(contains="late"))
    assert [one.name for one in groups.groups] == ["g-Orders-late"]
    assert groups.total == 3
