from popmq_proxy.core.routing.round_robin import RoundRobin


def test_each_key_gets_each_of_its_turns() -> None:
    turns = RoundRobin()
    assert [turns.next(key) for key in "abab"] == [0, 1, 1, 2]


def test_no_more_keys_are_kept_than_allowed() -> None:
    turns = RoundRobin(keys_max=2)
    for key in "abc":
        turns.next(key)
    assert turns.next("b") == 2, "the oldest was forgotten, not this one"
    assert turns.next("a") == 3, "it begins again, where a new one would"
