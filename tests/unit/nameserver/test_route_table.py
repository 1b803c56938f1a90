"""Routes: the newest registration of a broker wins, the silent ones disappear."""

import pytest

from popmq_common.errors import TooManyRequests
from popmq_internal.v1 import link_pb2 as link
from popmq_internal.v1 import nameserver_pb2 as ns
from popmq_nameserver.core.route_table import RouteTable


def broker(name: str = "a", epoch_ms: int = 1, version: int = 1) -> ns.BrokerInfo:
    return ns.BrokerInfo(cluster="c", name=name, address="h:1", epoch_ms=epoch_ms, version=version)


def topics(*names: str) -> list[link.TopicConfig]:
    return [link.TopicConfig(name=name, read_queues=1, write_queues=1) for name in names]


def found(table: RouteTable, topic: str) -> list[str]:
    return [route.broker.name for route in table.lookup(topic)]


def test_brokers_come_sorted_by_name() -> None:
    table = RouteTable(1000)
    for name in ("c", "a", "b"):
        assert table.register(broker(name), topics("t"), now_ms=0)
    assert found(table, "t") == ["a", "b", "c"]
    assert found(table, "other") == []


def test_a_registration_replaces_the_topics() -> None:
    table = RouteTable(1000)
    table.register(broker(version=1), topics("old"), now_ms=0)
    table.register(broker(version=2), topics("new"), now_ms=0)
    assert found(table, "old") == []
    assert found(table, "new") == ["a"]


def test_an_older_process_or_version_does_not_undo_a_newer_one() -> None:
    table = RouteTable(1000)
    assert table.register(broker(epoch_ms=2, version=5), topics("t"), now_ms=0)
    assert not table.register(broker(epoch_ms=1, version=9), topics("x"), now_ms=0)
    assert not table.register(broker(epoch_ms=2, version=4), topics("x"), now_ms=0)
    table.unregister(broker(epoch_ms=1))
    assert found(table, "t") == ["a"]
    table.unregister(broker(epoch_ms=2))
    assert found(table, "t") == []


def test_a_silent_broker_expires_and_is_told_to_register_again() -> None:
    table = RouteTable(1000)
    table.register(broker("a"), topics("t"), now_ms=0)
    table.register(broker("b"), topics("t"), now_ms=0)
    assert table.heartbeat(broker("a"), now_ms=900)
    assert table.expire(now_ms=1000) == []
    assert table.expire(now_ms=1001) == ["b"]
    assert found(table, "t") == ["a"]
    assert not table.heartbeat(broker("b"), now_ms=1002)


def test_a_heartbeat_of_other_topics_asks_for_registration() -> None:
    table = RouteTable(1000)
    table.register(broker(version=1), topics("t"), now_ms=0)
    assert not table.heartbeat(broker(version=2), now_ms=1)


def test_the_number_of_brokers_is_bounded_and_known_ones_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("popmq_nameserver.core.route_table.BROKERS_MAX", 1)
    table = RouteTable(1000)
    table.register(broker("a"), topics("t"), now_ms=0)
    with pytest.raises(TooManyRequests, match="brokers"):
        table.register(broker("b"), topics("t"), now_ms=0)
    assert table.register(broker("a", version=2), topics("t"), now_ms=1)
    table.expire(now_ms=2000)
    assert table.register(broker("b"), topics("t"), now_ms=2000)
