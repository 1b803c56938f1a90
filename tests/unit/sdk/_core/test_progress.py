"""What a pull consumer commits: never beyond a message that is not done."""

from hypothesis import given
from hypothesis import strategies as st

from popmq._core.progress import Progress


def test_the_smallest_that_is_not_done_holds_up_the_commit() -> None:
    progress = Progress(10)
    assert progress.consumed == 10
    progress.handed([10, 12, 13], 15)
    progress.done(12)
    assert (progress.consumed, progress.outstanding) == (10, 2)
    progress.done(10)
    assert progress.consumed == 13
    progress.done(13)
    progress.done(13)
    progress.done(99)
    assert (progress.consumed, progress.outstanding) == (15, 0)


@given(st.lists(st.one_of(st.integers(1, 5), st.integers(0, 30).map(lambda n: -n)), max_size=60))
def test_what_is_before_the_commit_is_done(history: list[int]) -> None:
    """Positive: so many more are handed out; others: that message is done."""
    progress, done, committed = Progress(0), set(), 0
    for step in history:
        if step > 0:
            at = progress.next_offset
            progress.handed(list(range(at, at + step)), at + step)
        elif -step < progress.next_offset:
            progress.done(-step)
            done.add(-step)
        assert progress.consumed >= committed
        committed = progress.consumed
        assert done.issuperset(range(committed))
        assert committed not in done
