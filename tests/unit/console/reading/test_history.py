"""Where do rates come from, and how much is kept?"""

from popmq_admin.v1 import admin_pb2 as admin
from popmq_console.reading.history import POINTS_MAX, USERS_MAX, History


def look(at_ms: int, stored: int) -> admin.ShowClusterResponse:
    figures = admin.BrokerFigures(now_ms=at_ms, started_ms=1, stored=stored)
    return admin.ShowClusterResponse(
        now_ms=at_ms, brokers=[admin.BrokerAnswer(name="a", figures=figures)]
    )


def test_a_rate_needs_two_looks() -> None:
    history = History()
    assert history.add("", 10_000, look(10_000, 5)).in_s is None
    assert history.add("", 12_000, look(12_000, 25)).in_s == 10.0
    assert [(one.at_ms, one.in_s) for one in history.points("")] == [(10_000, None), (12_000, 10.0)]


def test_looks_at_the_same_moment_are_one() -> None:
    history = History()
    for _ in range(3):
        history.add("", 10_000, look(10_000, 5))
    assert len(history.points("")) == 1


def test_an_old_look_makes_no_rate() -> None:
    history = History()
    history.add("", 10_000, look(10_000, 5))
    assert history.add("", 1_000_000, look(1_000_000, 9)).in_s is None


def test_users_do_not_see_what_others_saw() -> None:
    history = History()
    history.add("alice", 10_000, look(10_000, 5))
    assert history.points("bob") == []


def test_what_is_kept_is_bounded() -> None:
    history = History()
    for number in range(POINTS_MAX + 10):
        history.add("", number * 2_000, look(number * 2_000, number))
    assert len(history.points("")) == POINTS_MAX
    for number in range(USERS_MAX + 1):
        history.add(f"user{number}", 1, look(1, 1))
    assert history.points("") == []
