"""Does everything go on, whatever has failed, been refused or been given up before?"""

import asyncio
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from harness.broker import EngineDriver
from harness.broker_calls import Popped, pop_body, send_body
from harness.link import next_call, talking
from harness.names import GROUP, TOPIC
from harness.proxy import ProxyDriver

from popmq_admin.v1 import admin_pb2 as admin
from popmq_broker.core.catalog.tables import PERM_BOTH, PERM_WRITE
from popmq_broker.engine.leases.revive import BATCH_MAX
from popmq_common.errors import BrokerDown, DiskFull, PopMQError, TooManyInFlight
from popmq_common.link.sends import SendCall
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.clients.broker_link import OnReply

MINUTE_MS = 60_000


def test_t18_many_leases_that_end_together_are_each_looked_at_once(
    driver: EngineDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And in small batches, so that sends and acks get their turn."""
    count = 2_000
    driver.make(queues=1)
    records = [send_body(str(number))["send"].records[0] for number in range(count)]
    driver.call(send=link.Send(topic=TOPIC, records=records))

    async def pop_each() -> None:
        call = link.Call(**pop_body(1, 10_000))
        await asyncio.gather(*(driver.handle(call) for _ in range(count)))

    driver.run(pop_each())
    assert driver.broker.state.lease_state.table.live_count == count
    store, reads = driver.broker.state.runtime.store, Counter[int]()
    read = store.read

    def counted(log_offset: int, size_bytes: int) -> Any:
        reads[log_offset] += 1
        return read(log_offset, size_bytes)

    monkeypatch.setattr(store, "read", counted)
    driver.clock.advance(10_000)
    batches = []
    while batch := driver.run(driver.broker.revive.revive_due()):
        batches.append(batch)
    assert max(batches) == BATCH_MAX
    assert sum(batches) == count
    assert set(reads.values()) == {1}
    assert len(reads) == count
    assert driver.broker.state.lease_state.table.live_count == 0


def test_t21_while_the_disk_takes_nothing_revival_tries_less_and_less_often(
    driver: EngineDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And goes on soon after: five minutes of a full disk, hundreds of messages due."""
    driver.make(queues=4)
    sent = {f"m{number}" for number in range(300)}
    for body in sent:
        driver.send(body)
    while driver.pop(invisible_ms=10_000):
        pass
    driver.clock.advance(10_000)
    tries: list[int] = []
    with monkeypatch.context() as patched:

        def full(*_: Any, **__: Any) -> None:
            tries.append(driver.clock.now_ms())
            raise DiskFull(path="/data")

        patched.setattr(driver.broker.state.runtime.store, "append", full)
        for _ in range(3_000):
            driver.advance(100)
    pauses = [after - before for before, after in pairwise(tries)]
    assert pauses[:5] == [1_000, 2_000, 4_000, 8_000, 16_000]
    assert set(pauses[5:]) == {30_000}
    driver.advance(30_000)
    found = set()
    while messages := driver.pop():
        assert {message.delivery_attempt for message in messages} == {2}
        found |= {message.body.decode() for message in messages}
    assert found == sent


def _refused(**request: Any) -> Callable[[EngineDriver], None]:
    def work(driver: EngineDriver) -> None:
        call = pop_body(4, 10_000)["pop"]
        call.MergeFrom(link.Pop(**request))
        with pytest.raises(PopMQError):
            driver.call(pop=call)

    return work


def _not_readable(driver: EngineDriver) -> None:
    for perm in (PERM_WRITE, PERM_BOTH):
        topic = link.TopicConfig(
            name=TOPIC, read_queues=2, write_queues=2, perm=perm, message_type="MIXED"
        )
        driver.call(put_topic=link.PutTopic(topic=topic))
        if perm == PERM_WRITE:
            _refused()(driver)


def _disk_full(driver: EngineDriver) -> None:
    store = driver.broker.state.runtime.store
    append = store.append

    def full(*_: Any, **__: Any) -> Any:
        raise DiskFull(path="/data")

    store.append = full  # type: ignore[method-assign]
    try:
        _refused()(driver)
    finally:
        store.append = append  # type: ignore[method-assign]


def _hold_all(driver: EngineDriver, held: list[Popped]) -> None:
    while messages := driver.pop(4, 1_000_000):
        held += messages


def _cap_reached(driver: EngineDriver) -> None:
    held: list[Popped] = []
    with pytest.raises(TooManyInFlight):
        _hold_all(driver, held)
    driver.call(
        release=link.Release(group=GROUP, topic=TOPIC, handles=[message.handle for message in held])
    )


def _given_up(driver: EngineDriver) -> None:
    """Before what it took is on disk."""
    driver.hold_disk()
    task = driver.start(**pop_body(4, 10_000))
    assert not task.done()
    task.cancel()
    driver.call(describe=link.Describe())
    driver.let_go_of_disk()


def _given_up_while_it_waits(driver: EngineDriver) -> None:
    request = pop_body(4, 10_000, "no such tag")["pop"]
    request.poll_ms = 10_000
    task = driver.start(pop=request)
    task.cancel()
    driver.call(describe=link.Describe())


@pytest.mark.parametrize("fifo", [False, True], ids=["any order", "fifo"])
@pytest.mark.parametrize(
    "fails",
    [
        _refused(group="nobody"),
        _refused(topic="nowhere"),
        _refused(batch_size=33),
        _refused(attempt_id="x" * 257),
        _refused(filter_kind=link.FILTER_KIND_TAG, filter_expression="||"),
        _not_readable,
        _disk_full,
        _cap_reached,
        _given_up,
        _given_up_while_it_waits,
    ],
    ids=[
        "no group", "no topic", "batch size", "attempt id", "filter", "permission",
        "disk full", "in-flight cap", "given up", "given up waiting",
    ],
)  # fmt: skip
def test_t22_a_receive_that_fails_keeps_nothing_from_the_next(
    tmp_path: Path, fails: Callable[[EngineDriver], None], fifo: bool
) -> None:
    driver = EngineDriver(tmp_path, in_flight_max=2)
    driver.make(fifo=fifo)
    driver.pop()
    sent = {f"{letter}{number}" for letter in "ab" for number in range(2)}
    for body in sorted(sent):
        driver.send(body, message_group=body[0])
    if fails is not _given_up_while_it_waits:
        fails(driver)
        fails(driver)
        found = []
        while messages := driver.pop():
            found += messages
            driver.ack(*(message.handle for message in messages))
        assert sorted(message.body.decode() for message in found) == sorted(sent)
        assert {message.delivery_attempt for message in found} == {1}
    else:
        assert driver.ack(*(message.handle for message in driver.pop())) == [1] * 4
        fails(driver)
        driver.send("a9", message_group="a")
        assert [message.body for message in driver.pop()] == [b"a9"]
    assert driver.broker.state.runtime.long_polls.count == 0
    driver.close()


def test_t24_every_queue_is_served_however_often_the_route_is_asked_for(tmp_path: Path) -> None:
    """A consumer takes one message at a time and always begins with the first queue it knows."""
    engines = [EngineDriver(tmp_path / "a", name="broker-a")]
    engines.append(EngineDriver(tmp_path / "b", like=engines[0], name="broker-b"))
    for engine in engines:
        engine.make(queues=8)
        for queue_id in range(8):
            for number in range(3):
                body = f"{engine.broker.name} {queue_id} {number}"
                engine.call(**send_body(body, queue_id=queue_id))
    proxy = ProxyDriver(*engines)
    seen = set()
    for _ in range(16):
        proxy.upstream.routes.forget(TOPIC)
        (message,) = proxy.receive(batch_size=1)
        seen.add(message.body.decode().rsplit(" ", 1)[0])
    assert len(seen) == 16
    engines[1].close()
    engines[0].close()


async def test_t46_an_admin_call_fails_at_once_when_its_broker_goes_away() -> None:
    async def leave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await next_call(reader)
        writer.close()

    async with talking(leave) as brokers:
        call = link.Call(describe=link.Describe())
        async with asyncio.timeout(2):
            with pytest.raises(BrokerDown):
                await brokers.call("b", call, 60_000)


def test_t46_an_admin_call_names_the_broker_that_does_not_answer(proxy: ProxyDriver) -> None:
    class Gone:
        def send(self, broker: str, call: SendCall, timeout_ms: int, on_reply: OnReply) -> bool:
            return False

        async def call(
            self, broker: str, call: link.Call | SendCall, timeout_ms: int
        ) -> link.Reply:
            raise BrokerDown(broker=broker, reason="it closed the connection")

        def answers(self, broker: str) -> bool:
            return True

        async def close(self) -> None:
            return

    proxy.upstream.brokers = Gone()
    with pytest.raises(BrokerDown, match="broker-a"):
        proxy.admin("DescribeGroup", admin.DescribeGroupRequest(name=GROUP))
