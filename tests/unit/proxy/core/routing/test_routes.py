"""What order clients see queues in: they go through them in turn, one receive after the other."""

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq_internal.v1 import link_pb2 as link
from popmq_internal.v1 import nameserver_pb2 as ns
from popmq_proxy.core.routing.routes import TopicRoutes, message_queues


def route(broker: str, queues: int) -> ns.QueueRoute:
    topic = link.TopicConfig(name="t", read_queues=queues, write_queues=queues, perm=6)
    return ns.QueueRoute(broker=ns.BrokerInfo(name=broker), topic=topic)


def test_a_client_that_waits_at_one_broker_comes_to_the_other_with_its_next_receive() -> None:
    """Queue by queue of a broker, it would wait at that one for as many polls as it has queues."""
    routes = [route("a", 3), route("b", 2)]
    rows = message_queues(routes, v2.Resource(name="t"), v2.Endpoints())
    told = [(row.broker.name, row.id) for row in rows]
    assert told == [("a", 0), ("b", 0), ("a", 1), ("b", 1), ("a", 2)]


def test_queues_of_one_broker_that_take_messages() -> None:
    refusing = route("c", 2)
    refusing.topic.perm = 4
    routes = TopicRoutes([route("a", 1), route("b", 2), refusing])
    assert routes.writable_at("b") == [("b", 0), ("b", 1)]
    for none in ("c", "d", ""):
        assert routes.writable_at(none) == []
