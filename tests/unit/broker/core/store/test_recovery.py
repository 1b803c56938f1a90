"""Every row of the two tables, and every combination of what a scan can find."""

from itertools import product

import pytest

from popmq_broker.core.store.recovery import (
    RecoveryAction,
    RecoveryDecision,
    Scan,
    judge_files,
    judge_scan,
)

KEEP, TRUNCATE, REFUSE = RecoveryAction.KEEP, RecoveryAction.TRUNCATE, RecoveryAction.REFUSE


@pytest.mark.parametrize(
    ("found", "mark", "verdict", "log_end"),
    [
        # nothing there
        ([], None, KEEP, 0),
        ([], 0, KEEP, 0),
        ([], 1, REFUSE, 0),
        # whole files
        ([(0, 100), (100, 100)], None, KEEP, 200),
        ([(0, 100), (100, 100)], 150, KEEP, 200),
        ([(0, 100), (100, 100)], 200, KEEP, 200),
        ([(0, 100), (100, 100)], 201, REFUSE, 200),
        ([(300, 100), (400, 100)], 420, KEEP, 500),  # retention took the first three
        # a gap
        ([(0, 100), (200, 100)], 99, TRUNCATE, 100),
        ([(0, 100), (200, 100)], 100, TRUNCATE, 100),
        ([(0, 100), (200, 100)], 101, REFUSE, 100),
        ([(0, 100), (200, 100)], None, REFUSE, 100),
        # too short
        ([(0, 100), (100, 0)], 100, KEEP, 200),
        ([(0, 100), (100, 50)], 150, KEEP, 200),
        ([(0, 100), (100, 50)], 151, REFUSE, 100),
        ([(0, 50), (100, 100)], 50, KEEP, 200),
        ([(0, 50), (100, 100)], 51, REFUSE, 0),
        ([(0, 100), (100, 0)], None, TRUNCATE, 100),
        ([(0, 100), (100, 0), (200, 0)], None, TRUNCATE, 100),
        ([(0, 100), (100, 0), (200, 100)], None, REFUSE, 100),
        ([(0, 100), (100, 1)], None, REFUSE, 100),
        # too long, or of another size altogether
        ([(0, 100), (100, 101)], 100, REFUSE, 100),
        ([(0, 200)], 0, REFUSE, 0),
        ([(50, 100)], 50, REFUSE, 50),
    ],
)
def test_files(
    found: list[tuple[int, int]], mark: int | None, verdict: RecoveryAction, log_end: int
) -> None:
    decision = judge_files(found, 100, mark)
    assert (decision.verdict, decision.log_end) == (verdict, log_end)
    assert bool(decision.reason) == (verdict is not KEEP)


def expected(scan: Scan) -> tuple[RecoveryAction, int]:
    """The second table again, row by row."""
    match scan.mark:
        case None:
            if scan.later_record_at is not None:
                return REFUSE, scan.end
            return (TRUNCATE if scan.damaged else KEEP), scan.end
        case mark if scan.end < mark:
            return REFUSE, scan.end
        case mark:
            half_at = scan.half_pair_at
            if half_at is not None and half_at >= mark:
                return TRUNCATE, half_at
            return (TRUNCATE if scan.damaged else KEEP), scan.end


@pytest.mark.parametrize(
    ("mark", "damaged", "later", "half"),
    list(product([None, 0, 50, 90, 100, 101], [False, True], [None, 130], [None, 90])),
)
def test_scans(mark: int | None, damaged: bool, later: int | None, half: int | None) -> None:
    scan = Scan(
        end=100,
        reason="why",
        mark=mark,
        damaged=damaged or later is not None,
        later_record_at=later,
        half_pair_at=half,
    )
    decision = judge_scan(scan)
    assert (decision.verdict, decision.log_end) == expected(scan)


def test_reasons_say_what_was_found_and_what_should_be_there() -> None:
    scan = Scan(end=100, reason="the body's checksum is wrong", mark=120, damaged=True)
    assert judge_scan(scan) == RecoveryDecision(
        REFUSE, 100, "the body's checksum is wrong, but the log was on disk up to 120"
    )
    scan = Scan(end=100, reason="why", mark=None, damaged=True, later_record_at=130)
    assert judge_scan(scan) == RecoveryDecision(REFUSE, 100, "why, but a record follows at 130")
