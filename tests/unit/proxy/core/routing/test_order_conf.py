"""Message groups stay where they are, whichever brokers are registered just now."""

import pytest

from popmq_common.errors import BadRequest
from popmq_internal.v1 import link_pb2 as link
from popmq_internal.v1 import nameserver_pb2 as ns
from popmq_proxy.core.routing.order_conf import conf_of, places
from popmq_proxy.core.routing.routes import TopicRoutes, place_of_group

GROUPS = [f"customer-{i}" for i in range(100)]


def route(broker: str, conf: str, *, queues: int = 4, perm: int = 6) -> ns.QueueRoute:
    topic = link.TopicConfig(
        name="t", read_queues=queues, write_queues=queues, perm=perm, order_conf=conf
    )
    return ns.QueueRoute(broker=ns.BrokerInfo(name=broker), topic=topic)


def placed(*routes: ns.QueueRoute) -> list[tuple[str, int]]:
    found = TopicRoutes(routes)
    return [place_of_group(found.group_places, name) for name in GROUPS]


def test_a_broker_that_is_away_moves_no_group() -> None:
    conf = conf_of(["b", "a"], 4)
    assert conf == "a:4;b:4"
    before = placed(route("a", conf), route("b", conf))
    assert {broker for broker, _ in before} == {"a", "b"}
    assert placed(route("a", conf)) == before
    assert placed(route("b", conf)) == before
    assert placed(route("a", conf), route("b", conf, perm=4)) == before
    assert placed(route("a", conf), route("b", conf), route("c", conf)) == before


def test_without_a_configuration_the_queues_there_are_count() -> None:
    assert {broker for broker, _ in placed(route("a", ""), route("b", ""))} == {"a", "b"}
    assert {broker for broker, _ in placed(route("a", ""))} == {"a"}


@pytest.mark.parametrize("text", ["a", "a:", ":4", "a:x", "a:4;", "a:-1"])
def test_what_is_no_configuration_is_told(text: str) -> None:
    with pytest.raises(BadRequest, match="order configuration"):
        places(text)


def test_names_of_brokers_may_have_colons() -> None:
    assert places("zone:a:2") == [("zone:a", 0), ("zone:a", 1)]
