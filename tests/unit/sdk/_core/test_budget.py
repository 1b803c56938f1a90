"""Who may come in."""

from popmq._core.budget import Budget


def test_messages_and_bytes_bound_it() -> None:
    it: Budget[str] = Budget(2, 100)
    assert it.enter(60)
    assert not it.enter(60)
    assert it.enter(40)
    assert not it.enter(0)


def test_a_large_one_waits_until_it_is_alone_and_is_not_overtaken() -> None:
    it: Budget[str] = Budget(10, 100)
    assert it.enter(50)
    it.wait("large", 500)
    assert not it.enter(1)
    it.wait("small", 1)
    assert it.leave(50) == ["large"]
    assert (it.messages, it.bytes) == (1, 500)
    assert it.leave(500) == ["small"]


def test_who_gives_up_lets_the_others_in() -> None:
    it: Budget[str] = Budget(10, 100)
    assert it.enter(50)
    it.wait("large", 500)
    it.wait("small", 1)
    assert it.forget("large") == ["small"]
    assert (it.messages, it.bytes) == (2, 51)
    assert it.leave(51, 2) == []
    assert (it.messages, it.bytes) == (0, 0)
