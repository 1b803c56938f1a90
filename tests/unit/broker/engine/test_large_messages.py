"""Large messages: what reads or copies many of them leaves their turns to others."""

import asyncio
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from harness.broker import EngineDriver
from harness.broker_calls import pop_body, send_body
from harness.names import GROUP, TOPIC

from popmq_broker.engine.leases import pop, revive
from popmq_common.link.portions import TURN_BYTES
from popmq_common.units import MiB
from popmq_internal.v1 import link_pb2 as link

COUNT = 12
BODY = bytes(MiB - 1_000)


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[EngineDriver]:
    driver = EngineDriver(tmp_path, segment_bytes=256 * MiB)
    driver.make(queues=1)
    for number in range(COUNT):
        body = send_body(f"{number}")
        body["send"].records[0].body = BODY
        driver.call(**body)
    yield driver
    driver.close()


def release(handles: list[str]) -> link.Call:
    return link.Call(release=link.Release(group=GROUP, topic=TOPIC, handles=handles))


def test_what_is_given_back_is_copied_in_slices_one_call_after_the_other(
    driver: EngineDriver,
) -> None:
    handles = [message.handle for message in driver.pop()]
    assert len(handles) == COUNT
    store = driver.broker.state.runtime.store

    async def copied_in_each_turn() -> list[int]:
        calls = [release(handles[at::3]) for at in range(3)]
        tasks = [asyncio.ensure_future(driver.handle(call)) for call in calls]
        found, before = [], store.log_end
        while not all(task.done() for task in tasks):
            await asyncio.sleep(0)
            found.append(store.log_end - before)
            before = store.log_end
        return found

    copied = driver.run(copied_in_each_turn())
    assert sum(copied) > COUNT * len(BODY), "all of it was copied"
    assert max(copied) < TURN_BYTES + 2 * MiB
    assert len(driver.pop()) == COUNT


def test_what_expires_is_copied_in_slices(driver: EngineDriver) -> None:
    assert len(driver.pop(invisible_ms=10_000)) == COUNT
    driver.clock.advance(10_000)
    counts = []
    while count := driver.run(driver.broker.revive.revive_due()):
        counts.append(count)
    assert sum(counts) == COUNT
    assert max(counts) <= revive.BATCH_BYTES_MAX // len(BODY) + 1


@pytest.mark.parametrize(("bytes_max", "count"), [(1, 1), (3 * MiB, 4), (0, COUNT)])
def test_a_pop_gives_no_more_than_was_asked_for(
    driver: EngineDriver, bytes_max: int, count: int
) -> None:
    body = pop_body(32, 10_000)
    body["pop"].bytes_max = bytes_max
    assert len(driver.call(**body).pop.messages) == count


def test_pops_that_wait_for_the_disk_hold_a_bounded_part_of_the_log(
    driver: EngineDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pop, "UNDURABLE_BYTES_MAX", 5 * MiB)
    driver.hold_disk()
    waiting = [driver.start(**pop_body(4, 10_000)) for _ in range(4)]
    driver.let_go_of_disk()

    async def answers() -> list[link.Reply]:
        return await asyncio.gather(*waiting)

    assert [len(reply.pop.messages) for reply in driver.run(answers())] == [4, 2, 1, 1]


def test_answers_that_become_durable_together_leave_one_after_the_other(
    driver: EngineDriver,
) -> None:
    driver.hold_disk()
    waiting = [driver.start(**pop_body(1, 10_000)) for _ in range(COUNT)]

    async def answered_in_each_turn() -> list[int]:
        counts = [0]
        while counts[-1] < COUNT:
            await asyncio.sleep(0)
            counts.append(sum(task.done() for task in waiting))
        return [later - before for before, later in pairwise(counts)]

    driver.end_hold()
    assert max(driver.run(answered_in_each_turn())) <= 2
