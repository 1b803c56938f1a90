"""The recovery table, exhaustively: every combination falls into exactly one row."""

from itertools import product

import pytest

from popmq_broker.core.recovery import Decision, Scan, Verdict, decide


@pytest.mark.parametrize(
    ("end", "damaged", "half_pair"), list(product([90, 100, 110], [False, True], [False, True]))
)
def test_every_case(end: int, damaged: bool, half_pair: bool) -> None:
    half_pair_at = end - 10 if half_pair else None
    scan = Scan(end=end, flushed=100, damaged=damaged, half_pair_at=half_pair_at)
    if end < 100:
        assert decide(scan) == Decision(Verdict.REFUSE, end)
    elif half_pair:
        assert decide(scan) == Decision(Verdict.TRUNCATE, end - 10)
    elif damaged:
        assert decide(scan) == Decision(Verdict.TRUNCATE, end)
    else:
        assert decide(scan) == Decision(Verdict.KEEP, end)
