"""Half messages and op records: what RocketMQ would read, and what it writes that we must read."""

import pytest

from popmq_broker.core.retries.retry import is_first_of_pair
from popmq_broker.core.transactions import transaction
from popmq_broker.core.transactions.transaction import Half, TransactionOutcome, read_half, read_op
from popmq_common.errors import Corrupt, PropertiesTooLarge
from popmq_common.records import hosts
from popmq_common.records import properties as names
from popmq_common.records.names import GIVEN_UP_TOPIC, HALF_OP_TOPIC, HALF_TOPIC
from popmq_common.records.record import Record, SysFlag
from popmq_common.units import LogOffset, QueueOffset

SENT = {names.UNIQ_KEY: "id-a", names.TAGS: "red", "colour": "blue"}


def record(
    properties: dict[str, str], *, topic: str = HALF_TOPIC, body: bytes = b"x", sys_flag: int = 0
) -> Record:
    return Record(
        topic,
        0,
        QueueOffset(5),
        LogOffset(700),
        body,
        names.encode(properties),
        sys_flag,
        0,
        7,
        hosts.LOCAL,
        1_000,
        hosts.LOCAL,
        0,
    )


def half(properties: dict[str, str], *, immunity_ms: int = 6_000) -> Half:
    return read_half(
        names.encode(properties),
        offset=5,
        log_offset=700,
        size_bytes=100,
        stored_ms=1_000,
        op_offset=3,
        immunity_ms=immunity_ms,
    )


def test_a_half_message_has_rocketmqs_properties_beside_its_own() -> None:
    found = names.decode(transaction.half_properties(names.encode(SENT), "orders", 3))
    assert found == {
        **SENT,
        "TRAN_MSG": "true",
        "PGROUP": "orders",
        "__transactionId__": "id-a",
        "REAL_TOPIC": "orders",
        "REAL_QID": "3",
    }


def test_properties_leave_room_for_what_is_added_later() -> None:
    large = {"p": "x" * (names.PROPERTIES_BYTES_MAX - 300)}
    with pytest.raises(PropertiesTooLarge):
        transaction.half_properties(names.encode(large), "orders", 0)
    large = {"p": "x" * (names.PROPERTIES_BYTES_MAX - 400)}
    text = transaction.half_properties(names.encode(large), "orders", 0)
    stored = record(names.decode(text))
    far = half({names.REAL_TOPIC: "orders"})
    far.origin_offset = far.origin_log_offset = far.first_stored_ms = 1 << 62
    far.checks = 1 << 31
    transaction.moved_properties(stored, far)


@pytest.mark.parametrize(
    ("asked", "due_ms"), [(None, 7_000), ("60", 61_000), ("1", 7_000), ("soon", 7_000)]
)
def test_the_sender_may_ask_for_a_longer_immunity_not_for_a_shorter_one(
    asked: str | None, due_ms: int
) -> None:
    more = {} if asked is None else {names.IMMUNITY_S: asked}
    assert half({names.REAL_TOPIC: "orders", **more}).due_ms == due_ms


def test_one_that_was_written_again_is_known_by_where_it_was_first() -> None:
    first = half({names.REAL_TOPIC: "orders"})
    first.checks = 4
    text = transaction.moved_properties(record({names.REAL_TOPIC: "orders"}), first)
    again = read_half(
        text,
        offset=9,
        log_offset=5_000,
        size_bytes=140,
        stored_ms=99_000,
        op_offset=8,
        immunity_ms=6_000,
    )
    assert (again.origin_offset, again.origin_log_offset) == (5, 700)
    assert (again.first_stored_ms, again.checks) == (1_000, 4)
    assert (again.offset, again.log_offset, again.stored_ms) == (9, 5_000, 99_000)


def test_one_that_rocketmq_wrote_again_is_settled_by_the_op_record_of_either() -> None:
    """RocketMQ's put-back within a custom immunity time."""
    again = half({names.REAL_TOPIC: "orders", "TRAN_PREPARED_QUEUE_OFFSET": "2"})
    assert (again.origin_offset, again.offset) == (2, 5)


def test_an_op_record_says_which_and_how() -> None:
    done = half({names.REAL_TOPIC: "orders"})
    properties = names.decode(transaction.op_properties(done, TransactionOutcome.ROLLED_BACK))
    assert properties[names.TAGS] == "d"
    assert transaction.op_body(done) == b"5,"
    op = read_op(record(properties, topic=HALF_OP_TOPIC, body=b"5,"), where="here")
    assert (op.offsets, op.outcome, op.moved) == ((5,), TransactionOutcome.ROLLED_BACK, False)
    assert (op.origin_offset, op.origin_log_offset) == (5, 700)


@pytest.mark.parametrize("body", [b"5", b"5,", b"5,6,7", b"5,6,7,"])
def test_an_op_record_of_rocketmqs_may_name_several(body: bytes) -> None:
    op = read_op(record({names.TAGS: "d"}, body=body), where="here")
    assert op.offsets[0] == 5
    assert (op.outcome, op.moved) == (None, False)


@pytest.mark.parametrize("body", [b"five", b"\xff", b"5;6"])
def test_an_op_record_that_cannot_be_read_is_told_of(body: bytes) -> None:
    with pytest.raises(Corrupt, match="here"):
        read_op(record({names.TAGS: "d"}, body=body), where="here")


def test_recovery_knows_the_first_of_a_pair() -> None:
    assert is_first_of_pair(record(SENT, topic="orders", sys_flag=SysFlag.COMMIT.value | 1))
    assert is_first_of_pair(record(SENT, topic=GIVEN_UP_TOPIC))
    assert not is_first_of_pair(record(SENT))
    assert not is_first_of_pair(record(SENT, topic="orders", sys_flag=1))
