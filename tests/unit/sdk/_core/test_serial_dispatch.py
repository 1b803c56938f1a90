"""What a consumer starts next."""

from hypothesis import given
from hypothesis import strategies as st

from popmq._core.serial_dispatch import SerialDispatch


def started(it: SerialDispatch[str]) -> list[str]:
    found = []
    while (one := it.start()) is not None:
        found.append(one[0])
    return found


def test_no_more_run_than_may() -> None:
    it: SerialDispatch[str] = SerialDispatch(2)
    for name in "abc":
        it.add(name, None)
    assert started(it) == ["a", "b"]
    assert it.held == 3
    it.finished(None)
    assert started(it) == ["c"]


def test_a_lane_goes_one_by_one_beside_the_others() -> None:
    it: SerialDispatch[str] = SerialDispatch(9)
    for name in ("a1", "a2", "b1", "a3"):
        it.add(name, name[0])
    assert started(it) == ["a1", "b1"]
    it.finished("a")
    assert started(it) == ["a2"]
    it.finished("b")
    assert started(it) == []
    it.finished("a")
    assert started(it) == ["a3"]
    it.finished("a")
    assert it.held == 0


def test_what_waits_behind_a_failure_is_dropped() -> None:
    it: SerialDispatch[str] = SerialDispatch(9)
    for name in ("a1", "a2", "a3", "b1", "b2"):
        it.add(name, name[0])
    assert started(it) == ["a1", "b1"]
    assert it.finished("a", drop=True) == ["a2", "a3"]
    assert it.held == 2
    it.add("a1", "a")
    assert started(it) == ["a1"]


def test_giving_up_leaves_what_runs() -> None:
    it: SerialDispatch[str] = SerialDispatch(1)
    for name in ("a1", "a2", "b1", "b2"):
        it.add(name, name[0])
    assert started(it) == ["a1"]
    assert sorted(it.give_up()) == ["a2", "b1", "b2"]
    assert it.held == 1
    assert it.finished("a") == []
    assert it.held == 0


@given(st.lists(st.sampled_from(["a", "b", None, "finish", "fail"]), max_size=80))
def test_lanes_keep_their_order_and_nothing_is_lost(steps: list[str | None]) -> None:
    it: SerialDispatch[int] = SerialDispatch(2)
    running: list[tuple[int, object]] = []
    last: dict[object, int] = {}
    added = gone = 0
    for number, step in enumerate(steps):
        if step in ("finish", "fail"):
            if running:
                _, key = running.pop(0)
                gone += 1 + len(it.finished(key, drop=step == "fail"))
        else:
            added += 1
            it.add(number, step)
        while (one := it.start()) is not None:
            item, key = one
            assert key is None or all(key != other for _, other in running)
            assert key is None or last.get(key, -1) < item
            last[key] = item
            running.append((item, key))
        assert len(running) == it.running <= 2
        assert it.held == added - gone
