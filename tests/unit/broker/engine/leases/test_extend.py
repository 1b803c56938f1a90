"""Leases that are held longer under the handles they have: what is written, and what stays true."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.broker import EngineDriver
from harness.names import GROUP, TOPIC

from popmq_broker.config import PopBuffer
from popmq_internal.v1 import link_pb2 as link

DONE, EXPIRED = link.LEASE_OUTCOME_DONE, link.LEASE_OUTCOME_EXPIRED
ALREADY_ACKED = link.LEASE_OUTCOME_ALREADY_ACKED
FIRST_MS, LONGER_MS = 10_000, 60_000


@pytest.fixture(params=["normal", "fifo", "memory"])
def driver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EngineDriver]:
    buffer = PopBuffer.MEMORY if request.param == "memory" else PopBuffer.DURABLE
    made = EngineDriver(tmp_path, pop_buffer=buffer)
    made.make(queues=1, fifo=request.param == "fifo")
    yield made
    made.close()


def held(driver: EngineDriver, count: int) -> list[str]:
    for i in range(count):
        driver.send(f"m{i}", message_group=f"g{i}")
    return [message.handle for message in driver.pop(count, FIRST_MS)]


def journal_count(driver: EngineDriver) -> int:
    runtime = driver.broker.state.runtime
    queues = range(runtime.config.revive_queues)
    return sum(runtime.store.max_offset(runtime.revive_topic, i) for i in queues)


def bodies(driver: EngineDriver) -> set[bytes]:
    return {message.body for message in driver.pop(32, FIRST_MS)}


def test_a_run_is_held_longer_by_one_record_under_its_handles(driver: EngineDriver) -> None:
    handles = held(driver, 8)
    before = journal_count(driver)
    driver.advance(5_000)
    assert driver.extend(LONGER_MS, *handles) == [DONE] * 8
    assert journal_count(driver) <= before + 2  # in memory: the pop's own, and this
    driver.advance(LONGER_MS - 1)
    assert bodies(driver) == set()
    assert driver.ack_by_runs(*handles) == [DONE] * 8


def test_what_is_not_named_ends_in_its_time(driver: EngineDriver) -> None:
    handles = held(driver, 4)
    driver.advance(5_000)
    driver.extend(LONGER_MS, handles[1], handles[2])
    driver.advance(5_000)
    assert bodies(driver) == {b"m0", b"m3"}
    assert driver.ack(handles[1], handles[2]) == [DONE, DONE]


def test_a_crash_forgets_no_extension(driver: EngineDriver) -> None:
    handles = held(driver, 6)
    driver.advance(5_000)
    driver.extend(LONGER_MS, *handles[:3])
    driver.extend(2 * LONGER_MS, *handles[:2])
    driver.crash(random.Random(7))
    driver.advance(LONGER_MS - 1)
    assert bodies(driver) == {b"m3", b"m4", b"m5"}
    driver.advance(1)
    assert b"m2" in bodies(driver)
    assert driver.ack_by_runs(*handles[:2]) == [DONE, DONE]


def test_a_lease_never_gets_shorter(driver: EngineDriver) -> None:
    (handle,) = held(driver, 1)
    before = journal_count(driver)
    assert driver.extend(FIRST_MS - 1, handle) == [DONE]
    assert journal_count(driver) == before
    driver.advance(FIRST_MS - 1)
    assert driver.ack(handle) == [DONE]


def test_a_request_that_is_repeated_changes_nothing(driver: EngineDriver) -> None:
    handles = held(driver, 2)
    assert driver.extend(LONGER_MS, *handles) == [DONE, DONE]
    before = journal_count(driver)
    assert driver.extend(LONGER_MS, *handles) == [DONE, DONE]
    assert journal_count(driver) == before


def test_what_is_no_longer_held_is_named_and_the_rest_is_extended(driver: EngineDriver) -> None:
    handles = held(driver, 3)
    driver.ack(handles[0])
    assert driver.extend(LONGER_MS, *handles) == [ALREADY_ACKED, DONE, DONE]
    driver.advance(LONGER_MS)
    assert driver.extend(LONGER_MS, handles[1]) == [EXPIRED]


def test_explain_tells_it_from_another_delivery(driver: EngineDriver) -> None:
    (handle,) = held(driver, 1)
    driver.advance(5_000)
    driver.extend(LONGER_MS, handle)
    driver.ack(handle)
    asked = link.Explain(message_id="id-m0", topic=TOPIC, group=GROUP)
    kinds = [line.kind for line in driver.call(explain=asked).explain.journal]
    wanted = [link.JOURNAL_KIND_HANDED_OUT, link.JOURNAL_KIND_RENEWED, link.JOURNAL_KIND_ACKED]
    assert kinds[-3:] == wanted
