"""`popmq explain` in staged cases: a real broker on a clock that is moved, asked through a proxy.

docs/explain.md has the same cases as a table; a test compares the two.
"""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from harness.broker import EngineDriver
from harness.names import GROUP, TOPIC
from harness.proxy import ProxyDriver

from popmq_admin.v1 import admin_pb2 as admin
from popmq_common import properties
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.core.verdict import State

ROOT = Path(__file__).resolve().parents[2]


class Case(NamedTuple):
    """What is staged, and what is said of the message id-a."""

    stage: Callable[[EngineDriver], None]
    state: State
    visible: bool
    says: str
    group: str = ""
    """Asked for by name."""


def new_group(driver: EngineDriver, name: str, start: str = "FIRST", *, fifo: bool = False) -> None:
    config = link.GroupConfig(name=name, max_attempts=16, consume_from=start, fifo=fifo)
    driver.call(put_group=link.PutGroup(group=config))


def fifo_group(driver: EngineDriver) -> None:
    driver.call(delete_group=link.DeleteGroup(group=GROUP))
    new_group(driver, GROUP, fifo=True)


def begin(driver: EngineDriver) -> None:
    """The group has received of the topic before."""
    driver.send("before")
    driver.ack(*(one.handle for one in driver.pop()))


def ready(driver: EngineDriver) -> None:
    begin(driver)
    driver.send("a")


def behind(driver: EngineDriver) -> None:
    begin(driver)
    for body in ("1", "2", "3"):
        driver.call(**driver.send_body(body, queue_id=0))
    driver.call(**driver.send_body("a", queue_id=0))


def leased(driver: EngineDriver) -> None:
    driver.send("a")
    driver.pop(invisible_ms=30_000)


def renewed(driver: EngineDriver) -> None:
    driver.send("a")
    driver.pop(renewed_by="host@7")


def nacked(driver: EngineDriver) -> None:
    driver.send("a")
    driver.nack(driver.pop()[0].handle, delay_ms=60_000, reason="database is down")


def retried(driver: EngineDriver) -> None:
    driver.send("a")
    driver.pop(invisible_ms=10_000)
    driver.advance(10_001)


def acked(driver: EngineDriver) -> None:
    driver.send("a")
    driver.ack(driver.pop()[0].handle)
    driver.restart()  # the broker's memory does not know, its journal does


def dead(driver: EngineDriver) -> None:
    driver.send("a")
    driver.nack(driver.pop()[0].handle, kind=link.NACK_KIND_FATAL, reason="not an order")


def redriven(driver: EngineDriver) -> None:
    dead(driver)
    driver.redrive()


def redriven_alone(driver: EngineDriver) -> None:
    dead(driver)
    driver.redrive(to_topic=False)


def purged(driver: EngineDriver) -> None:
    dead(driver)
    driver.purge()


def blocked(driver: EngineDriver) -> None:
    fifo_group(driver)
    driver.send("first", message_group="m")
    driver.send("a", message_group="m")
    driver.pop(count=1)


def filtered(driver: EngineDriver) -> None:
    driver.send("a", tag="old")
    driver.pop(expression="new || newer")


def filtered_by_sql(driver: EngineDriver) -> None:
    driver.send("a")
    driver.pop(sql="colour = 'red'")


def before_start(driver: EngineDriver) -> None:
    driver.call(delete_group=link.DeleteGroup(group=GROUP))
    new_group(driver, GROUP, "LAST")
    driver.send("a")
    driver.pop()


def reset_past(driver: EngineDriver) -> None:
    begin(driver)
    driver.send("a")
    reset = link.ResetOffsets(group=GROUP, topic=TOPIC, at=link.OFFSET_AT_MAX)
    driver.call(reset_offsets=reset)


def delayed(driver: EngineDriver) -> None:
    driver.send_later("a", 3_600_000)


def recalled(driver: EngineDriver) -> None:
    driver.recall("a", driver.send_later("a", 3_600_000))


def came_in_time(driver: EngineDriver) -> None:
    begin(driver)
    driver.send_later("a", 60_000)
    driver.advance(60_000)


def half(driver: EngineDriver) -> None:
    driver.half("a")
    driver.clock.advance(10_000)
    driver.poll_checks()


def rolled_back(driver: EngineDriver) -> None:
    driver.end(driver.half("a"), commit=False)


def committed(driver: EngineDriver) -> None:
    begin(driver)
    driver.end(driver.half("a"), commit=True)


def given_up(driver: EngineDriver) -> None:
    driver.half("a")
    driver.advance(73 * 3_600_000)


def no_group(driver: EngineDriver) -> None:
    driver.send("a")


def unread(driver: EngineDriver) -> None:
    driver.send("a")


def expired(driver: EngineDriver) -> None:
    begin(driver)
    driver.send("a")
    for number in range(60):  # the log's first file is full, and old
        driver.send(f"m{number}")
    driver.clock.advance(49 * 3_600_000)
    driver.send("young")
    assert driver.retain() > 0


def unknown(driver: EngineDriver) -> None:
    driver.send("another")


def after_a_crash(driver: EngineDriver) -> None:
    nacked(driver)
    driver.crash(random.Random(1))


CASES = {
    "it can be received": Case(ready, State.READY, True, "may get it"),
    "others of its queue come first": Case(behind, State.BEHIND, False, "3 messages of its queue"),
    "a consumer holds it": Case(leased, State.LEASED, False, "attempt 1 of 16, lease 1"),
    "a client that lives holds it": Case(renewed, State.LEASED, False, "client host@7"),
    "it waits for its retry": Case(nacked, State.RETRY_WAIT, False, "database is down"),
    "its time ran out": Case(retried, State.READY, True, "may get it"),
    "it was acked, before a restart": Case(acked, State.ACKED, False, "acked it at"),
    "a dead letter": Case(dead, State.DEAD, False, "after 1 attempts: not an order"),
    "a dead letter that was sent again": Case(redriven, State.READY, True, "may get it"),
    "a dead letter that was sent again to its group alone": Case(
        redriven_alone, State.READY, True, "may get it"
    ),
    "a dead letter that was purged": Case(purged, State.EXPIRED, False, "it was purged since"),
    "an earlier one of its message group is held": Case(
        blocked, State.BLOCKED, False, "id-first before it is held until"
    ),
    "its tag is not asked for": Case(filtered, State.FILTERED, False, "tag new || newer"),
    "the SQL filter says no": Case(filtered_by_sql, State.FILTERED, False, "SQL colour = 'red'"),
    "the group began after it": Case(before_start, State.SKIPPED, False, "began behind it or"),
    "the group was reset past it": Case(reset_past, State.SKIPPED, False, "was reset past it, at"),
    "it waits for its time": Case(delayed, State.DELAYED, False, "waits for its time"),
    "it was recalled": Case(recalled, State.RECALLED, False, "recalled before its time"),
    "its time has come": Case(came_in_time, State.READY, True, "may get it"),
    "its transaction is open": Case(half, State.HALF, False, "asked 1 times"),
    "its transaction was rolled back": Case(rolled_back, State.ROLLED_BACK, False, "rolled back"),
    "its transaction was committed": Case(committed, State.READY, True, "may get it"),
    "its transaction was given up": Case(given_up, State.GIVEN_UP, False, "no producer settled"),
    "no such group": Case(no_group, State.NO_GROUP, False, "does not exist", group="nobody"),
    "nobody has received of the topic": Case(unread, State.UNREAD, False, "no group has received"),
    "retention has deleted it": Case(expired, State.EXPIRED, False, "retention has deleted it"),
    "no such message": Case(unknown, State.UNKNOWN, False, "no message has the id id-a"),
    "after a crash": Case(after_a_crash, State.RETRY_WAIT, False, "database is down"),
}


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
        assert (State(verdict.state), verdict.visible) == (case.state, case.visible), verdict
        assert case.says in verdict.text
        assert response.found == (case.state is not State.UNKNOWN)
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


def test_a_send_that_was_repeated_is_told(driver: EngineDriver) -> None:
    driver.send("a")
    driver.send("a")
    assert "2 messages have this id" in " ".join(explain(driver).notes)


def test_a_settled_message_of_a_forgotten_journal(driver: EngineDriver) -> None:
    """What the broker does not know any more it says."""
    driver.send("a", more={properties.KEYS: "k"})
    driver.ack(driver.pop()[0].handle)
    driver.restart()
    topic = driver.broker.state.revive_topic
    entries = driver.broker.state.store.entries

    def forgotten(name: str, *place: int) -> object:
        return [] if name == topic else entries(name, *place)

    driver.broker.state.store.entries = forgotten  # type: ignore[method-assign, assignment]
    (verdict,) = explain(driver).verdicts
    assert verdict.state == "settled"
    assert "before what the broker remembers" in verdict.text
