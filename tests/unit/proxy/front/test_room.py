"""Room that all share: one client may use nearly all of it, and cannot shut the others out."""

import asyncio

from popmq_proxy.front.room import COUNTED_EVERY, Account, AnswerRoom, Room


def fill(room: Room, account: Account) -> int:
    """Take one by one until it is refused."""
    count = 0
    while room.admits(account):
        room.take(account)
        count += 1
    return count


def test_one_connection_alone_gets_most_of_it() -> None:
    room = Room(1_000)
    assert 750 <= fill(room, room.open(Account())) <= 800


def test_others_are_served_beside_a_greedy_one() -> None:
    room = Room(1_000)
    fill(room, room.open(Account()))
    for _ in range(3):
        assert fill(room, room.open(Account())) >= 10


def test_a_connection_of_the_same_address_is_served_beside_a_greedy_one() -> None:
    room, address = Room(1_000), Account()
    fill(room, room.open(address))
    assert fill(room, room.open(address)) >= 10


def test_many_greedy_connections_of_an_address_leave_room_for_another_address() -> None:
    room, address = Room(1_000), Account()
    for _ in range(200):
        fill(room, room.open(address))
    for _ in range(COUNTED_EVERY):
        room.admits(room.open(address))
    assert fill(room, room.open(Account())) >= 10


def test_it_is_never_more_than_the_limit() -> None:
    room = Room(1_000)
    for _ in range(2_000):
        fill(room, room.open(Account()))
    assert room.taken <= 1_000


def test_what_is_given_back_is_free() -> None:
    room = Room(100)
    account = room.open(Account())
    count = fill(room, account)
    room.give(account, count)
    assert (room.taken, account.taken) == (0, 0)
    assert account.address is not None
    assert account.address.taken == 0
    assert room.left(account) == 75


def test_the_most_that_was_taken_is_remembered_until_it_is_asked_for() -> None:
    room = Room(100)
    account = room.open()
    room.take(account, 50)
    room.give(account, 40)
    assert room.most_since() == 50
    assert room.most_since() == 10
    room.take(account)
    assert room.most_since() == 11


async def test_who_waits_is_told_of_room() -> None:
    room = AnswerRoom(1_000)
    hog, other = room.open(Account()), room.open(Account())
    room.take(hog, 1_000)
    waiting = asyncio.create_task(room.wait(other, 60))
    await asyncio.sleep(0)
    room.give(hog, 500)
    assert await waiting


async def test_who_waits_in_vain_is_told_so() -> None:
    room = AnswerRoom(1_000)
    account = room.open(Account())
    room.take(account, 1_000)
    assert not await room.wait(account, 0.01)
    room.give(account, 1_000)
    assert await room.wait(account, 0.01)
