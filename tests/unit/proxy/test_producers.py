"""Whom a question about a transaction can reach, and that nothing waits for who does not read."""

import asyncio

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq_proxy.producers import Producers
from popmq_proxy.sessions import Answers

T, U = v2.Resource(name="t"), v2.Resource(resource_namespace="n", name="u")


def stream(room: int = 2) -> Answers:
    return asyncio.Queue(room)


def test_each_is_asked_in_turn() -> None:
    producers, a, b = Producers(), stream(), stream()
    producers.publish(a, {"t": T})
    producers.publish(b, {"t": T, "n%u": U})
    assert [producers.next("t") for _ in range(4)] == [a, b, a, b]
    assert producers.next("n%u") is b
    assert producers.name_of("n%u", b) == U
    assert producers.next("v") is None


def test_t46_who_does_not_read_is_passed_over_and_nothing_waits() -> None:
    producers, jammed, reads = Producers(), stream(1), stream(1)
    producers.publish(jammed, {"t": T})
    producers.publish(reads, {"t": T})
    producers.put(jammed, service.TelemetryCommand())
    assert [producers.next("t") for _ in range(2)] == [reads, reads]
    producers.put(reads, service.TelemetryCommand())
    assert producers.next("t") is None


def test_what_is_said_last_counts_and_who_is_gone_leaves_nothing() -> None:
    producers, a = Producers(), stream()
    producers.publish(a, {"t": T})
    producers.publish(a, {"n%u": U})
    assert producers.topics() == ["n%u"]
    producers.gone(a)
    producers.gone(a)
    assert producers.topics() == []
    assert (len(producers._topics_of), len(producers._streams)) == (0, 0)
