"""Room that all share: one client may use nearly all of it, and cannot shut the others out."""

import asyncio

from popmq_proxy.front.client_budgets import COUNTED_EVERY, Account, AnswerBudget, ClientBudget


def fill(budget: ClientBudget, account: Account) -> int:
    """Take one by one until it is refused."""
    count = 0
    while budget.admits(account):
        budget.take(account)
        count += 1
    return count


def test_one_connection_alone_gets_most_of_it() -> None:
    budget = ClientBudget(1_000)
    assert 750 <= fill(budget, budget.open(Account())) <= 800


def test_others_are_served_beside_a_greedy_one() -> None:
    budget = ClientBudget(1_000)
    fill(budget, budget.open(Account()))
    for _ in range(3):
        assert fill(budget, budget.open(Account())) >= 10


def test_a_connection_of_the_same_address_is_served_beside_a_greedy_one() -> None:
    budget, address = ClientBudget(1_000), Account()
    fill(budget, budget.open(address))
    assert fill(budget, budget.open(address)) >= 10


def test_many_greedy_connections_of_an_address_leave_room_for_another_address() -> None:
    budget, address = ClientBudget(1_000), Account()
    for _ in range(200):
        fill(budget, budget.open(address))
    for _ in range(COUNTED_EVERY):
        budget.admits(budget.open(address))
    assert fill(budget, budget.open(Account())) >= 10


def test_it_is_never_more_than_the_limit() -> None:
    budget = ClientBudget(1_000)
    for _ in range(2_000):
        fill(budget, budget.open(Account()))
    assert budget.taken <= 1_000


def test_what_is_given_back_is_free() -> None:
    budget = ClientBudget(100)
    account = budget.open(Account())
    count = fill(budget, account)
    budget.give(account, count)
    assert (budget.taken, account.taken) == (0, 0)
    assert account.address is not None
    assert account.address.taken == 0
    assert budget.left(account) == 75


def test_the_most_that_was_taken_is_remembered_until_it_is_asked_for() -> None:
    budget = ClientBudget(100)
    account = budget.open()
    budget.take(account, 50)
    budget.give(account, 40)
    assert budget.most_since() == 50
    assert budget.most_since() == 10
    budget.take(account)
    assert budget.most_since() == 11


async def test_who_waits_is_told_of_room() -> None:
    budget = AnswerBudget(1_000)
    hog, other = budget.open(Account()), budget.open(Account())
    budget.take(hog, 1_000)
    waiting = asyncio.create_task(budget.wait(other, 60))
    await asyncio.sleep(0)
    budget.give(hog, 500)
    assert await waiting


async def test_who_waits_in_vain_is_told_so() -> None:
    budget = AnswerBudget(1_000)
    account = budget.open(Account())
    budget.take(account, 1_000)
    assert not await budget.wait(account, 0.01)
    budget.give(account, 1_000)
    assert await budget.wait(account, 0.01)
