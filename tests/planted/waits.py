"""Faults of what waits: delayed messages, half messages, dead letters that are sent again."""

from collections.abc import Callable
from dataclasses import replace

from planted.planting import Expected, Fault, Planting, Tenant
from popmq_common.records.names import (
    HALF_TOPIC,
    TIMER_TOPIC,
)

DEAD = "%DLQ%{group}"
Live = Callable[[Tenant], object]
Plant = Callable[[Planting, Tenant], object]


def delayed(one: Tenant) -> None:
    one.send_later(5_000)
    one.driver.advance(6_000)


def recalled(one: Tenant) -> None:
    one.recall(one.send_later(3_600_000))


def committed(one: Tenant) -> None:
    one.end(one.half())


def rolled_back(one: Tenant) -> None:
    one.end(one.half(), commit=False)


def unsettled(one: Tenant) -> None:
    one.half()


def redriven(one: Tenant) -> None:
    one.send()
    one.nack(one.pop(), 3)
    one.redrive()


def wait_of(rows: Planting, one: Tenant) -> dict[str, int]:
    (row,) = rows.rows("timer_index", real_topic=one.topic, kind="parked")
    return row


def end_of(rows: Planting, one: Tenant) -> dict[str, object]:
    (row,) = rows.rows("timer_ends", ended_offset=wait_of(rows, one)["queue_offset"], level=None)
    return row


def due_later(rows: Planting, one: Tenant) -> None:
    wait_of(rows, one)["due_ms"] += 10_000


def delivered_again(rows: Planting, one: Tenant) -> None:
    rows.add("timer_ends", end_of(rows, one))


def never_delivered(rows: Planting, one: Tenant) -> None:
    rows.drop("timer_ends", log_offset=end_of(rows, one)["log_offset"])


def delivered_too(rows: Planting, one: Tenant) -> None:
    rows.add("timer_ends", end_of(rows, one), kind="delivered")


def rolled_too(rows: Planting, one: Tenant) -> None:
    rows.add("timer_ends", end_of(rows, one), kind="rolled")


def half_of(rows: Planting, one: Tenant) -> dict[str, int]:
    (row,) = rows.rows("half_messages", real_topic=one.topic)
    return row


def op_of(rows: Planting, one: Tenant) -> dict[str, object]:
    (row,) = rows.rows("half_ends", half_offset=half_of(rows, one)["queue_offset"])
    return row


def committed_again(rows: Planting, one: Tenant) -> None:
    rows.add("half_ends", op_of(rows, one))


def rolled_back_too(rows: Planting, one: Tenant) -> None:
    rows.add("half_ends", op_of(rows, one), outcome="rolled back")


def given_up_too(rows: Planting, one: Tenant) -> None:
    rows.add("half_ends", op_of(rows, one), outcome="given up")


def says_committed(rows: Planting, one: Tenant) -> None:
    op_of(rows, one)["outcome"] = "committed"


def says_rolled_back(rows: Planting, one: Tenant) -> None:
    op_of(rows, one)["outcome"] = "rolled back"


def long_ago(rows: Planting, one: Tenant) -> None:
    half_of(rows, one)["store_timestamp_ms"] -= 74 * 3_600_000


def redriven_again(rows: Planting, one: Tenant) -> None:
    (mark,) = rows.rows("redrives", consumer_group=one.group)
    rows.add("redrives", mark)


def mark_is_out(rows: Planting, one: Tenant) -> None:
    rows.drop("redrives", consumer_group=one.group)


def of_another(rows: Planting, one: Tenant) -> None:
    """The message is of the dead letter 7, its mark of 0."""
    for row in rows.rows("commitlog_index", topic=one.topic):
        if "__REDRIVE_OF" in (row["more_properties"] or ""):
            row["more_properties"] = row["more_properties"].replace("@0", "@7")


class Offsets:
    """Where the tenants' records lie in the topics that they share; by the order of FAULTS."""

    timers = iter(range(100))
    halves = iter(range(100))


def timer(name: str, says: str, live: Live, plant: Plant, kind: str) -> Fault:
    at = Expected(kind, next(Offsets.timers), topic=TIMER_TOPIC)
    if live is recalled:  # the mark lies there too
        next(Offsets.timers)
    early = (replace(at, kind="delivered early"),) if plant is delivered_too else ()
    return Fault(name, says, live, plant, (at, *early))


def half(name: str, says: str, live: Live, plant: Plant, kind: str) -> Fault:
    at = next(Offsets.halves)
    lone = kind == "commit without end"
    expected = Expected(kind, 0) if lone else Expected(kind, at, topic=HALF_TOPIC)
    return Fault(name, says, live, plant, (expected,))


FAULTS = (
    timer(
        "timer-early",
        "a delayed message that came before its time",
        delayed,
        due_later,
        "delivered early",
    ),
    timer(
        "timer-twice",
        "a delayed message that came twice",
        delayed,
        delivered_again,
        "delivered twice",
    ),
    timer(
        "timer-never",
        "a delayed message that never came",
        delayed,
        never_delivered,
        "timer overdue",
    ),
    timer(
        "timer-recalled",
        "a recalled message that came",
        recalled,
        delivered_too,
        "recalled and delivered",
    ),
    timer(
        "timer-rolled",
        "a wait that was written again and ended",
        recalled,
        rolled_too,
        "wait ended twice",
    ),
    half(
        "half-twice",
        "a transaction that was committed twice",
        committed,
        committed_again,
        "committed twice",
    ),
    half(
        "half-both",
        "a transaction that was committed and rolled back",
        committed,
        rolled_back_too,
        "committed and rolled back",
    ),
    half(
        "half-given-up",
        "a transaction that was rolled back and given up",
        rolled_back,
        given_up_too,
        "settled twice",
    ),
    half(
        "half-empty",
        "a commit without its message",
        rolled_back,
        says_committed,
        "end without commit",
    ),
    half(
        "half-lone",
        "a message of a transaction that was rolled back",
        committed,
        says_rolled_back,
        "commit without end",
    ),
    half(
        "half-never",
        "a transaction that nobody settled",
        unsettled,
        long_ago,
        "transaction unsettled",
    ),
    Fault(
        "redrive-twice",
        "a dead letter that was sent again twice",
        redriven,
        redriven_again,
        (Expected("redriven twice", 0, topic=DEAD),),
    ),
    Fault(
        "redrive-no-mark",
        "a dead letter sent again without a mark",
        redriven,
        mark_is_out,
        (Expected("message without mark", 1),),
    ),
    Fault(
        "redrive-no-message",
        "a mark of a dead letter that was not sent",
        redriven,
        of_another,
        (Expected("mark without message", 0, topic=DEAD),),
    ),
)
