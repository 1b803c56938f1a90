"""When a busy worker parts with a connection: if one has little to do, and that lasts."""

import pytest

from popmq_common.workers.balance import (
    RETURN_S,
    BalanceRules,
    ConnectionMove,
    MovedClients,
    WorkerBalance,
)

RULES = BalanceRules(busy=0.8, gap=0.4, looks=3, rest_looks=4)
ALL = {0: True, 1: True, 2: True}


def looks(balance: WorkerBalance, count: int, *busy: float) -> list[ConnectionMove | None]:
    return [balance.look(dict(enumerate(busy)), ALL) for _ in range(count)]


def test_a_worker_that_stays_busy_while_another_is_idle_parts_with_some_of_its_work() -> None:
    found = looks(WorkerBalance(RULES), 3, 0.2, 1.0, 0.4)
    assert found == [None, None, ConnectionMove(1, 0, 0.4)]


def test_one_that_is_busy_for_a_moment_keeps_all() -> None:
    balance = WorkerBalance(RULES)
    assert looks(balance, 2, 0.2, 1.0) == [None, None]
    assert looks(balance, 1, 0.2, 0.3) == [None]
    assert looks(balance, 2, 0.2, 1.0) == [None, None]


def test_another_one_that_is_busy_now_counts_anew() -> None:
    balance = WorkerBalance(RULES)
    assert looks(balance, 2, 0.2, 1.0) == [None, None]
    assert looks(balance, 2, 1.0, 0.2) == [None, None]
    assert looks(balance, 1, 1.0, 0.2) == [ConnectionMove(0, 1, 0.4)]


@pytest.mark.parametrize("busy", [(1.0, 0.9), (0.7, 0.0), (1.0,), ()])
def test_nothing_happens_when_all_are_busy_or_none_is_or_there_is_no_other(
    busy: tuple[float, ...],
) -> None:
    assert looks(WorkerBalance(RULES), 9, *busy) == [None] * 9


def test_after_a_move_the_figures_are_left_to_settle() -> None:
    found = looks(WorkerBalance(RULES), 10, 0.0, 1.0)
    assert [number for number, one in enumerate(found) if one] == [2, 9]


def test_a_worker_that_drains_is_relieved_and_relieves_nobody() -> None:
    balance = WorkerBalance(RULES)
    takes = {0: False, 1: True}
    assert [balance.look({0: 0.0, 1: 1.0}, takes) for _ in range(9)] == [None] * 9
    found = [balance.look({0: 1.0, 1: 0.0}, takes) for _ in range(3)]
    assert found[2] == ConnectionMove(0, 1, 0.5)


def test_a_client_that_comes_again_goes_where_there_is_room() -> None:
    moved = MovedClients()
    moved.expect("10.0.0.1", 2, now_s=0.0)
    assert moved.worker_for("10.0.0.9", 1.0) is None
    assert moved.worker_for("10.0.0.1", 1.0) == 2
    assert moved.worker_for("10.0.0.1", 1.0) is None  # its next connection is like any other


def test_a_client_that_stays_away_is_not_expected_for_ever() -> None:
    moved = MovedClients()
    moved.expect("10.0.0.1", 2, now_s=0.0)
    assert moved.worker_for("10.0.0.1", RETURN_S + 0.1) is None
