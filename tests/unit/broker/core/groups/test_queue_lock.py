"""Who has a queue alone: the table of core/groups/queue_lock.py."""

from popmq_broker.core.groups.offsets import QueueKey
from popmq_broker.core.groups.queue_lock import QueueLocks

KEY, OTHER = QueueKey("g", "t", 0), QueueKey("g", "t", 1)
LIFE_MS = 60_000


def test_a_lock_lives_from_when_it_was_asked_for_last() -> None:
    locks = QueueLocks(LIFE_MS)
    assert locks.lock(KEY, "one", 0)
    assert not locks.lock(KEY, "two", LIFE_MS - 1)
    assert locks.lock(KEY, "one", LIFE_MS - 1)
    assert not locks.lock(KEY, "two", 2 * LIFE_MS - 2)
    assert locks.lock(KEY, "two", 2 * LIFE_MS - 1)
    assert not locks.lock(KEY, "one", 2 * LIFE_MS)


def test_who_has_not_cannot_give_back() -> None:
    locks = QueueLocks(LIFE_MS)
    locks.lock(KEY, "one", 0)
    assert not locks.unlock(KEY, "two")
    assert not locks.unlock(OTHER, "one")
    assert locks.holder(KEY, 1) == "one"
    assert locks.unlock(KEY, "one")
    assert locks.lock(KEY, "two", 1)


def test_a_clock_that_was_set_back_makes_no_lock_live_longer() -> None:
    locks = QueueLocks(LIFE_MS)
    locks.lock(KEY, "one", 10**9)
    assert locks.holder(KEY, 1_000) == "one"
    assert locks.holder(KEY, 1_000 + LIFE_MS - 1) == "one"
    assert locks.holder(KEY, 1_000 + LIFE_MS) == ""


def test_leaving_and_forgetting() -> None:
    locks = QueueLocks(LIFE_MS)
    far = QueueKey("h", "t", 0)
    for key in (KEY, OTHER, far):
        locks.lock(key, "one", 0)
    locks.leave("two")
    locks.leave("one", "g", "elsewhere")
    assert locks.held(1) == 3
    locks.leave("one", "g", "t")
    assert (locks.held(1), locks.holder(far, 1)) == (1, "one")
    locks.forget(group="g")
    assert locks.held(1) == 1
    locks.forget(topic="t")
    assert locks.held(1) == 0
    locks.lock(KEY, "one", 1)
    locks.leave("one")
    assert locks.held(1) == 0
    locks.lock(KEY, "one", 1)
    assert locks.held(1 + LIFE_MS) == 0
