"""Routes are remembered, and kept while no nameserver answers."""

import pytest

from popmq_common.errors import BrokerUnreachable, NameserverDown, NotServed, TopicNotFound
from popmq_internal.v1 import link_pb2 as link
from popmq_internal.v1 import nameserver_pb2 as ns
from popmq_proxy.clients.nameservers import NameserverState
from popmq_proxy.clients.route_cache import RouteCache


class Names:
    def __init__(self) -> None:
        self.down = False
        self.perm = 6
        self.topics = {"t"}
        self.lookups = 0

    async def changes(self, instance: str, after: int) -> ns.ChangesResponse:
        raise NotServed(what="changes")

    async def lookup(self, topic: str) -> list[ns.QueueRoute]:
        self.lookups += 1
        if self.down:
            raise NameserverDown(reason="gone")
        info = ns.BrokerInfo(name="b", address="h:1")
        config = link.TopicConfig(name=topic, perm=self.perm, read_queues=1, write_queues=1)
        return [ns.QueueRoute(broker=info, topic=config)] if topic in self.topics else []

    async def brokers(self) -> list[ns.BrokerInfo]:
        if self.down:
            raise NameserverDown(reason="gone")
        return [ns.BrokerInfo(name="b", address="h:1")]

    async def each(self) -> list[NameserverState]:
        return []

    async def close(self) -> None:
        return


async def test_what_is_known_outlives_the_nameserver() -> None:
    names = Names()
    cache = RouteCache(names)
    routes = await cache.routes("t")
    assert await cache.address("b") == "h:1"
    names.down = True
    assert await cache.routes("t") == routes
    assert await cache.address("b") == "h:1"
    assert names.lookups == 1
    with pytest.raises(NameserverDown):
        await cache.routes("other")
    with pytest.raises(BrokerUnreachable, match="gone"):
        await cache.address("c")


async def test_a_topic_made_a_moment_ago_is_asked_for_again() -> None:
    names = Names()
    cache = RouteCache(names)
    with pytest.raises(TopicNotFound):
        await cache.routes("new")
    names.topics.add("new")
    cache.forget("new")
    assert len(await cache.routes("new")) == 1


async def test_a_topic_that_may_be_written_again_is_so_at_its_next_use() -> None:
    """Where nothing takes messages, what is remembered is of no use."""
    names = Names()
    cache = RouteCache(names)
    names.perm = 4
    assert not (await cache.routes("t")).writable
    names.perm = 6
    cache.make_stale()
    assert (await cache.routes("t")).writable
    names.perm = 4
    cache.forget("t")
    await cache.routes("t")
    names.down = True
    cache.make_stale()
    assert not (await cache.routes("t")).writable


async def test_an_unknown_broker_is_told() -> None:
    with pytest.raises(BrokerUnreachable, match="no nameserver knows it"):
        await RouteCache(Names()).address("c")
