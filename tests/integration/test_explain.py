"""`popmq explain` in staged cases: a real broker on a clock that is moved, asked through a proxy.

docs/explain.md has the same cases as a table; a test compares the two.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.broker import EngineDriver
from harness.broker_calls import send_body
from harness.names import GROUP, TOPIC
from harness.proxy import ProxyDriver
from integration.explain_cases import CASES, dead, new_group, redriven_alone

from popmq_admin.v1 import admin_pb2 as admin
from popmq_common.records import properties
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.core.explain.verdict import VerdictState

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[EngineDriver]:
    driver = EngineDriver(tmp_path)
    driver.make(queues=1)
    yield driver
    driver.close()


def explain(driver: EngineDriver, message_id: str = "id-a", **fields: str) -> admin.ExplainResponse:
    proxy = ProxyDriver(driver)
    request = admin.ExplainRequest(message_id=message_id, **fields)
    response: admin.ExplainResponse = proxy.run_method(proxy.methods.explain.explain, request)
    return response


@pytest.mark.parametrize("name", CASES)
def test_the_reason(driver: EngineDriver, name: str) -> None:
    case = CASES[name]
    case.stage(driver)
    for topic in ("", TOPIC):  # found in any topic, and when it is named
        response = explain(driver, topic=topic, group=case.group)
        (verdict,) = response.verdicts
        assert (VerdictState(verdict.state), verdict.visible) == (case.state, case.visible), verdict
        assert case.says in verdict.text
        assert response.found == (case.state is not VerdictState.UNKNOWN)
        assert verdict.group == case.group or not case.group


def test_the_table_in_the_docs_has_these_cases() -> None:
    text = (ROOT / "docs" / "explain.md").read_text()
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| ")]
    told = {row[1].strip(): (row[2].strip(), row[3].strip()) for row in rows}
    for name, case in CASES.items():
        assert told[name] == (f"`{case.state}`", "yes" if case.visible else "no"), name


def test_a_timeline_tells_what_happened_in_order(driver: EngineDriver) -> None:
    driver.send("a")
    driver.clock.advance(1_000)
    driver.nack(driver.pop()[0].handle, delay_ms=5_000, reason="busy")
    driver.advance(5_000)
    (again,) = driver.pop(invisible_ms=10_000)
    driver.change(again.handle, 20_000)
    driver.advance(20_000)
    driver.clock.advance(1_000)
    driver.ack(driver.pop()[0].handle)
    response = explain(driver)
    kinds = [event.kind for event in response.timeline]
    assert [kind for kind in kinds if kind not in ("ended",)] == [
        "sent",
        "delivered-to",
        "nacked",
        "retry",
        "delivered-to",
        "changed",
        "retry",
        "delivered-to",
        "acked",
    ]
    times = [event.at_ms for event in response.timeline]
    assert times == sorted(times)
    texts = " ".join(event.text for event in response.timeline)
    assert "attempt 3" in texts
    assert "busy" in texts


def test_a_second_life_is_told(driver: EngineDriver) -> None:
    dead(driver)
    assert "sent again" not in " ".join(event.text for event in explain(driver).timeline)
    driver.redrive()
    events = {event.kind: event.text for event in explain(driver).timeline}
    assert "it was sent again since" in events["dead"]
    assert f"sent again from %DLQ%{GROUP}@0 to topic t, queue 0" in events["redriven"]


def test_a_second_life_in_one_group_alone_is_told(driver: EngineDriver) -> None:
    redriven_alone(driver)
    events = {event.kind: event.text for event in explain(driver).timeline}
    assert f"sent again from %DLQ%{GROUP}@0 to group {GROUP} alone" in events["redriven"]


def test_each_group_has_its_own_answer(driver: EngineDriver) -> None:
    new_group(driver, "other")
    driver.send("a")
    driver.pop()
    request = link.Pop(group="other", topic=TOPIC, batch_size=1, invisible_ms=10_000)
    handle = driver.call(pop=request).pop.messages[0].handle
    driver.call(ack=link.Ack(group="other", topic=TOPIC, handles=[handle]))
    states = {verdict.group: verdict.state for verdict in explain(driver).verdicts}
    assert states == {GROUP: "leased", "other": "acked"}
    assert [one.group for one in explain(driver, group="other").verdicts] == ["other"]


def test_two_brokers_are_both_asked(driver: EngineDriver, tmp_path: Path) -> None:
    other = EngineDriver(tmp_path / "b", like=driver, name="broker-b")
    other.make(queues=1)
    other.send("a")
    proxy = ProxyDriver(driver, other)
    request = admin.ExplainRequest(message_id="id-a")
    response = proxy.run_method(proxy.methods.explain.explain, request)
    assert [(one.broker, one.state) for one in response.verdicts] == [("broker-b", "unread")]
    other.close()


def test_a_message_in_a_queue_that_is_too_many(driver: EngineDriver) -> None:
    """It is received all the same, and nobody wonders why nothing comes behind it."""
    driver.make(queues=3)
    driver.call(**send_body("a", queue_id=2))
    assert explain(driver).notes == []
    driver.make(queues=1)
    response = explain(driver)
    assert response.notes == [
        "broker-a: queue 2 of topic t takes no more messages, for the topic has 1 queue now; what "
        "is in it is delivered until retention deletes it"
    ]
    assert [verdict.state for verdict in response.verdicts] == ["unread"]


def test_a_send_that_was_repeated_is_told(driver: EngineDriver) -> None:
    driver.send("a")
    driver.send("a")
    assert "2 messages have this id" in " ".join(explain(driver).notes)


def test_a_settled_message_of_a_forgotten_journal(driver: EngineDriver) -> None:
    """What the broker does not know any more it says."""
    driver.send("a", more={properties.KEYS: "k"})
    driver.ack(driver.pop()[0].handle)
    driver.restart()
    topic = driver.broker.state.runtime.revive_topic
    entries = driver.broker.state.runtime.store.entries

    def forgotten(name: str, *place: int) -> object:
        return [] if name == topic else entries(name, *place)

    driver.broker.state.runtime.store.entries = forgotten  # type: ignore[method-assign, assignment]
    (verdict,) = explain(driver).verdicts
    assert verdict.state == "settled"
    assert "before what the broker remembers" in verdict.text
