"""Faults of attempts against a group's settings: too many deliveries, dead letters too early."""

from planted.order import RETRY, fails_once
from planted.planting import Expected, Fault, Planting, Row, Tenant
from popmq_common.records import properties
from popmq_internal.v1 import link_pb2 as link

ABOVE = "attempts above the maximum"
EARLY = "dead letter too early"


def put(one: Tenant, **settings: int) -> None:
    """The group's settings anew."""
    group = link.GroupConfig(
        name=one.group,
        fifo=one.fifo,
        consume_from="FIRST",
        max_attempts=settings.get("max_attempts", one.max_attempts),
        max_hand_outs=settings.get("max_hand_outs"),
    )
    one.driver.call(put_group=link.PutGroup(group=group))


def fails(one: Tenant, times: int) -> None:
    """Its time runs out so often."""
    one.send()
    for _ in range(times):
        one.pop(1, 1_000)
        one.driver.advance(2_000)


def fails_twice(one: Tenant) -> None:
    fails(one, 2)
    one.take()


def fails_in_place(one: Tenant) -> None:
    fails(one, one.max_attempts)


def given_back(one: Tenant) -> None:
    put(one, max_hand_outs=5)
    one.send()
    one.nack(one.pop(), link.NACK_KIND_UNCOUNTED)
    one.driver.advance(1_000)
    one.take()


def given_back_until_dead(one: Tenant) -> None:
    put(one, max_hand_outs=2)
    one.send()
    for _ in range(2):
        one.nack(one.pop(), link.NACK_KIND_UNCOUNTED)
        one.driver.advance(1_000)


def rejected(one: Tenant) -> None:
    one.send()
    one.nack(one.pop(), link.NACK_KIND_FATAL)


def lowered(one: Tenant) -> None:
    """It may come five times; then only two."""
    fails(one, 1)
    put(one, max_attempts=2)
    one.pop(1, 1_000)
    one.driver.advance(2_000)


def settings(rows: Planting, one: Tenant) -> list[Row]:
    return rows.rows("group_settings", consumer_group=one.group)


def maximum_one(rows: Planting, one: Tenant) -> None:
    settings(rows, one)[-1]["max_attempts"] = 1


def maximum_two(rows: Planting, one: Tenant) -> None:
    settings(rows, one)[-1]["max_attempts"] = 2


def maximum_more(rows: Planting, one: Tenant) -> None:
    settings(rows, one)[-1]["max_attempts"] += 1


def ceiling_one(rows: Planting, one: Tenant) -> None:
    settings(rows, one)[-1]["max_hand_outs"] = 1


def ceiling_more(rows: Planting, one: Tenant) -> None:
    settings(rows, one)[-1]["max_hand_outs"] += 1


def change_gone(rows: Planting, one: Tenant) -> None:
    last = settings(rows, one)[-1]
    rows.drop("group_settings", log_offset=last["log_offset"])


def says_attempts(rows: Planting, one: Tenant) -> None:
    """That its consumer rejected it is no longer told."""
    (row,) = rows.rows("commitlog_index", topic=f"%DLQ%{one.group}")
    cause = f"{properties.DLQ_CAUSE}{properties.NAME_END}"
    assert f"{cause}rejected" in row["more_properties"]
    row["more_properties"] = row["more_properties"].replace(f"{cause}rejected", f"{cause}attempts")


FAULTS = (
    Fault(
        "maximum-copy",
        "a message redelivered after its last attempt",
        fails_twice,
        maximum_two,
        (Expected(ABOVE, 0, topic=RETRY),),
        max_attempts=5,
    ),
    Fault(
        "maximum-fifo",
        "a FIFO group's message redelivered after its last attempt",
        fails_once,
        maximum_one,
        (Expected(ABOVE, 0),),
        fifo=True,
        max_attempts=5,
    ),
    Fault(
        "maximum-uncounted",
        "a message redelivered after its last delivery, uncounted",
        given_back,
        ceiling_one,
        (Expected(ABOVE, 0),),
    ),
    Fault(
        "early-attempts",
        "a dead letter that had an attempt left",
        fails_in_place,
        maximum_more,
        (Expected(EARLY, 0, topic=RETRY),),
    ),
    Fault(
        "early-fifo",
        "a FIFO group's dead letter that had an attempt left",
        fails_in_place,
        maximum_more,
        (Expected(EARLY, 0),),
        fifo=True,
    ),
    Fault(
        "early-deliveries",
        "a dead letter that had a delivery left",
        given_back_until_dead,
        ceiling_more,
        (Expected(EARLY, 0, topic=RETRY),),
        max_attempts=5,
    ),
    Fault(
        "early-rejected",
        "a dead letter that nobody rejected",
        rejected,
        says_attempts,
        (Expected(EARLY, 0),),
    ),
    Fault(
        "early-lowered",
        "a maximum that was lowered, and no record of it",
        lowered,
        change_gone,
        (Expected(EARLY, 0, topic=RETRY),),
        max_attempts=5,
    ),
)
