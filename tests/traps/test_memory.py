"""Does what is in memory stay bounded, and go away with those it was for?"""

import asyncio
import socket
from dataclasses import replace

import pytest
from harness.broker import EngineDriver
from harness.broker_calls import pop_body
from harness.link import SEND, done, serving
from harness.names import TOPIC
from harness.proxy import ProxyDriver

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq_broker.config import BrokerConfig
from popmq_common.errors import TooManyInFlight
from popmq_internal.v1 import link_pb2 as link

GROUPS = 150


def test_t23_what_a_group_may_hold_is_capped_and_the_refusal_says_so(
    driver: EngineDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert 0 < driver.broker.state.runtime.config.in_flight_max <= 10_000
    driver.make(queues=1)
    monkeypatch.setattr(driver.broker.state.runtime, "config", _with_cap(driver, 2))
    proxy = ProxyDriver(driver)
    for body in (b"a", b"b", b"c"):
        proxy.send(body)
    held = driver.pop()
    assert len(held) == 2
    with pytest.raises(TooManyInFlight, match="holds 2 messages"):
        driver.pop()
    (refused,) = proxy.responses()
    assert refused.status.code == v2.TOO_MANY_REQUESTS
    assert "has not acknowledged" in refused.status.message
    assert "limit of a queue is 2" in refused.status.message
    driver.ack(held[0].handle)
    assert [message.body for message in driver.pop()] == [b"c"]


def test_t30_groups_that_came_and_went_leave_nothing_behind(driver: EngineDriver) -> None:
    """Each waits for messages, gets one, fails once, is done, and is deleted."""
    driver.make(queues=1)
    names = [f"short-lived-{number}" for number in range(GROUPS)]
    for name in names:
        group = link.GroupConfig(name=name, max_attempts=3, consume_from="FIRST")
        driver.call(put_group=link.PutGroup(group=group))
    driver.run(_poll_once(driver, names, poll_ms=20))
    driver.send("x")
    driver.run(_poll_once(driver, names, poll_ms=20))
    driver.advance(10_000)
    popped = driver.run(_poll_once(driver, names, poll_ms=1_000))
    assert all(len(reply.pop.messages) == 1 for reply in popped)
    for name, reply in zip(names, popped, strict=True):
        handles = [reply.pop.messages[0].handle]
        driver.call(ack=link.Ack(group=name, topic=TOPIC, handles=handles))
        driver.call(delete_group=link.DeleteGroup(group=name))
    state = driver.broker.state
    assert set(state.catalog_state.groups) == {"g"}
    assert [name for name in state.catalog_state.topics if name.startswith("%")] == []
    assert state.lease_state.table.queues == {}
    assert (state.lease_state.table.live_count, state.lease_state.table.next_due_ms()) == (0, None)
    assert not any(state.lease_state.progress._open.values())
    long_polls = state.runtime.long_polls
    assert (long_polls.count, long_polls._polls, long_polls._keys_of) == (0, {}, {})
    stats = state.runtime.stats
    assert [*stats.popped, *stats.acked, *stats.revived, *stats.changed, *stats.dead] == []


def test_t30_a_topic_that_is_gone_is_not_counted_any_more(driver: EngineDriver) -> None:
    driver.make(max_attempts=1)
    driver.send("x")
    driver.send("y")
    held, _ = driver.pop()
    driver.change(held.handle, 20_000)
    driver.ack(held.handle)
    driver.advance(10_000)
    driver.call(delete_topic=link.DeleteTopic(topic=TOPIC))
    stats = driver.broker.state.runtime.stats
    assert [*stats.sent, *stats.popped, *stats.acked, *stats.changed, *stats.dead] == []


async def _poll_once(driver: EngineDriver, names: list[str], poll_ms: int) -> list[link.Reply]:
    async def pop(name: str) -> link.Reply:
        request = pop_body(1, 10_000)["pop"]
        request.group, request.poll_ms = name, poll_ms
        return await driver.handle(link.Call(pop=request))

    return await asyncio.gather(*(pop(name) for name in names))


def test_t30_a_proxy_forgets_clients_that_are_silent(
    driver: EngineDriver, proxy: ProxyDriver
) -> None:
    for number in range(1_000):
        proxy.upstream.sessions.seen(f"client-{number}", driver.clock.now_ms())
    driver.clock.advance(proxy.upstream.config.session_expiry_ms + 1)
    proxy.receive()
    assert len(proxy.upstream.sessions) == 1


async def test_t31_an_hour_of_port_scans_leaves_no_connection_behind() -> None:
    """Every kind of peer that never becomes one: silent, rude, cut off in the middle."""
    async with serving(done) as (server, brokers):
        await brokers.call("b", SEND, 5_000)
        tasks = len(asyncio.all_tasks())
        for said in (b"", b"GET / HTTP/1.0\r\n\r\n", b"\x00\x00\x00\x05\x0a", bytes(64)):
            for reset in (False, True):
                for _ in range(50):
                    await _knock(server.port, said, reset=reset)
        async with asyncio.timeout(5):
            while strangers := [one for one, greeted in server._connections.items() if not greeted]:
                await asyncio.wait(strangers)
        assert len(asyncio.all_tasks()) == tasks
        await brokers.call("b", SEND, 5_000)


async def _knock(port: int, said: bytes, *, reset: bool) -> None:
    loop = asyncio.get_running_loop()
    with socket.socket() as knocking:
        knocking.setblocking(False)
        await loop.sock_connect(knocking, ("127.0.0.1", port))
        if said:
            await loop.sock_sendall(knocking, said)
        if reset:
            linger = b"\x01\x00\x00\x00\x00\x00\x00\x00"  # on, for no time: a reset, no goodbye
            knocking.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)


def _with_cap(driver: EngineDriver, in_flight_max: int) -> BrokerConfig:
    return replace(driver.broker.state.runtime.config, in_flight_max=in_flight_max)
