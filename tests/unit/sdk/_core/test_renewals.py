"""When which lease is renewed, on a clock that is moved by hand."""

from popmq._core.renewals import LeaseRenewals

LEASE_S, LONGEST_S = 10.0, 25.0


def held(*keys: str) -> LeaseRenewals[str]:
    it: LeaseRenewals[str] = LeaseRenewals()
    for key in keys:
        it.hold(key, 0.0, LEASE_S, LONGEST_S)
    return it


def keys(it: LeaseRenewals[str], now_s: float, room: int = 9) -> tuple[list[str], list[str]]:
    renew, over = it.due(now_s, room)
    return [one.key for one in renew], over


def test_it_is_due_at_half_its_time_and_asked_for_once() -> None:
    it = held("a")
    assert it.next_s() == 5.0
    assert keys(it, 4.9) == ([], [])
    assert keys(it, 5.0) == (["a"], [])
    assert keys(it, 9.0) == ([], [])
    assert it.next_s() is None


def test_a_renewal_counts_from_when_it_was_asked() -> None:
    it = held("a")
    ((one,), _) = it.due(5.0, 9)
    assert it.renewed(one, 5.0, 6.0)
    assert one.until_s == 15.0
    assert keys(it, 10.9) == ([], [])
    assert keys(it, 11.0) == (["a"], [])


def test_it_is_let_go_of_after_its_longest_time() -> None:
    it = held("a")
    now_s = 0.0
    for now_s in (5.0, 10.0, 15.0, 20.0):
        ((one,), _) = it.due(now_s, 9)
        it.renewed(one, now_s, now_s)
    assert keys(it, 25.0) == ([], ["a"])
    assert not it.holds("a")
    assert len(it) == 0


def test_what_failed_is_tried_again_soon_until_the_lease_is_over() -> None:
    it = held("a")
    tries = 0
    now_s = 0.0
    while it.holds("a"):
        now_s = it.next_s() or 0.0
        renew, over = it.due(now_s, 9)
        for one in renew:
            tries += 1
            it.failed(one, now_s)
    assert over == ["a"]
    assert tries == 4  # at 5, 6.25, 7.5 and 8.75
    assert now_s == 10.0


def test_an_ended_one_is_not_renewed_even_when_the_answer_comes_later() -> None:
    it = held("a", "b")
    renew, _ = it.due(5.0, 1)
    assert [one.key for one in renew] == ["a"]
    assert it.end("a")  # wait for the answer
    assert not it.end("b")
    assert not it.renewed(renew[0], 5.0, 6.0)
    assert keys(it, 100.0) == ([], [])


def test_the_rest_waits_for_room() -> None:
    it = held(*"abcd")
    assert keys(it, 5.0, 3) == (["a", "b", "c"], [])
    assert it.next_s() == 5.0
    assert keys(it, 5.0, 3) == (["d"], [])


def test_leases_of_all_lengths_are_due_in_time() -> None:
    it: LeaseRenewals[str] = LeaseRenewals()
    it.hold("long", 0.0, 60.0, 600.0)
    it.hold("short", 1.0, 2.0, 600.0)
    assert it.next_s() == 2.0
    assert keys(it, 2.0) == (["short"], [])
    it.hold("long", 3.0, 4.0, 600.0)  # extended
    assert it.next_s() == 5.0
    assert keys(it, 5.0) == (["long"], [])


def test_a_lease_ends_now_unless_its_renewal_is_under_way() -> None:
    it = held("a", "b")
    assert it.end_now("a")
    assert keys(it, 5.0) == (["b"], [])
    assert not it.end_now("b")
    assert it.holds("b")
    assert it.end_now("never held")


def test_a_lease_ends_now_when_its_renewal_leaves_its_handle_as_it_is() -> None:
    it = held("a")
    ((one,), _) = it.due(5.0, 9)
    one.handle_stays = True
    assert it.end_now("a")
    assert not it.renewed(one, 5.0, 6.0)
    assert len(it) == 0
