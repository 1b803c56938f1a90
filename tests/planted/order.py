"""Faults of order and attempts: FIFO groups, copies, dead letters."""

from planted.planting import Expected, Fault, Planting, Row, Tenant


def one_by_one(one: Tenant) -> None:
    """Three messages of one message group, each handed out by a pop of its own."""
    for _ in range(3):
        one.send(message_group="g")
    for _ in range(3):
        one.take(1)


def fails_once(one: Tenant) -> None:
    """The first fails and comes again; then the second."""
    one.send(2, message_group="g")
    one.nack(one.pop(1))
    one.driver.advance(20_000)
    one.take(1)
    one.take(1)


def retried(one: Tenant) -> None:
    one.send()
    one.pop(1, 1_000)
    one.driver.advance(2_000)
    one.take()


def dies(one: Tenant) -> None:
    one.send()
    for _ in range(2):
        one.pop(1, 1_000)
        one.driver.advance(2_000)


def leases(rows: Planting, one: Tenant) -> list[Row]:
    return rows.rows("pop_checkpoints", **one.queue)


def swap(rows: Planting, one: Tenant) -> None:
    """The second and third change their places, in checkpoints and acks."""
    for table in ("pop_checkpoints", "pop_acks"):
        for row in rows.rows(table, **one.queue):
            row["queue_offset"] = {0: 0, 1: 2, 2: 1}[row["queue_offset"]]


def ack_comes_late(rows: Planting, one: Tenant) -> None:
    """The records of the first ack and of the second lease change their places."""
    (ack,) = rows.rows("pop_acks", **one.queue, queue_offset=0)
    (lease,) = rows.rows("pop_checkpoints", **one.queue, queue_offset=1)
    at, then = ack["log_offset"], lease["log_offset"]
    for table in ("commitlog_index", "pop_acks", "pop_checkpoints", "revive_log"):
        for row in rows.tables[table]:
            if row["log_offset"] in (at, then) and table != "commitlog_index":
                row["log_offset"] = then if row["log_offset"] == at else at
    (first,) = rows.rows("commitlog_index", log_offset=at)
    (second,) = rows.rows("commitlog_index", log_offset=then)
    first["tags"], second["tags"] = second["tags"], first["tags"]


def attempt_three(rows: Planting, one: Tenant) -> None:
    last = [row for row in leases(rows, one) if row["queue_offset"] == 0][-1]
    last["attempt"] = 4


def attempt_back(rows: Planting, one: Tenant) -> None:
    last = [row for row in leases(rows, one) if row["queue_offset"] == 0][-1]
    last["attempt"] = 0


def first_is_second(rows: Planting, one: Tenant) -> None:
    leases(rows, one)[-1]["attempt"] = 2


def copy_of(rows: Planting, one: Tenant) -> Row:
    (row,) = rows.rows("commitlog_index", topic=f"%RETRY%{one.group}_{one.topic}")
    return row


def copy_counts_two(rows: Planting, one: Tenant) -> None:
    copy_of(rows, one)["reconsume_times"] = 2


def copy_counts_none(rows: Planting, one: Tenant) -> None:
    copy_of(rows, one)["reconsume_times"] = 0


def dead_counts_five(rows: Planting, one: Tenant) -> None:
    (row,) = rows.rows("commitlog_index", topic=f"%DLQ%{one.group}")
    assert "DLQ_ATTEMPTS\x012" in row["more_properties"]
    row["more_properties"] = row["more_properties"].replace(
        "DLQ_ATTEMPTS\x012", "DLQ_ATTEMPTS\x015"
    )


RETRY = "%RETRY%{group}_{name}"

FAULTS = (
    Fault(
        "order-swapped",
        "two messages of a message group handed out in the wrong order",
        one_by_one,
        swap,
        (Expected("delivered out of order", 1),),
        fifo=True,
    ),
    Fault(
        "order-held",
        "a message handed out while an earlier one of its message group was held",
        one_by_one,
        ack_comes_late,
        (Expected("leased before its turn", 1),),
        fifo=True,
    ),
    Fault(
        "attempt-jump",
        "an attempt that jumps",
        fails_once,
        attempt_three,
        (Expected("attempt jumps", 0),),
        fifo=True,
        max_attempts=5,
    ),
    Fault(
        "attempt-back",
        "an attempt that goes back",
        fails_once,
        attempt_back,
        (Expected("attempt jumps", 0),),
        fifo=True,
        max_attempts=5,
    ),
    Fault(
        "attempt-first",
        "a first delivery that counts as the second",
        fails_once,
        first_is_second,
        (Expected("attempt jumps", 1),),
        fifo=True,
        max_attempts=5,
    ),
    Fault(
        "copy-two",
        "a copy that counts two deliveries",
        retried,
        copy_counts_two,
        (Expected("copy with other attempts", 0),),
        max_attempts=5,
    ),
    Fault(
        "copy-none",
        "a copy that does not count the delivery",
        retried,
        copy_counts_none,
        (Expected("copy with other attempts", 0),),
    ),
    Fault(
        "dead-attempts",
        "a dead letter with another count of attempts",
        dies,
        dead_counts_five,
        (Expected("copy with other attempts", 0, topic=RETRY),),
    ),
)
