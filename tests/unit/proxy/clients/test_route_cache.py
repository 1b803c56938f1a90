"""Routes are remembered, refreshed behind the answer, and kept while no nameserver answers."""

import asyncio

import pytest

from popmq_common.errors import BrokerUnreachable, NameserverDown, NotServed, TopicNotFound
from popmq_internal.v1 import link_pb2 as link
from popmq_internal.v1 import nameserver_pb2 as ns
from popmq_proxy.clients.nameservers import NameserverState
from popmq_proxy.clients.route_cache import (
    AWAY_KEPT_S,
    EMPTY_S,
    MISSING_S,
    REFRESH_S,
    RETRY_S,
    UNUSED_S,
    RouteCache,
)

WRITABLE = link.TopicConfig(name="t", perm=6, read_queues=1, write_queues=1)


class Scripted:
    """Nameservers that answer as they are told to."""

    def __init__(self) -> None:
        self.addresses = {"b": "h:1"}
        self.replicas: dict[str, str] = {}
        """Of brokers that have some: the primary's name."""
        self.without_topic: set[str] = set()
        """Brokers that are registered and do not have it."""
        self.down = False
        self.asked = 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def changes(self, instance: str, after: int) -> ns.ChangesResponse:
        raise NotServed(what="changes")

    async def lookup(self, topic: str) -> list[ns.QueueRoute]:
        found = [
            ns.QueueRoute(broker=broker, topic=WRITABLE)
            for broker in await self.brokers()
            if broker.name not in self.without_topic
        ]
        await self.may_answer.wait()
        return found

    async def brokers(self) -> list[ns.BrokerInfo]:
        self.asked += 1
        if self.down:
            raise NameserverDown(reason="a test")
        return [
            ns.BrokerInfo(name=n, address=a, replica=self.replicas.get(n, ""))
            for n, a in sorted(self.addresses.items())
        ]

    async def each(self) -> list[NameserverState]:
        return []

    async def close(self) -> None:
        return


class Cached:
    def __init__(self) -> None:
        self.now_s = 100.0
        self.nameservers = Scripted()
        self.cache = RouteCache(self.nameservers, lambda: self.now_s)

    async def names(self, topic: str = "t") -> list[str]:
        return [route.broker.name for route in await self.cache.routes(topic)]


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_an_answer_is_used_until_it_is_old_and_refreshed_behind_the_caller() -> None:
    cached = Cached()
    assert await cached.names() == ["b"]
    cached.nameservers.addresses = {"c": "h:2"}
    cached.now_s += REFRESH_S
    assert await cached.names() == ["b"]
    await settle()
    assert cached.nameservers.asked == 1
    cached.now_s += 0.1
    assert await cached.names() == ["b"]
    await settle()
    assert await cached.names() == ["b", "c"]
    assert cached.nameservers.asked == 3, "and which brokers there are, as one was missing"


async def test_while_no_nameserver_answers_routes_stay_and_are_asked_for_with_pauses() -> None:
    cached = Cached()
    await cached.names()
    cached.nameservers.down = True
    cached.now_s += REFRESH_S + 1
    for _ in range(10):
        assert await cached.names() == ["b"]
        await settle()
    assert cached.nameservers.asked == 2
    cached.now_s += RETRY_S + 0.1
    await cached.names()
    await settle()
    assert cached.nameservers.asked == 3
    with pytest.raises(NameserverDown):
        await cached.names("never seen")


async def test_a_missing_topic_is_remembered_for_a_second_only() -> None:
    cached = Cached()
    cached.nameservers.addresses = {}
    for _ in range(3):
        with pytest.raises(TopicNotFound):
            await cached.names()
    assert cached.nameservers.asked == 1
    cached.nameservers.addresses = {"b": "h:1"}
    cached.now_s += MISSING_S + 0.1
    assert await cached.names() == ["b"]


async def test_an_answer_from_before_a_change_is_not_remembered() -> None:
    cached = Cached()
    cached.nameservers.addresses = {}
    cached.nameservers.may_answer.clear()
    early = asyncio.create_task(cached.names())
    await settle()
    cached.nameservers.addresses = {"b": "h:1"}
    cached.cache.forget("t")
    late = asyncio.create_task(cached.names())
    await settle()
    cached.nameservers.may_answer.set()
    with pytest.raises(TopicNotFound):
        await early
    assert await late == ["b"]
    assert await cached.names() == ["b"]


async def test_who_asks_at_the_same_time_shares_a_question_that_outlives_any_of_them() -> None:
    cached = Cached()
    cached.nameservers.may_answer.clear()
    tasks = [asyncio.create_task(cached.names()) for _ in range(10)]
    await settle()
    tasks[0].cancel()
    await settle()
    cached.nameservers.may_answer.set()
    assert await asyncio.gather(*tasks[1:]) == [["b"]] * 9
    assert cached.nameservers.asked == 1


async def test_the_least_used_topics_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("popmq_proxy.clients.route_cache.ROUTES_MAX", 2)
    cached = Cached()
    for topic in ("a", "b", "a", "c"):
        await cached.names(topic)
    asked = cached.nameservers.asked
    await cached.names("a")
    assert cached.nameservers.asked == asked
    await cached.names("b")
    assert cached.nameservers.asked == asked + 1


async def test_a_broker_is_found_again_while_no_nameserver_answers() -> None:
    cached = Cached()
    cached.nameservers.down = True
    with pytest.raises(BrokerUnreachable, match="No nameserver answers"):
        await cached.cache.address("b")
    cached.nameservers.down = False
    assert await cached.cache.address("b") == "h:1"
    cached.nameservers.down = True
    asked = cached.nameservers.asked
    for _ in range(5):
        assert await cached.cache.address("b") == "h:1"
    assert cached.nameservers.asked == asked + 1
    with pytest.raises(BrokerUnreachable):
        await cached.cache.address("other")
    cached.nameservers.down = False
    cached.nameservers.addresses = {"b": "h:9"}
    cached.now_s += RETRY_S + 0.1
    assert await cached.cache.address("b") == "h:9"


async def test_t30_routes_of_topics_that_nobody_uses_any_more_are_forgotten() -> None:
    cached = Cached()
    for i in range(1_000):
        await cached.names(f"short-lived-{i}")
    cached.now_s += UNUSED_S
    await cached.names("short-lived-7")  # somebody still does
    await settle()
    cached.now_s += 2 * REFRESH_S
    cached.cache.forget_unused()
    assert list(cached.cache._entries) == ["short-lived-7"]


async def test_while_no_nameserver_answers_no_route_is_forgotten() -> None:
    cached = Cached()
    await cached.names()
    await cached.cache.brokers()
    cached.nameservers.down = True
    await cached.cache.brokers()
    cached.now_s += 10 * UNUSED_S
    cached.cache.forget_unused()
    assert await cached.names() == ["b"]


async def refreshed(cached: Cached) -> list[str]:
    """The routes, asked for anew behind the first use."""
    cached.now_s += REFRESH_S + 0.1
    await cached.names()
    await settle()
    return await cached.names()


async def test_what_a_broker_had_outlives_its_registration_for_a_while() -> None:
    cached = Cached()
    cached.nameservers.addresses = {"a": "h:1", "b": "h:2"}
    assert await cached.names() == ["a", "b"]
    cached.nameservers.addresses = {"a": "h:1"}
    assert await refreshed(cached) == ["a", "b"]
    cached.nameservers.addresses = {"a": "h:1", "b": "h:2"}
    assert await refreshed(cached) == ["a", "b"]
    cached.nameservers.addresses = {"a": "h:1"}
    since_s = cached.now_s
    while (names := await refreshed(cached)) == ["a", "b"]:
        assert cached.now_s - since_s < AWAY_KEPT_S + 2 * REFRESH_S
    assert names == ["a"]
    assert cached.now_s - since_s > AWAY_KEPT_S, "its first time away does not count"


async def test_a_topic_that_a_registered_broker_has_no_more_is_gone_at_once() -> None:
    cached = Cached()
    cached.nameservers.addresses = {"a": "h:1", "b": "h:2"}
    await cached.names()
    cached.nameservers.without_topic = {"b"}
    assert await refreshed(cached) == ["a"]


async def test_a_nameserver_that_knows_nobody_takes_nothing_away() -> None:
    """It has just been started, and brokers cannot reach it yet."""
    cached = Cached()
    await cached.names()
    assert await cached.cache.address("b") == "h:1"
    cached.nameservers.addresses = {}
    for _ in range(10):
        assert await refreshed(cached) == ["b"]
        assert [info.name for info in await cached.cache.brokers()] == ["b"]
        assert await cached.cache.address("b") == "h:1"


async def test_a_broker_that_came_or_was_started_again_is_seen_before_the_next_refresh() -> None:
    cached = Cached()
    await cached.names()
    await cached.cache.brokers()
    cached.nameservers.addresses = {"b": "h:1", "c": "h:3"}
    assert await cached.names() == ["b"]
    await cached.cache.brokers()
    cached.now_s += 0.1
    await cached.names()
    await settle()
    assert await cached.names() == ["b", "c"]
    assert cached.cache.knows("c")
    assert not cached.cache.knows("d")


async def test_a_broker_with_replicas_is_expected_also_while_it_has_no_primary() -> None:
    cached = Cached()
    cached.nameservers.addresses = {"a": "h:1", "b": "h:2", "c": "h:3"}
    cached.nameservers.replicas = {"b": "b1"}
    assert [info.name for info in await cached.cache.expected()] == ["a", "b", "c"]
    cached.nameservers.addresses = {"c": "h:3"}
    (missed, _) = await cached.cache.expected()
    assert (missed.name, missed.address, missed.replica) == ("b", "h:2", "b1")
    cached.nameservers.addresses = {"b": "h:4", "c": "h:3"}
    assert [info.address for info in await cached.cache.expected()] == ["h:4", "h:3"]


async def test_who_is_left_alone_by_all_brokers_asks_again_soon() -> None:
    """Nameservers that answer and know none: a replica may be taking over."""
    cached = Cached()
    await cached.cache.brokers()
    cached.nameservers.addresses = {}
    await cached.cache.brokers()
    cached.nameservers.addresses = {"b": "h:9"}
    cached.now_s += EMPTY_S
    assert [info.address for info in await cached.cache.brokers()] == ["h:9"]
