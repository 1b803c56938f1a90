"""What `popmq explain` is asked about: a broker is brought there, and what must be said of id-a."""

import random
from collections.abc import Callable
from typing import NamedTuple

from harness.broker import EngineDriver
from harness.broker_calls import send_body
from harness.names import GROUP, TOPIC

from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.core.explain.verdict import VerdictState


class Case(NamedTuple):
    """What is staged, and what is said of the message id-a."""

    stage: Callable[[EngineDriver], None]
    state: VerdictState
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
        driver.call(**send_body(body, queue_id=0))
    driver.call(**send_body("a", queue_id=0))


def leased(driver: EngineDriver) -> None:
    driver.send("a")
    driver.pop(invisible_ms=30_000)


def renewed(driver: EngineDriver) -> None:
    driver.send("a")
    driver.pop(renewed_by="host@7")


def nacked(driver: EngineDriver) -> None:
    driver.send("a")
    driver.nack(driver.pop()[0].handle, delay_ms=60_000, reason="database is down")


def given_back_often(driver: EngineDriver) -> None:
    driver.send("a")
    for _ in range(3):
        driver.advance(5_000)
        driver.nack(driver.pop()[0].handle, kind=link.NACK_KIND_UNCOUNTED, delay_ms=5_000)


def given_back_often_in_order(driver: EngineDriver) -> None:
    fifo_group(driver)
    driver.send("a", message_group="m")
    for _ in range(2):
        driver.nack(driver.pop()[0].handle, kind=link.NACK_KIND_UNCOUNTED, delay_ms=5_000)
        driver.advance(5_000)


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
    at_ms = driver.clock.now_ms()  # as a proxy has it done before the group's first receive
    driver.call(fix_start=link.FixStart(group=GROUP, topic=TOPIC, at_ms=at_ms, is_now=True))
    driver.pop()


def started_at_a_pop(driver: EngineDriver) -> None:
    """For a proxy of an older version: each queue starts at the group's first pop of it."""
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
    "it can be received": Case(ready, VerdictState.READY, True, "may get it"),
    "others of its queue come first": Case(
        behind, VerdictState.BEHIND, False, "3 messages of its queue"
    ),
    "a consumer holds it": Case(leased, VerdictState.LEASED, False, "attempt 1 of 16, lease 1"),
    "a client that lives holds it": Case(renewed, VerdictState.LEASED, False, "client host@7"),
    "it waits for its retry": Case(nacked, VerdictState.RETRY_WAIT, False, "database is down"),
    "it is given back uncounted, repeatedly": Case(
        given_back_often,
        VerdictState.RETRY_WAIT,
        False,
        "not counted, handed out 3 times of at most 1000",
    ),
    "the same in a FIFO group": Case(
        given_back_often_in_order, VerdictState.READY, True, "handed out 2 times of at most 1000"
    ),
    "its time ran out": Case(retried, VerdictState.READY, True, "may get it"),
    "it was acked, before a restart": Case(acked, VerdictState.ACKED, False, "acked it at"),
    "a dead letter": Case(dead, VerdictState.DEAD, False, "after 1 attempt: not an order"),
    "a dead letter that was sent again": Case(redriven, VerdictState.READY, True, "may get it"),
    "a dead letter that was sent again to its group alone": Case(
        redriven_alone, VerdictState.READY, True, "may get it"
    ),
    "a dead letter that was purged": Case(
        purged, VerdictState.EXPIRED, False, "it was purged since"
    ),
    "an earlier one of its message group is held": Case(
        blocked, VerdictState.BLOCKED, False, "id-first before it is held until"
    ),
    "its tag is not asked for": Case(filtered, VerdictState.FILTERED, False, "tag new || newer"),
    "the SQL filter says no": Case(
        filtered_by_sql, VerdictState.FILTERED, False, "SQL colour = 'red'"
    ),
    "the group began after it": Case(
        before_start, VerdictState.SKIPPED, False, "started behind it, at"
    ),
    "the group began after it, by an older proxy": Case(
        started_at_a_pop, VerdictState.SKIPPED, False, "started behind it or was reset past it, at"
    ),
    "the group was reset past it": Case(
        reset_past, VerdictState.SKIPPED, False, "was reset past it, at"
    ),
    "it waits for its time": Case(delayed, VerdictState.DELAYED, False, "waits for its time"),
    "it was recalled": Case(recalled, VerdictState.RECALLED, False, "recalled before its time"),
    "its time has come": Case(came_in_time, VerdictState.READY, True, "may get it"),
    "its transaction is open": Case(half, VerdictState.HALF, False, "asked 1 time,"),
    "its transaction was rolled back": Case(
        rolled_back, VerdictState.ROLLED_BACK, False, "rolled back"
    ),
    "its transaction was committed": Case(committed, VerdictState.READY, True, "may get it"),
    "its transaction was given up": Case(
        given_up, VerdictState.GIVEN_UP, False, "no producer settled"
    ),
    "no such group": Case(no_group, VerdictState.NO_GROUP, False, "does not exist", group="nobody"),
    "nobody has received of the topic": Case(
        unread, VerdictState.UNREAD, False, "no group has received"
    ),
    "retention has deleted it": Case(
        expired, VerdictState.EXPIRED, False, "retention has deleted it"
    ),
    "no such message": Case(unknown, VerdictState.UNKNOWN, False, "no message has the id id-a"),
    "after a crash": Case(after_a_crash, VerdictState.RETRY_WAIT, False, "database is down"),
}
