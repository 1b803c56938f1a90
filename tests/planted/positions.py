"""Faults of positions: what a group went over and was never given."""

from planted.planting import Expected, Fault, Planting, Tenant


def took_ten(one: Tenant) -> None:
    one.send(10)
    one.take()


def took_four_of_ten(one: Tenant) -> None:
    one.send(10)
    one.take(4)


def took_tag_a(one: Tenant) -> None:
    for number in range(10):
        one.send(tag="a" if number % 2 else "b")
    one.take(tag="a")


def took_small_numbers(one: Tenant) -> None:
    for number in range(10):
        one.send(number=str(number))
    one.take(sql="number < 5")


def position(rows: Planting, one: Tenant) -> dict[str, int]:
    (row,) = rows.rows("consume_offsets", **one.queue)
    return row


def jump(rows: Planting, one: Tenant) -> None:
    position(rows, one)["next_offset"] = 9


def one_is_out(rows: Planting, one: Tenant) -> None:
    rows.silence("pop_checkpoints", **one.queue, queue_offset=6)
    rows.silence("pop_acks", **one.queue, queue_offset=6)


def back(rows: Planting, one: Tenant) -> None:
    position(rows, one)["next_offset"] = 3


def gone(rows: Planting, one: Tenant) -> None:
    rows.drop("consume_offsets", **one.queue)


def filter_is_out(rows: Planting, one: Tenant) -> None:
    rows.drop("passes", **one.queue)


def other_tag(rows: Planting, one: Tenant) -> None:
    (row,) = rows.rows("commitlog_index", topic=one.topic, queue_offset=4)
    row["tags"] = "a"


def other_filter(rows: Planting, one: Tenant) -> None:
    (row,) = rows.rows("passes", **one.queue)
    row["filter"] = "a || b"


def other_number(rows: Planting, one: Tenant) -> None:
    (row,) = rows.rows("commitlog_index", topic=one.topic, queue_offset=8)
    assert row["more_properties"] == "number\x018\x02"
    row["more_properties"] = "number\x012\x02"


def reset_without_record(rows: Planting, one: Tenant) -> None:
    rows.silence("position_moves", **one.queue)


def reset_forward(one: Tenant) -> None:
    took_four_of_ten(one)
    one.reset(8)


def fifo_took_ten(one: Tenant) -> None:
    one.send(10, message_group="g")
    one.take()


FAULTS = (
    Fault(
        "skip-jump",
        "a position that jumped over messages never handed out",
        took_four_of_ten,
        jump,
        (Expected("skipped", 4, 5),),
    ),
    Fault(
        "skip-one",
        "one message taken out of checkpoints and acks",
        took_ten,
        one_is_out,
        (Expected("skipped", 6),),
    ),
    Fault(
        "skip-one-fifo",
        "the same in a FIFO group",
        fifo_took_ten,
        one_is_out,
        (Expected("skipped", 6),),
        fifo=True,
    ),
    Fault(
        "skip-back",
        "a position before messages that the group was given",
        took_ten,
        back,
        (Expected("position went back", 3, 7),),
    ),
    Fault(
        "skip-gone",
        "a position that is gone",
        took_ten,
        gone,
        (Expected("position gone", 0),),
    ),
    Fault(
        "skip-no-filter",
        "messages left out, and no filter is on record",
        took_tag_a,
        filter_is_out,
        tuple(Expected("skipped", offset) for offset in range(0, 10, 2)),
    ),
    Fault(
        "skip-tag",
        "a message left out that the tag filter lets through",
        took_tag_a,
        other_tag,
        (Expected("skipped", 4),),
    ),
    Fault(
        "skip-filter",
        "a tag filter that is wider on record than it was",
        took_tag_a,
        other_filter,
        tuple(Expected("skipped", offset) for offset in range(0, 10, 2)),
    ),
    Fault(
        "skip-sql",
        "a message left out that the SQL filter lets through",
        took_small_numbers,
        other_number,
        (Expected("skipped", 8),),
    ),
    Fault(
        "skip-reset",
        "a reset whose record is gone",
        reset_forward,
        reset_without_record,
        (Expected("skipped", 4, 4),),
    ),
)
