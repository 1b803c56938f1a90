"""A broker's /metrics: bounded, complete, and adding up."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness.broker import EngineDriver
from harness.names import GROUP, TOPIC
from prometheus_client.core import Metric
from sim.world import conserved

from popmq_broker import metric_table
from popmq_broker.metrics import BrokerCollector
from popmq_common.metrics.metric_rows import OTHER
from popmq_internal.v1 import link_pb2 as link

ROWS_MAX = 20
TOPICS = 10_000


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[EngineDriver]:
    driver = EngineDriver(tmp_path, metric_rows_max=ROWS_MAX)
    driver.make()
    yield driver
    driver.close()


def page(collector: BrokerCollector) -> dict[str, Metric]:
    return {family.name: family for family in collector.collect()}


def test_ten_thousand_topics_are_a_bounded_number_of_series(driver: EngineDriver) -> None:
    stats = driver.broker.state.runtime.stats
    for i in range(TOPICS):
        stats.sent[f"t{i}"] = 2
        stats.popped[f"t{i}", f"g{i}"] = 1
        stats.acked[f"t{i}", f"g{i}", "done"] = 1
    collector = BrokerCollector(driver.broker)
    for _ in range(2):
        found = page(collector)
        series = sum(len(family.samples) for family in found.values())
        fixed = 300  # histograms and what has no topic or group
        assert series <= 30 * (ROWS_MAX + 1) + fixed
        sent = found["popmq_messages_in"].samples
        assert len(sent) == ROWS_MAX + 1
        assert sum(sample.value for sample in sent) == 2 * TOPICS
        (other,) = [sample for sample in sent if sample.labels["topic"] == OTHER]
        assert other.value == 2 * (TOPICS - ROWS_MAX)
        told = found["popmq_metric_rows_together"].samples
        together = {sample.labels["kind"]: sample.value for sample in told}
        assert together["topic"] == TOPICS - ROWS_MAX
        assert together["topic and group"] >= TOPICS - ROWS_MAX


def test_what_is_told_together_adds_up_too(driver: EngineDriver) -> None:
    for i in range(ROWS_MAX + 10):
        group = link.GroupConfig(name=f"g{i}", max_attempts=2, consume_from="FIRST")
        driver.call(put_group=link.PutGroup(group=group))
    driver.send("a")
    driver.send("b")
    for i in range(ROWS_MAX + 10):
        pop = link.Pop(group=f"g{i}", topic=TOPIC, batch_size=1, invisible_ms=10_000)
        driver.call(pop=pop)
    families = list(BrokerCollector(driver.broker).collect())
    conserved(families)
    (stored,) = [one for one in families if one.name == metric_table.STORED.name]
    assert {sample.labels["consumer_group"] for sample in stored.samples} > {OTHER}
    assert sum(sample.value for sample in stored.samples) == 2 * (ROWS_MAX + 10)


def test_every_figure_of_the_table_is_served_and_no_other(driver: EngineDriver) -> None:
    found = page(BrokerCollector(driver.broker))
    of_replicas = {one.name for one in metric_table.OF_REPLICAS}
    table = {one.name: one for one in metric_table.ALL if one.name not in of_replicas}
    assert found.keys() == table.keys()
    for name, family in found.items():
        assert (family.type, family.documentation) == (table[name].kind, table[name].text)


def test_a_message_that_was_given_back_is_delayed_and_not_in_flight(driver: EngineDriver) -> None:
    driver.send("a")
    driver.send("b")
    messages = driver.pop()
    driver.nack(messages[0].handle, delay_ms=60_000)
    found = page(BrokerCollector(driver.broker))

    def value(name: str) -> Any:
        return sum(sample.value for sample in found[f"popmq_consumer_{name}_messages"].samples)

    assert (value("inflight"), value("delayed"), value("lag")) == (1, 1, 2)


def samples(driver: EngineDriver, name: str) -> dict[tuple[str, ...], float]:
    """The values of a counter or gauge by its labels."""
    family = page(BrokerCollector(driver.broker))[name]
    return {tuple(sample.labels.values()): sample.value for sample in family.samples}


def test_the_first_dead_letter_is_a_rise_from_zero(driver: EngineDriver) -> None:
    """A series that is born at 1 has not risen: Prometheus's `increase` would not see it."""
    assert samples(driver, "popmq_dead_letter_messages") == {(GROUP,): 0}
    driver.send("a")
    (message,) = driver.pop()
    assert samples(driver, "popmq_send_to_dlq_messages") == {(TOPIC, GROUP): 0}
    driver.nack(message.handle, kind=link.NACK_KIND_FATAL)
    assert samples(driver, "popmq_send_to_dlq_messages") == {(TOPIC, GROUP): 1}
    assert samples(driver, "popmq_dead_letter_messages") == {(GROUP,): 1}


def test_the_first_dead_letter_of_a_group_that_pulls_is_a_rise_from_zero(
    driver: EngineDriver,
) -> None:
    driver.broker.state.runtime.stats.sent_back[TOPIC, GROUP] = 1
    assert samples(driver, "popmq_send_to_dlq_messages") == {(TOPIC, GROUP): 0}


def test_the_first_transaction_that_is_given_up_is_a_rise_from_zero(driver: EngineDriver) -> None:
    assert samples(driver, "popmq_transactions") == {}
    driver.half("a")
    none = {(TOPIC, outcome): 0 for outcome in ("committed", "rolled back", "given up")}
    assert samples(driver, "popmq_transactions") == none
    placed = link.TopicConfig(
        name="placed", read_queues=1, write_queues=1, message_type="TRANSACTION"
    )
    driver.call(put_topic=link.PutTopic(topic=placed))
    assert samples(driver, "popmq_transactions")["placed", "given up"] == 0


def test_zeros_stay_when_other_outcomes_are_counted(driver: EngineDriver) -> None:
    driver.end(driver.half("a"), commit=True)
    found = samples(driver, "popmq_transactions")
    assert found == {(TOPIC, "committed"): 1, (TOPIC, "rolled back"): 0, (TOPIC, "given up"): 0}
