"""Does a group go on where it should, at its start and after a reset?"""

import asyncio

import pytest
from harness.broker import EngineDriver
from harness.broker_calls import pop_body
from harness.names import GROUP, TOPIC

from popmq_internal.v1 import link_pb2 as link

DONE, SUPERSEDED = link.LEASE_OUTCOME_DONE, link.LEASE_OUTCOME_SUPERSEDED


def reset(driver: EngineDriver, at: "link.OffsetAt.ValueType") -> None:
    driver.call(reset_offsets=link.ResetOffsets(group=GROUP, topic=TOPIC, at=at))


@pytest.mark.parametrize("fifo", [False, True], ids=["any order", "fifo"])
def test_t54_a_reset_works_at_once_and_once_and_fences_what_is_held(
    driver: EngineDriver, fifo: bool
) -> None:
    driver.make(queues=1, fifo=fifo)
    for body in ("a1", "a2", "a3"):
        driver.send(body, message_group="a" if fifo else "")
    old = driver.pop(1)

    async def reset_under_a_waiting_poll() -> list[bytes]:
        broker = driver.broker
        first = await broker.handle(link.Call(**pop_body(32, 60_000)))
        poll = pop_body(32, 60_000)["pop"]
        poll.poll_ms = 5_000
        waiting = asyncio.ensure_future(broker.handle(link.Call(pop=poll)))
        await asyncio.sleep(0)
        request = link.ResetOffsets(group=GROUP, topic=TOPIC, at=link.OFFSET_AT_MIN)
        await broker.handle(link.Call(reset_offsets=request))
        async with asyncio.timeout(1):
            found = (await waiting).pop.messages
        assert len(first.pop.messages) == (0 if fifo else 2)
        return [message.handle.encode() for message in found]

    handles = driver.run(reset_under_a_waiting_poll())
    assert len(handles) == 3, "the poll that waited gets all of it"
    assert driver.ack(old[0].handle) == [SUPERSEDED]
    assert driver.pop() == [], "once"
    assert driver.ack(*(handle.decode() for handle in handles)) == [DONE] * 3
    driver.restart()
    driver.advance(3_600_000)
    assert driver.pop() == []
    reset(driver, link.OFFSET_AT_MIN)
    assert len(driver.pop()) == 3


def test_t70_a_group_starts_exactly_where_it_says(driver: EngineDriver) -> None:
    driver.make(queues=1, start="LAST")
    for body in ("before", "too"):
        driver.send(body)
        driver.advance(1_000)
    noon_ms = driver.clock.now_ms()
    for body in ("noon", "after"):
        driver.send(body)
        driver.advance(1_000)

    def found(name: str, consume_from: str, ms: int = 0) -> int:
        group = link.GroupConfig(
            name=name, max_attempts=16, consume_from=consume_from, consume_from_ms=ms
        )
        driver.call(put_group=link.PutGroup(group=group))
        pop = link.Pop(group=name, topic=TOPIC, batch_size=32, invisible_ms=60_000)
        return len(driver.call(pop=pop).pop.messages)

    assert found("last", "LAST") == 0
    assert found("first", "FIRST") == 4
    assert found("noon", "TIME", noon_ms) == 2
    assert found("moment_later", "TIME", noon_ms + 1) == 1
    assert found("long_ago", "TIME", 1) == 4
    assert found("never", "TIME", noon_ms + 10**9) == 0
