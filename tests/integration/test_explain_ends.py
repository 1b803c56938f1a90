"""explain tells how a lease ended: its time ran out, or somebody ended it, and who."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.broker import EngineDriver
from harness.names import GROUP, TOPIC
from integration.test_explain import explain

from popmq_internal.v1 import link_pb2 as link


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[EngineDriver]:
    made = EngineDriver(tmp_path)
    made.make(queues=1)
    yield made
    made.close()


def ends(driver: EngineDriver) -> list[str]:
    """What the timeline says of leases that are over."""
    return [event.text for event in explain(driver).timeline if event.kind == "ended"]


def test_only_a_lease_whose_time_ran_out_ended_without_an_ack(driver: EngineDriver) -> None:
    driver.send("a")
    driver.pop(invisible_ms=10_000)
    driver.advance(10_000)
    assert ends(driver) == ["the lease of group g ended without an ack"]


@pytest.mark.parametrize("kind", [link.NACK_KIND_COUNTED, link.NACK_KIND_UNCOUNTED])
def test_after_a_nack_the_delay_is_over(
    driver: EngineDriver, kind: "link.NackKind.ValueType"
) -> None:
    driver.send("a")
    driver.nack(driver.pop()[0].handle, delay_ms=5_000, kind=kind)
    driver.advance(5_000)
    assert ends(driver) == ["the delay of the nack of group g is over"]


@pytest.mark.parametrize("attempts", [1, 16])
def test_what_is_given_up_did_not_end_without_an_ack(driver: EngineDriver, attempts: int) -> None:
    driver.make(queues=1, max_attempts=attempts)
    driver.send("a")
    kind = link.NACK_KIND_COUNTED if attempts == 1 else link.NACK_KIND_FATAL
    driver.nack(driver.pop()[0].handle, kind=kind, reason="no")
    assert ends(driver) == ["group g gave it up before its time ended"]


def test_what_is_given_back_did_not_end_without_an_ack(driver: EngineDriver) -> None:
    driver.send("a")
    handle = driver.pop()[0].handle
    driver.call(release=link.Release(group=GROUP, topic=TOPIC, handles=[handle]))
    assert ends(driver) == ["group g gave it back before its time ended, not counted"]


def test_a_renewed_lease_that_ran_out_ended_without_an_ack(driver: EngineDriver) -> None:
    driver.send("a")
    driver.pop(invisible_ms=10_000, renewed_by="host@7")
    driver.clock.advance(5_000)
    driver.alive("host@7")
    driver.advance(30_000)
    assert ends(driver) == ["the lease of group g ended without an ack"]
