"""Which batch leaves when, on a clock that is moved by hand."""

from hypothesis import given
from hypothesis import strategies as st

from popmq._core.batch_queue import BatchBounds, BatchQueue


def gathering(**more: float) -> BatchQueue[int]:
    bounds = {"items_max": 3, "bytes_max": 100, "linger_s": 1.0, "under_way_max": 2, **more}
    return BatchQueue(BatchBounds(**bounds))  # type: ignore[arg-type]


def fill(into: BatchQueue[int], count: int, size_bytes: int = 1, now_s: float = 0.0) -> None:
    for i in range(count):
        into.add(i, size_bytes, now_s)


def test_a_lone_item_leaves_at_once() -> None:
    it = gathering()
    fill(it, 1)
    assert it.leave(0.0) == [0]


def test_what_comes_while_one_is_under_way_waits_for_its_answer() -> None:
    it = gathering()
    fill(it, 1)
    it.leave(0.0)
    fill(it, 2)
    assert it.leave(0.5) == []
    it.answered()
    assert it.leave(0.5) == [0, 1]


def test_a_full_batch_leaves_beside_it() -> None:
    it = gathering()
    fill(it, 1)
    it.leave(0.0)
    fill(it, 4)
    assert it.leave(0.0) == [0, 1, 2]
    assert it.leave(0.0) == []  # two are under way
    it.answered()
    it.answered()
    assert it.leave(0.0) == [3]


def test_nothing_waits_longer_than_it_may() -> None:
    it = gathering()
    fill(it, 1)
    it.leave(0.0)
    it.add(7, 1, 0.2)
    assert it.due_s() == 1.2
    assert it.leave(1.1) == []
    assert it.leave(1.2) == [7]
    fill(it, 1, now_s=1.2)
    assert it.due_s() is None  # no more may be under way


def test_bytes_bound_a_batch_and_a_large_item_goes_alone() -> None:
    it = gathering()
    for size in (60, 60, 300):
        it.add(size, size, 0.0)
    assert it.leave(0.0) == [60]
    assert it.leave(0.0) == [60]
    it.answered()
    it.answered()
    assert it.leave(0.0) == [300]


@given(
    st.lists(st.one_of(st.integers(1, 120), st.sampled_from(["leave", "answered"])), max_size=60)
)
def test_order_and_bounds_hold_for_any_history(steps: list[int | str]) -> None:
    it = gathering(under_way_max=1)
    put: list[tuple[int, int]] = []
    left: list[tuple[int, int]] = []
    sizes: dict[int, int] = {}
    for now, step in enumerate(steps):
        if isinstance(step, int):
            sizes[now] = step
            it.add(now, step, now)
            put.append((now, step))
        elif step == "answered" and it.under_way:
            it.answered()
        elif step == "leave":
            batch = it.leave(now)
            assert len(batch) <= 3
            assert len(batch) <= 1 or sum(sizes[one] for one in batch) <= 100
            left += [(one, sizes[one]) for one in batch]
            assert it.under_way <= 1
    assert left == put[: len(left)]
    assert len(it) == len(put) - len(left)
