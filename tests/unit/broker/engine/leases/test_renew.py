"""Signs of life at a real engine: what they write, and what they do not."""

import pytest
from harness.broker import EngineDriver
from harness.names import GROUP, TOPIC
from prometheus_client import generate_latest

from popmq_broker.engine.leases.renew import CLIENTS_MAX
from popmq_broker.metrics import registry
from popmq_common.errors import BadRequest
from popmq_internal.v1 import link_pb2 as link


@pytest.fixture
def driver(driver: EngineDriver) -> EngineDriver:
    driver.make(queues=1)
    return driver


def journal_count(driver: EngineDriver) -> int:
    state = driver.broker.state
    return sum(
        state.runtime.store.max_offset(state.runtime.revive_topic, i)
        for i in range(state.runtime.config.revive_queues)
    )


def test_one_record_per_grant_and_none_when_nothing_is_due(driver: EngineDriver) -> None:
    for i in range(40):
        driver.send(f"m{i}")
    driver.pop(32, renewed_by="c1")
    driver.pop(8, renewed_by="c2")
    before = journal_count(driver)
    driver.alive("c1", "c2")
    assert journal_count(driver) == before
    driver.advance(5_000)
    driver.alive("c1", "c2", "c1")
    driver.alive("c1", "c2")
    assert journal_count(driver) == before + 2
    page = generate_latest(registry(driver.broker)).decode()
    assert 'popmq_renewed_leases_total{consumer_group="g",topic="t"} 40.0' in page
    assert "popmq_renewing_clients 2.0" in page


def test_a_long_lease_does_not_keep_the_journal_from_its_pop(driver: EngineDriver) -> None:
    """A restart reads the journal from the last renewal on."""
    driver.send("a")
    (held,) = driver.pop(renewed_by="c1")
    for i in range(50):
        driver.send(f"m{i}")
        (other,) = driver.pop(1)
        driver.ack(other.handle)
        driver.advance(6_000)
        driver.alive("c1")
    state = driver.broker.state
    ends = [state.runtime.store.max_offset(state.runtime.revive_topic, i) for i in range(8)]
    needed = [state.lease_state.progress.first_needed(i, end) for i, end in enumerate(ends)]
    unneeded = sum(needed)
    assert sum(ends) - unneeded <= 15, "one revive queue, from the last renewal"
    driver.restart()
    assert driver.ack(held.handle) == [link.LEASE_OUTCOME_DONE]


def test_a_client_id_of_any_length_does_not_get_into_the_journal(driver: EngineDriver) -> None:
    with pytest.raises(BadRequest, match="client id"):
        driver.pop(renewed_by="c" * 5_000)


def test_a_call_has_a_bound(driver: EngineDriver) -> None:
    with pytest.raises(BadRequest, match="1024 at most"):
        driver.alive(*(f"c{i}" for i in range(CLIENTS_MAX + 1)))


def test_who_asks_for_no_renewal_gets_none_and_keeps_it_through_a_goodbye(
    driver: EngineDriver,
) -> None:
    """A simple consumer has said for how long."""
    driver.send("a")
    pop = link.Pop(group=GROUP, topic=TOPIC, batch_size=1, invisible_ms=10_000, client_id="c1")
    assert len(driver.call(pop=pop).pop.messages) == 1
    driver.gone("c1")
    driver.advance(9_000)
    driver.alive("c1")
    assert driver.pop() == []
    driver.advance(1_000)
    assert len(driver.pop()) == 1
