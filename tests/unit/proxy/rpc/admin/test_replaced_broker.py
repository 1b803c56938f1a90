"""A broker that lost its disk: the others say so, and it gets back the topics and groups it had."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.broker import EngineDriver
from harness.names import GROUP, TOPIC
from harness.proxy import ProxyDriver

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq_admin.v1 import admin_pb2 as admin
from popmq_common.errors import BrokerNotFound
from popmq_internal.v1 import link_pb2 as link

Engines = list[EngineDriver]


@pytest.fixture
def engines(tmp_path: Path) -> Iterator[Engines]:
    first = EngineDriver(tmp_path / "a", name="broker-a")
    second = EngineDriver(tmp_path / "b", like=first, name="broker-b")
    yield [first, second]
    second.close()
    first.close()


@pytest.fixture
def proxy(engines: Engines) -> ProxyDriver:
    made = ProxyDriver(*engines)
    topic = admin.Topic(name=TOPIC, queues=2, message_type="NORMAL")
    made.admin("CreateTopic", admin.CreateTopicRequest(topic=topic))
    group = admin.Group(name=GROUP, max_attempts=5, consume_from="FIRST")
    made.admin("CreateGroup", admin.CreateGroupRequest(group=group))
    tell(made)
    return made


def tell(proxy: ProxyDriver) -> None:
    proxy.run(proxy.methods.peers.tell())


def replaced(engine: EngineDriver) -> list[str]:
    return sorted(engine.call(figures=link.Figures()).figures.replaced_peers)


def test_a_restart_changes_nothing(engines: Engines, proxy: ProxyDriver) -> None:
    engines[1].restart()
    tell(proxy)
    assert replaced(engines[0]) == []


def test_a_wiped_broker_is_told_of_by_its_peers_and_gets_its_topics_back(
    engines: Engines, proxy: ProxyDriver
) -> None:
    engines[1].wipe()
    assert TOPIC not in engines[1].broker.state.catalog_state.topics
    tell(proxy)
    assert replaced(engines[0]) == ["broker-b"]
    assert engines[1].broker.state.catalog_state.topics[TOPIC].write_queues == 2
    assert engines[1].broker.state.catalog_state.groups[GROUP].max_attempts == 5


def test_it_is_told_until_it_is_accepted_also_over_restarts(
    engines: Engines, proxy: ProxyDriver
) -> None:
    engines[1].wipe()
    for _ in range(2):
        tell(proxy)
        assert replaced(engines[0]) == ["broker-b"]
        engines[0].restart()
    tell(proxy)
    proxy.admin("AcceptBroker", admin.AcceptBrokerRequest(name="broker-b"))
    assert replaced(engines[0]) == []
    engines[0].restart()
    tell(proxy)
    assert replaced(engines[0]) == []
    with pytest.raises(BrokerNotFound):
        proxy.admin("AcceptBroker", admin.AcceptBrokerRequest(name="nobody"))


def test_one_that_comes_back_with_its_old_disk_is_well(
    engines: Engines, proxy: ProxyDriver
) -> None:
    state = engines[1].broker.state
    before, state.catalog_state.identity = state.catalog_state.identity, "another"
    tell(proxy)
    assert replaced(engines[0]) == ["broker-b"]
    state.catalog_state.identity = before
    tell(proxy)
    assert replaced(engines[0]) == []


def test_topics_that_were_not_on_it_do_not_come_to_it(engines: Engines, proxy: ProxyDriver) -> None:
    only_here = link.TopicConfig(
        name="elsewhere",
        read_queues=1,
        write_queues=1,
        message_type="NORMAL",
        order_conf="broker-a:1",
    )
    engines[0].call(put_topic=link.PutTopic(topic=only_here))
    engines[1].wipe()
    tell(proxy)
    assert "elsewhere" not in engines[1].broker.state.catalog_state.topics


def test_a_broker_that_is_added_is_remembered_and_nothing_is_said(
    engines: Engines, proxy: ProxyDriver, tmp_path: Path
) -> None:
    added = EngineDriver(tmp_path / "c", like=engines[0], name="broker-c")
    wider = ProxyDriver(*engines, added)
    tell(wider)
    assert [replaced(engine) for engine in (*engines, added)] == [[], [], []]
    assert TOPIC not in added.broker.state.catalog_state.topics
    added.wipe()
    tell(wider)
    assert replaced(engines[1]) == ["broker-c"]
    added.close()


def test_sends_and_receives_go_on_while_it_has_no_topics(
    engines: Engines, proxy: ProxyDriver
) -> None:
    proxy.upstream.routes.known(TOPIC)
    assert proxy.send(b"before").code == v2.OK
    engines[1].wipe()
    for number in range(4):
        assert proxy.send(b"%d" % number).code == v2.OK
    bodies = {message.body for _ in range(4) for message in proxy.receive(batch_size=8)}
    assert {b"0", b"1", b"2", b"3"} <= bodies
