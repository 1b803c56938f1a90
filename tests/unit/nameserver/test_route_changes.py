"""Proxies hear which routes changed: by name, or that any may have."""

from popmq_internal.v1 import link_pb2 as link
from popmq_internal.v1 import nameserver_pb2 as ns
from popmq_nameserver.core.route_changes import NAMED_MAX, RouteChanges
from popmq_nameserver.core.route_table import RouteTable


def topic(name: str, queues: int = 1) -> link.TopicConfig:
    return link.TopicConfig(name=name, read_queues=queues, write_queues=queues)


def broker(name: str = "a", version: int = 1, epoch_ms: int = 1) -> ns.BrokerInfo:
    return ns.BrokerInfo(name=name, epoch_ms=epoch_ms, version=version)


def update(version: int, *topics: link.TopicConfig, gone: str = "") -> ns.UpdateRequest:
    return ns.UpdateRequest(
        broker=broker(version=version),
        from_version=version - 1,
        topics=topics,
        gone=[gone] if gone else [],
    )


def test_only_what_differs_is_a_change() -> None:
    table = RouteTable(1_000)
    table.register(broker(), [topic("a"), topic("b")], 0)
    seen = table.changes.last
    table.register(broker(), [topic("a"), topic("b", 2), topic("c")], 0)
    assert table.changes.since(seen) == ["b", "c"]
    seen = table.changes.last
    table.register(broker("other"), [topic("c")], 0)
    table.unregister(broker())
    assert table.changes.since(seen) == ["a", "b", "c"]


def test_an_update_changes_what_it_names() -> None:
    table = RouteTable(1_000)
    table.register(broker(), [topic("a"), topic("b")], 0)
    seen = table.changes.last
    assert table.update(update(2, topic("c"), gone="a"), 500)
    assert table.changes.since(seen) == ["a", "c"]
    assert [bool(table.lookup(name)) for name in "abc"] == [False, True, True]
    assert table.lookup("b")[0].broker.version == 2
    assert table.expire(1_400) == []
    assert table.heartbeat(broker(version=2), 1_400)


def test_an_update_of_what_is_not_registered_is_not_taken() -> None:
    table = RouteTable(1_000)
    assert not table.update(update(2, topic("c")), 0)
    table.register(broker(version=2), [topic("a")], 0)
    assert not table.update(update(2, topic("c")), 0), "it is of version 1"
    table.register(broker(version=2, epoch_ms=2), [topic("a")], 0)
    assert not table.update(update(3, topic("c")), 0), "it is of an older process"
    assert not table.lookup("c")


def test_a_broker_that_expires_changes_its_routes() -> None:
    table = RouteTable(1_000)
    table.register(broker(), [topic("a")], 0)
    seen = table.changes.last
    table.expire(2_000)
    assert table.changes.since(seen) == ["a"]


def test_who_is_too_far_behind_must_ask_for_all() -> None:
    changes = RouteChanges(kept_max=2)
    changes.changed("abc")
    assert changes.since(1) == ["b", "c"]
    assert changes.since(0) is None
    assert changes.since(99) is None
    many = RouteChanges()
    many.changed(f"t{i}" for i in range(NAMED_MAX + 1))
    assert many.since(0) is None
