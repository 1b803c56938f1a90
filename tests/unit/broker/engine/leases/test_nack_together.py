"""Nacks of several messages that one receive gave: what is written, and that each goes its way."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.broker import EngineDriver
from harness.broker_calls import Popped

from popmq_broker.config import PopBuffer
from popmq_internal.v1 import link_pb2 as link

DONE, SUPERSEDED = link.LEASE_OUTCOME_DONE, link.LEASE_OUTCOME_SUPERSEDED
UNCOUNTED, FATAL = link.NACK_KIND_UNCOUNTED, link.NACK_KIND_FATAL


@pytest.fixture(params=["normal", "fifo", "memory"])
def driver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EngineDriver]:
    buffer = PopBuffer.MEMORY if request.param == "memory" else PopBuffer.DURABLE
    made = EngineDriver(tmp_path, pop_buffer=buffer)
    policy = link.RetryPolicy(delays_ms=[1_000, 5_000])
    made.make(queues=1, fifo=request.param == "fifo", max_attempts=3, retry_policy=policy)
    yield made
    made.close()


def held(driver: EngineDriver, count: int) -> list[str]:
    for i in range(count):
        driver.send(f"m{i}", message_group=f"g{i}")
    return [message.handle for message in driver.pop(count)]


def journal_count(driver: EngineDriver) -> int:
    runtime = driver.broker.state.runtime
    queues = range(runtime.config.revive_queues)
    return sum(runtime.store.max_offset(runtime.revive_topic, i) for i in queues)


def attempts(messages: list[Popped]) -> dict[bytes, int]:
    return {message.body: message.delivery_attempt for message in messages}


def test_they_share_a_checkpoint_and_an_ack(driver: EngineDriver) -> None:
    handles = held(driver, 8)
    before = journal_count(driver)
    assert driver.nack_by_runs(*handles, delay_ms=2_000) == [DONE] * 8
    assert journal_count(driver) <= before + 3  # in memory: the pop's own, and these two
    assert driver.nack_by_runs(*handles) == [SUPERSEDED] * 8
    driver.advance(1_999)
    assert driver.pop() == []
    driver.advance(1)
    assert attempts(driver.pop()) == {f"m{i}".encode(): 2 for i in range(8)}


@pytest.mark.parametrize("kind", [link.NACK_KIND_COUNTED, UNCOUNTED])
def test_a_start_knows_all_of_them(driver: EngineDriver, kind: "link.NackKind.ValueType") -> None:
    handles = held(driver, 5)
    driver.nack_by_runs(*handles[1:4], kind=kind, delay_ms=2_000, reason="later")
    driver.ack_by_runs(handles[0], handles[4])
    driver.restart()
    assert driver.pop() == []
    driver.advance(2_000)
    again = 1 if kind == UNCOUNTED else 2
    assert attempts(driver.pop()) == {f"m{i}".encode(): again for i in (1, 2, 3)}


def test_the_policy_decides_for_each(driver: EngineDriver) -> None:
    """Those of the second attempt wait longer than those of the first, and what has failed for the
    last time waits no more."""
    held(driver, 2)
    driver.advance(10_000)  # both are redelivered: their second attempt
    for body in ("m2", "m3"):
        driver.send(body, message_group=body)
    handles: list[str] = []
    while len(handles) < 4:
        handles += [message.handle for message in driver.pop()]
    assert driver.nack_by_runs(*handles, reason="no") == [DONE] * 4
    driver.advance(1_000)
    last = driver.pop()
    assert attempts(last) == {b"m2": 2, b"m3": 2}
    driver.advance(4_000)
    last = driver.pop()
    assert attempts(last) == {b"m0": 3, b"m1": 3}
    assert driver.nack_by_runs(*(message.handle for message in last), reason="no") == [DONE] * 2
    letters = driver.dead_letters().letters
    assert [(letter.attempts, letter.reason) for letter in letters] == [(3, "no")] * 2


def test_fatal_ones_are_dead_at_once_and_the_others_stay_held(driver: EngineDriver) -> None:
    handles = held(driver, 4)
    assert driver.nack_by_runs(handles[3], handles[1], kind=FATAL, reason="bad") == [DONE] * 2
    assert [letter.reason for letter in driver.dead_letters().letters] == ["bad"] * 2
    assert driver.ack_by_runs(handles[0], handles[2]) == [DONE] * 2
    driver.advance(60_000)
    assert driver.pop() == []
