"""Streams that were ended early are remembered, thousands next to each other and some elsewhere."""

from hypothesis import given
from hypothesis import strategies as st

from popmq_proxy.front.http2.budgets.ended_streams import BLOCKS_MAX, EndedStreams

odd = st.integers(0, 20_000).map(lambda number: 2 * number + 1)


@given(st.sets(odd, max_size=BLOCKS_MAX), st.sets(odd))
def test_some_anywhere(added: set[int], others: set[int]) -> None:
    ended = EndedStreams()
    for stream_id in added:
        ended.add(stream_id)
    assert {one for one in added | others if one in ended} == added


def test_thousands_in_a_row() -> None:
    ended = EndedStreams()
    for stream_id in range(100_001, 120_001, 2):
        ended.add(stream_id)
    assert all(stream_id in ended for stream_id in range(100_001, 120_001, 2))
    assert 99_999 not in ended
    assert 120_001 not in ended


def test_the_oldest_are_forgotten() -> None:
    ended = EndedStreams()
    for number in range(2 * BLOCKS_MAX):
        ended.add(number * 128 + 1)
    assert 1 not in ended
    assert (2 * BLOCKS_MAX - 1) * 128 + 1 in ended
