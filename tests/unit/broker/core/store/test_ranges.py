from hypothesis import given
from hypothesis import strategies as st

from popmq_broker.core.store.ranges import Ranges


@given(st.lists(st.integers(0, 30)), st.integers(0, 30), st.integers(0, 30))
def test_single_offsets_become_ranges_without_gaps(added: list[int], start: int, end: int) -> None:
    ranges = Ranges()
    for offset in added:
        ranges.add(offset, offset + 1)
    found = [offset for one in ranges for offset in range(one.start, one.end)]
    assert found == sorted(set(added))
    assert all((offset in ranges) == (offset in added) for offset in range(32))
    gaps = sum(offset + 1 not in added for offset in set(added))
    assert ranges.run_count == gaps
    assert ranges.count_between(start, end) == sum(start <= one < end for one in set(added))
