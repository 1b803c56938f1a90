"""Who is asked about next: not before its immunity is over, once per interval, not for ever."""

from typing import Any

from popmq_broker.core.transactions.transaction import Half, TransactionOutcome
from popmq_broker.core.transactions.transaction_table import HalfTable

INTERVAL_MS, CHECKS_MAX, AGE_MS_MAX = 30_000, 3, 1_000_000
EVERYTHING = 1 << 40


def table(**settings: Any) -> HalfTable:
    return HalfTable(
        **{
            "interval_ms": INTERVAL_MS,
            "checks_max": CHECKS_MAX,
            "age_ms_max": AGE_MS_MAX,
            "settled_max": 100,
            **settings,
        }
    )


def half(offset: int, topic: str = "t", *, due_ms: int = 6_000, stored_ms: int = 0) -> Half:
    return Half(
        origin_offset=offset,
        origin_log_offset=offset * 100,
        first_stored_ms=stored_ms,
        topic=topic,
        offset=offset,
        log_offset=offset * 100,
        size_bytes=100,
        stored_ms=stored_ms,
        op_offset=offset // 2,
        due_ms=due_ms,
    )


def taken(found: HalfTable, now_ms: int, *topics: str, count_max: int = 100) -> list[int]:
    due = found.take_due(topics or ("t",), now_ms, count_max, EVERYTHING)
    return [one.origin_offset for one in due]


def test_nobody_is_asked_before_the_immunity_is_over_and_once_per_interval_then() -> None:
    halves = table()
    halves.add(half(1))
    assert taken(halves, 5_999) == []
    assert taken(halves, 6_000) == [1]
    assert taken(halves, 6_000) == []
    assert taken(halves, 35_999) == []
    assert taken(halves, 36_000) == [1]


def test_only_the_topics_somebody_publishes_to() -> None:
    halves = table()
    halves.add(half(1, "t"))
    halves.add(half(2, "u"))
    assert taken(halves, 6_000, "u", "v") == [2]
    assert taken(halves, 6_000, "t", "u") == [1]


def test_an_interval_in_which_nobody_is_there_counts_nothing() -> None:
    halves = table()
    halves.add(half(1))
    late_ms = 20 * INTERVAL_MS
    assert halves.hopeless(late_ms) is None
    assert taken(halves, late_ms) == [1]
    assert halves.hopeless(late_ms + INTERVAL_MS) is None


def test_after_the_last_question_there_is_an_interval_to_answer_it() -> None:
    halves = table()
    halves.add(half(1))
    for i in range(CHECKS_MAX):
        assert taken(halves, 6_000 + i * INTERVAL_MS) == [1]
    last_ms = 6_000 + CHECKS_MAX * INTERVAL_MS
    assert halves.hopeless(last_ms - 1) is None
    assert taken(halves, last_ms) == []
    given_up = halves.hopeless(last_ms)
    assert given_up is not None
    halves.settle(given_up, TransactionOutcome.GIVEN_UP)
    assert halves.hopeless(last_ms) is None
    assert halves.outcome_of(1, 100) is TransactionOutcome.GIVEN_UP


def test_what_is_too_old_is_hopeless_though_nobody_was_asked() -> None:
    halves = table()
    halves.add(half(1))
    halves.add(half(2, stored_ms=10))
    assert halves.hopeless(AGE_MS_MAX - 1) is None
    oldest = halves.hopeless(AGE_MS_MAX)
    assert oldest is not None
    assert oldest.origin_offset == 1
    halves.settle(oldest, TransactionOutcome.GIVEN_UP)
    assert halves.hopeless(AGE_MS_MAX) is None


def test_nobody_is_asked_about_what_a_crash_could_take_back() -> None:
    halves = table()
    halves.add(half(1))
    assert halves.take_due(["t"], 6_000, 10, durable_end=199) == []
    assert len(halves.take_due(["t"], 6_000, 10, durable_end=200)) == 1


def test_a_part_of_what_is_due_leaves_the_rest_due() -> None:
    halves = table()
    for i in range(5):
        halves.add(half(i))
    assert taken(halves, 6_000, count_max=2) == [0, 1]
    assert taken(halves, 6_000) == [2, 3, 4]


def test_only_what_was_settled_so_is_answered_so() -> None:
    halves = table(settled_max=2)
    for i in range(3):
        one = half(i)
        halves.add(one)
        halves.settle(one, TransactionOutcome.COMMITTED)
    assert halves.outcome_of(0, 0) is None, "forgotten"
    assert halves.outcome_of(2, 200) is TransactionOutcome.COMMITTED
    assert halves.outcome_of(2, 201) is None, "another one"


def test_positions_and_log_are_needed_from_the_lowest() -> None:
    halves = table()
    assert halves.positions(7, 4) == (7, 4)
    assert halves.needed_from() is None
    first, second = half(4), half(6)
    halves.add(first)
    halves.add(second)
    assert halves.positions(7, 4) == (4, 2)
    assert halves.needed_from() == 400
    halves.move(first, to=half(9))
    assert halves.positions(10, 4) == (6, 3)
    assert halves.get(4) is halves.at(9)
    halves.settle(second, TransactionOutcome.COMMITTED)
    assert halves.needed_from() == 900
    halves.settle(first, TransactionOutcome.COMMITTED)
    assert halves.outcome_of(4, 400) is TransactionOutcome.COMMITTED


def test_only_what_holds_old_files_for_long_is_moved() -> None:
    halves = table()
    halves.add(half(4, stored_ms=50))
    assert halves.to_be_moved(log_offset=400, stored_ms=100) is None
    assert halves.to_be_moved(log_offset=500, stored_ms=49) is None
    assert halves.to_be_moved(log_offset=500, stored_ms=50) is halves.get(4)


def test_half_messages_that_come_and_go_leave_nothing_behind() -> None:
    halves = table(settled_max=10)
    for i in range(5_000):
        one = half(i, due_ms=10**9)
        halves.add(one)
        if i:
            halves.settle(one, TransactionOutcome.COMMITTED)
    assert len(halves) == 1
    assert len(halves._agendas["t"].due) < 100
    assert halves.counts() == {"t": 1}
    halves.settle(next(iter(halves)), TransactionOutcome.ROLLED_BACK)
    assert halves.counts() == {}
