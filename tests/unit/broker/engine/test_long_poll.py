"""Long polls at a real engine: nobody waits beside a message that is ready."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness.broker import EngineDriver
from harness.broker_calls import pop_body, send_body
from harness.names import GROUP, TOPIC

from popmq_broker.core.leases.leases import GroupQueueState
from popmq_broker.engine.leases import pop as pop_module
from popmq_broker.engine.leases import queue_scan
from popmq_common.errors import TooManyRequests
from popmq_internal.v1 import link_pb2 as link

POLL_MS = 5_000


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[EngineDriver]:
    driver = EngineDriver(tmp_path, wake_gap_ms=0)
    driver.make(queues=1)
    yield driver
    driver.close()


def poll(driver: EngineDriver, count: int = 1, **pop: Any) -> "asyncio.Task[link.Reply]":
    """A long poll that has found nothing and waits."""
    request: link.Pop = pop_body(count, 10_000, pop.pop("expression", ""))["pop"]
    request.poll_ms = POLL_MS
    for name, value in pop.items():
        setattr(request, name, value)
    return driver.start(pop=request)


def answers(driver: EngineDriver, *polls: "asyncio.Task[link.Reply]", within_s: float = 1) -> int:
    """Messages that these polls have got by then."""

    async def gather() -> int:
        done, _ = await asyncio.wait(polls, timeout=within_s)
        return sum(len(task.result().pop.messages) for task in done)

    return driver.run(gather())


def test_trap31_a_message_that_comes_while_the_start_of_a_new_group_is_written_is_seen(
    tmp_path: Path,
) -> None:
    """The poll found nothing, and waits for the disk before it waits for messages."""
    driver = EngineDriver(tmp_path, wake_gap_ms=0)
    driver.make(queues=1, start="LAST")

    async def race() -> int:
        request = pop_body(1, 10_000)["pop"]
        request.poll_ms = POLL_MS
        waiting = asyncio.ensure_future(driver.handle(link.Call(pop=request)))
        await asyncio.sleep(0)
        assert driver.broker.state.runtime.long_polls.count == 0, "it waits for the disk"
        await driver.handle(link.Call(**send_body("a")))
        done, _ = await asyncio.wait([waiting], timeout=1)
        return sum(len(task.result().pop.messages) for task in done)

    assert driver.run(race()) == 1
    driver.close()


def test_many_messages_at_once_wake_as_many_polls(driver: EngineDriver) -> None:
    polls = [poll(driver) for _ in range(4)]
    record = send_body("x")["send"].records[0]
    driver.call(send=link.Send(topic=TOPIC, queue_id=0, records=[record] * 4))
    assert answers(driver, *polls) == 4


def test_a_poll_given_up_while_its_answer_is_written_leaves_the_rest_to_the_next(
    driver: EngineDriver,
) -> None:
    """It took one of two; the poll behind it need not wait for another arrival."""
    first, second = poll(driver), poll(driver, count=1)

    async def give_up() -> int:
        record = send_body("x")["send"].records[0]
        await driver.handle(
            link.Call(send=link.Send(topic=TOPIC, queue_id=0, records=[record] * 2))
        )
        for _ in range(3):  # the first has taken one, and waits for the disk
            await asyncio.sleep(0)
        assert driver.broker.state.lease_state.table.live_count > 0
        first.cancel()
        done, _ = await asyncio.wait([second], timeout=1)
        return sum(len(task.result().pop.messages) for task in done)

    assert driver.run(give_up()) == 1


def test_t33_a_revived_message_wakes_a_waiting_poll_within_100_ms(driver: EngineDriver) -> None:
    driver.send("a")
    driver.pop(invisible_ms=10_000)
    waiting = poll(driver)

    async def revive() -> float:
        driver.clock.advance(10_000)
        began = time.perf_counter()
        await driver.broker.revive.revive_due()
        await waiting
        return time.perf_counter() - began

    assert driver.run(revive()) < 0.1
    assert len(waiting.result().pop.messages) == 1


def test_t40_what_could_not_leave_wakes_a_waiting_poll_at_once(driver: EngineDriver) -> None:
    driver.send("a")
    (held,) = driver.pop()
    waiting = poll(driver)
    driver.call(release=link.Release(group=GROUP, topic=TOPIC, handles=[held.handle]))
    assert answers(driver, waiting, within_s=0.9) == 1


@pytest.mark.parametrize("how", ["ack", "release", "expire"])
def test_in_order_the_end_of_a_lease_wakes_who_waits_for_its_turn(tmp_path: Path, how: str) -> None:
    driver = EngineDriver(tmp_path, wake_gap_ms=0)
    driver.make(queues=1, fifo=True)
    driver.send("a1", message_group="a")
    driver.send("a2", message_group="a")
    (held,) = driver.pop(1)
    waiting = poll(driver)
    if how == "ack":
        driver.ack(held.handle)
    elif how == "release":
        driver.call(release=link.Release(group=GROUP, topic=TOPIC, handles=[held.handle]))
    else:
        driver.advance(10_000)
    assert answers(driver, waiting) == 1
    driver.close()


def test_the_end_of_a_topic_ends_its_polls(driver: EngineDriver) -> None:
    waiting = poll(driver)
    driver.call(delete_topic=link.DeleteTopic(topic=TOPIC))

    async def failed() -> str:
        try:
            await waiting
        except Exception as error:
            return type(error).__name__
        return ""

    assert driver.run(failed()) == "TopicNotFound"


def test_the_end_of_a_group_ends_its_polls(driver: EngineDriver) -> None:
    waiting = poll(driver)
    driver.call(delete_group=link.DeleteGroup(group=GROUP))

    async def failed() -> str:
        try:
            await asyncio.wait_for(waiting, 1)
        except Exception as error:
            return type(error).__name__
        return ""

    assert driver.run(failed()) == "GroupNotFound"
    assert driver.broker.state.runtime.long_polls.is_empty


def test_a_group_s_polls_have_a_bound_of_their_own(tmp_path: Path) -> None:
    driver = EngineDriver(tmp_path, waiting_polls_per_group_max=1)
    driver.make(queues=1)
    waiting = poll(driver)
    with pytest.raises(TooManyRequests, match="waiting polls of group g"):
        poll(driver).result()
    driver.send("a")
    assert answers(driver, waiting) == 1
    driver.close()


def test_queues_with_nothing_new_are_not_looked_at(
    driver: EngineDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of eight queues where one has a message, a pop scans that one; it finds all the same."""
    driver.make(queues=8)
    for number in range(8):
        driver.send(f"m{number}")
    assert len(driver.pop(32)) == 8
    looked_at: list[int] = []

    def scan(
        runtime: Any, catalog: Any, queue: GroupQueueState, *rest: Any
    ) -> queue_scan.QueueScan:
        looked_at.append(queue.key.queue_id)
        return queue_scan.scan_queue(runtime, catalog, queue, *rest)

    monkeypatch.setattr(pop_module, "scan_queue", scan)
    driver.send("new")
    assert [message.body for message in driver.pop(32)] == [b"new"]
    assert len(looked_at) == 1
    assert driver.pop(32) == []
    assert len(looked_at) == 1
