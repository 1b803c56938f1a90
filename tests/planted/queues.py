"""Faults of queues: what their ends, ids and entries say. The rows of `queue_faults` that the files
themselves give rise to are looked at by tests/unit/pipelines/export/test_queue_files.py."""

from planted.planting import Expected, Fault, Planting, Tenant
from popmq_common.records.names import FORCED_TOPIC


def five(one: Tenant) -> None:
    one.send(5)


def took_five(one: Tenant) -> None:
    one.send(5)
    one.take()


def last_is_out(rows: Planting, one: Tenant) -> None:
    rows.drop("commitlog_index", topic=one.topic, queue_offset=4)


def three_are_out(rows: Planting, one: Tenant) -> None:
    for offset in (2, 3, 4):
        rows.drop("commitlog_index", topic=one.topic, queue_offset=offset)


def all_are_out(rows: Planting, one: Tenant) -> None:
    rows.drop("commitlog_index", topic=one.topic)


def same_id(rows: Planting, one: Tenant) -> None:
    first, second = rows.rows("commitlog_index", topic=one.topic)[:2]
    second["message_id"] = first["message_id"]


def forced_record(rows: Planting, one: Tenant) -> None:
    """What a primary writes then (engine/replication/forced_record.py)."""
    (last,) = rows.rows("commitlog_index", topic=one.topic, queue_offset=4)
    place = {"topic": FORCED_TOPIC, "queue_offset": 0, "log_offset": last["log_offset"] + 1}
    rows.add("commitlog_index", last, **place, message_id=None, tags="forced")


FAULTS = (
    Fault(
        "forced",
        "a primary that an operator forced",
        five,
        forced_record,
        (Expected("primary forced", 0, topic=FORCED_TOPIC),),
    ),
    Fault(
        "tail-one",
        "the last message of a queue removed",
        five,
        last_is_out,
        (Expected("message missing", 4),),
    ),
    Fault(
        "tail-three",
        "the last messages of a queue removed",
        five,
        three_are_out,
        (Expected("message missing", 2, 3),),
    ),
    Fault(
        "tail-all",
        "all messages of a queue removed",
        five,
        all_are_out,
        (Expected("message missing", 0, 5),),
    ),
    Fault(
        "two-bodies",
        "two messages of one id in one queue, with different bodies",
        took_five,
        same_id,
        (Expected("one id, two bodies", 1),),
    ),
)
