"""A receive waits at all brokers of its topic: it gets what comes first, from one of them."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from harness.anywhere import Cluster, receive, until
from harness.names import TOPIC

from popmq_broker.engine.leases.poll import Polls
from popmq_common.errors import BrokerDown, NotServed
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.core.routing import watched_polls as watching
from popmq_proxy.rpc.messages.pop_anywhere import PopAnywhere
from popmq_proxy.rpc.shared import broker_watches as watches_module


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path, 2)
    yield made
    made.close()


@pytest.fixture
def four(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path, 4)
    yield made
    made.close()


@pytest.fixture
def fifo(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path, 2, fifo=True)
    yield made
    made.close()


@asynccontextmanager
async def waiting(
    cluster: Cluster, *receives: Coroutine[Any, Any, list[str]], at: int = 0
) -> AsyncIterator["list[asyncio.Task[list[str]]]"]:
    """Receives, once all of them wait `at` that broker."""
    tasks = [asyncio.ensure_future(one) for one in receives]
    long_polls = cluster.engines[at].broker.state.runtime.long_polls
    before = long_polls.count
    await until(lambda: long_polls.count == before + len(tasks))
    yield tasks
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize("there", [1, 2, 3])
def test_a_receive_that_waits_gets_what_comes_to_another_broker(four: Cluster, there: int) -> None:
    async def work() -> None:
        async with waiting(four, receive(four.proxy, 0)) as (one,):
            await four.send(there, "a")
            assert await one == ["a"]

    four.run(work)
    assert four.held() == 1


def test_what_is_there_already_comes_at_once_whichever_broker_is_asked(four: Cluster) -> None:
    async def work() -> None:
        for broker in range(4):
            await four.send(broker, f"{broker}")
        assert await receive(four.proxy, 2, poll_s=0) == ["2"]
        rest = [await receive(four.proxy, 2, poll_s=0) for _ in range(4)]
        assert sorted(rest) == [[], ["0"], ["1"], ["3"]]

    four.run(work)


def test_many_receives_and_messages_each_gets_one_and_nothing_is_held_twice(four: Cluster) -> None:
    async def work() -> None:
        proxies = [four.proxy, four.another_proxy()]
        receives = [receive(proxies[i % 2], 0) for i in range(40)]
        async with waiting(four, *receives) as tasks:
            sent = [f"m{i}" for i in range(40)]
            await asyncio.gather(*(four.send(i % 4, body) for i, body in enumerate(sent)))
            came = await asyncio.gather(*tasks)
        assert sorted(body for bodies in came for body in bodies) == sorted(sent)

    four.run(work)
    assert four.held() == 40


def test_a_message_of_another_tag_disturbs_no_receive(cluster: Cluster) -> None:
    async def work() -> None:
        wanted = receive(cluster.proxy, 0, tag="red")
        async with waiting(cluster, wanted) as (red,):
            await cluster.send(1, "b", tag="blue")
            await cluster.send(1, "r", tag="red")
            assert await red == ["r"]

    cluster.run(work)


def test_who_leaves_when_it_is_told_hands_the_message_on(cluster: Cluster) -> None:
    async def work() -> None:
        both = [receive(cluster.proxy, 0) for _ in range(2)]
        async with waiting(cluster, *both) as (first, second):
            watches = cluster.proxy.upstream.watches
            with patch.object(watches, "_end"):  # it is told, and has not gone to look yet
                await cluster.send(1, "a")
                await until(lambda: bool(watches._cut_short))
            first.cancel()
            assert await second == ["a"]

    cluster.run(work)


def test_when_no_receive_is_left_another_proxy_is_told(cluster: Cluster) -> None:
    async def work() -> None:
        other = cluster.another_proxy()
        receives = receive(cluster.proxy, 0), receive(other, 0)
        async with waiting(cluster, *receives) as (one, two):
            one.cancel()
            await asyncio.gather(one, return_exceptions=True)
            await cluster.send(1, "a")
            assert await two == ["a"]

    cluster.run(work)


def test_a_broker_that_comes_back_is_looked_at(cluster: Cluster) -> None:
    async def work() -> None:
        await receive(cluster.proxy, 0, poll_s=0)
        cluster.away.add("broker-b")
        async with waiting(cluster, receive(cluster.proxy, 0)) as (one,):
            await cluster.send(1, "sent while this proxy did not reach it")
            cluster.away.clear()
            cluster.proxy.upstream.watches.tend()
            assert len(await one) == 1

    with patch.object(watching, "QUIET_S", 0.0):
        cluster.run(work)


def test_a_broker_that_gets_the_topic_is_looked_at(tmp_path: Path) -> None:
    """By a receive that began when there was one broker alone."""
    cluster = Cluster(tmp_path, 2)
    cluster.engines[1].call(delete_topic=link.DeleteTopic(topic=TOPIC))

    async def work() -> None:
        upstream = cluster.proxy.upstream
        async with waiting(cluster, receive(cluster.proxy, 0)) as (one,):
            topic = link.TopicConfig(
                name=TOPIC, read_queues=2, write_queues=2, message_type="MIXED"
            )
            put = link.Call(put_topic=link.PutTopic(topic=topic))
            await cluster.engines[1].broker.handle(put)
            await cluster.send(1, "a")
            upstream.routes.make_stale(TOPIC)
            upstream.watches.tend()  # finds the route old
            await until(lambda: len(upstream.routes.readable(TOPIC)) == 2)
            upstream.watches.tend()
            assert await one == ["a"]

    cluster.run(work)
    cluster.close()


def test_a_second_receive_does_not_look_at_brokers_that_are_quiet(four: Cluster) -> None:
    pops: list[str] = []
    whole = Polls.pop

    async def counted(self: Polls, request: link.Pop) -> link.PopReply:
        pops.append(self._runtime.config.name)
        return await whole(self, request)

    async def work() -> None:
        async with waiting(four, receive(four.proxy, 0)):
            pops.clear()
            async with waiting(four, receive(four.proxy, 0)):
                assert pops == ["broker-a"]

    with patch.object(Polls, "pop", counted):
        for engine in four.engines:
            engine.restart()
        four.run(work)


def test_watches_end_when_nobody_receives_any_more(four: Cluster) -> None:
    async def work() -> None:
        async with waiting(four, receive(four.proxy, 0)):
            pass
        with patch.object(watching, "UNUSED_S", 0.0):
            four.proxy.upstream.watches.tend()
        long_polls = [engine.broker.state.runtime.long_polls for engine in four.engines]
        await until(lambda: all(one.is_empty for one in long_polls))

    four.run(work)


def test_beyond_the_bound_of_watches_a_receive_waits_where_it_was_sent(cluster: Cluster) -> None:
    async def work() -> None:
        cluster.proxy.upstream.watches._table._keys_max = 0
        await cluster.send(1, "a")
        assert await receive(cluster.proxy, 0, poll_s=0) == ["a"]
        async with waiting(cluster, receive(cluster.proxy, 0)) as (one,):
            await cluster.send(0, "b")
            assert await one == ["b"]

    cluster.run(work)


def test_a_lost_answer_of_another_broker_comes_again_in_order(fifo: Cluster) -> None:
    """By the attempt id, although the receive asks the first broker again."""

    async def work() -> None:
        for body in ("1", "2"):
            await fifo.send(1, body, message_group="x")
        got = await receive(fifo.proxy, 0, poll_s=0, attempt_id="try", batch_size=8)
        await fifo.send(0, "new", message_group="y")
        again = await receive(fifo.another_proxy(), 0, poll_s=0, attempt_id="try", batch_size=8)
        assert got == again == ["1", "2"]

    fifo.run(work)


def test_order_holds_over_the_receives_of_several_brokers(fifo: Cluster) -> None:
    """The next of a message group only when the one before is done, whoever is asked."""

    async def work() -> None:
        for body in ("1", "2"):
            await fifo.send(1, body, message_group="x")
        assert await receive(fifo.proxy, 0, poll_s=0, attempt_id="a") == ["1"]
        assert await receive(fifo.proxy, 0, poll_s=0, attempt_id="b") == []
        assert await receive(fifo.proxy, 1, poll_s=0, attempt_id="c") == []

    fifo.run(work)


def test_a_broker_of_an_older_version_is_polled_instead_of_watched(cluster: Cluster) -> None:
    async def refuse(self: Polls, request: link.Watch) -> link.Done:
        raise NotServed(what="watch")

    async def work() -> None:
        async with waiting(cluster, receive(cluster.proxy, 0)) as (one,):
            await cluster.send(1, "a")
            cluster.proxy.upstream.watches.tend()
            assert await one == ["a"]

    with patch.object(Polls, "watch", refuse), patch.object(watches_module, "LOOK_S", 0.01):
        for engine in cluster.engines:
            engine.restart()
        cluster.run(work)


def test_a_receive_goes_on_when_the_connection_to_the_only_broker_ends(tmp_path: Path) -> None:
    """As when another replica of it leads from now on."""
    cluster = Cluster(tmp_path, 1)
    real = PopAnywhere.pop_at
    ended: list[Any] = []

    async def pop_at(self: PopAnywhere, *args: Any, **more: Any) -> Any:
        if not ended:
            ended.append(args)
            raise BrokerDown(broker="broker-a", reason="it has moved")
        return await real(self, *args, **more)

    async def work() -> None:
        await cluster.send(0, "a")
        assert await receive(cluster.proxy, 0) == ["a"]

    with patch.object(PopAnywhere, "pop_at", pop_at):
        cluster.run(work)
    assert ended
    cluster.close()
