"""Leases that were open when the primary failed get the time added in which there was none."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.broker import EngineDriver

from popmq_broker.engine.startup import lease_gap
from popmq_common.errors import DiskFull
from popmq_internal.v1 import link_pb2 as link

AWAY_MS = 6_000
LEASE_MS = 10_000


@pytest.fixture(params=[False, True], ids=["normal", "fifo"])
def driver(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[EngineDriver]:
    made = EngineDriver(tmp_path)
    made.make(queues=1, fifo=request.param)
    yield made
    made.close()


def take_over(driver: EngineDriver, away_ms: int = AWAY_MS) -> int:
    """As another replica does it: from the log alone, `away_ms` after the last record."""
    last_ms = driver.broker.state.runtime.store.last_store_ms
    driver.stop()
    driver.clock.advance(away_ms)
    driver.go_on()
    state = driver.broker.state
    return driver.run(lease_gap.add(state.runtime, state.lease_state, last_ms))


def test_a_lease_is_longer_by_the_time_without_a_primary(driver: EngineDriver) -> None:
    driver.send("a")
    (held,) = driver.pop(invisible_ms=LEASE_MS)
    assert take_over(driver) == 1
    driver.advance(LEASE_MS - 1)
    assert driver.pop() == []
    assert driver.ack(held.handle) == [link.LEASE_OUTCOME_DONE]
    driver.advance(60_000)
    assert driver.pop() == []


def test_one_that_would_have_ended_meanwhile_is_not_redelivered(driver: EngineDriver) -> None:
    driver.send("a")
    (held,) = driver.pop(invisible_ms=AWAY_MS - 1_000)
    take_over(driver)
    driver.advance(0)
    assert driver.pop() == []
    driver.advance(AWAY_MS - 1_001)
    assert driver.pop() == []
    driver.advance(1)
    (again,) = driver.pop()
    assert again.delivery_attempt == 2
    assert driver.ack(held.handle) != [link.LEASE_OUTCOME_DONE]


def test_it_is_in_the_journal(driver: EngineDriver) -> None:
    driver.send("a")
    driver.pop(invisible_ms=LEASE_MS)
    take_over(driver)
    driver.restart()
    driver.advance(LEASE_MS - 1)
    assert driver.pop() == []
    driver.advance(1)
    assert [message.delivery_attempt for message in driver.pop()] == [2]


def test_twice_in_a_row_adds_both(driver: EngineDriver) -> None:
    driver.send("a")
    driver.pop(invisible_ms=LEASE_MS)
    take_over(driver)
    take_over(driver)
    driver.advance(LEASE_MS - 1)
    assert driver.pop() == []


def test_one_that_had_ended_before_and_one_that_was_given_back_are_not_held(
    driver: EngineDriver,
) -> None:
    driver.send("a", message_group="a")
    driver.send("b", message_group="b")
    first, second = driver.pop(invisible_ms=LEASE_MS)
    driver.nack(first.handle, delay_ms=20_000)
    driver.clock.advance(LEASE_MS)
    driver.send("c")  # the last that the old primary stored
    assert take_over(driver) == 0
    assert second.body == b"b"


def test_the_gap_is_bounded_and_never_negative() -> None:
    assert lease_gap.gap(1_000, 8_000, 60_000) == 7_000
    assert lease_gap.gap(1_000, 900_000, 60_000) == 60_000
    assert lease_gap.gap(8_000, 1_000, 60_000) == 0
    assert lease_gap.gap(0, 1_000, 60_000) == 0
    assert lease_gap.gap(1_000, 8_000, 0) == 0


def test_many_leases_are_extended_in_turns(
    driver: EngineDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_gap, "GRANTS_MAX", 2)
    for number in range(7):
        driver.send(f"{number}", message_group=f"{number}")
        driver.pop(count=1, invisible_ms=LEASE_MS)
    assert take_over(driver) == 7
    assert driver.broker.state.lease_state.table.live_count == 7


def test_a_full_disk_leaves_the_leases_as_they_are(
    driver: EngineDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.send("a")
    driver.pop(invisible_ms=LEASE_MS)

    def full(*_: object) -> None:
        raise DiskFull(path="x")

    monkeypatch.setattr(lease_gap, "_extend", full)
    assert take_over(driver) == 0
    driver.advance(LEASE_MS - AWAY_MS)
    assert [message.delivery_attempt for message in driver.pop()] == [2]
