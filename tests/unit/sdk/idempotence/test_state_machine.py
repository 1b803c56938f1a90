"""The table of allowed transitions."""

import pytest

from popmq.idempotence.state_machine import reachable


def test_what_may_come_after_a_state() -> None:
    after = reachable({"created": {"assigned", "cancelled"}, "assigned": {"departed"}})
    assert after == {
        "created": {"assigned", "cancelled", "departed"},
        "assigned": {"departed"},
        "cancelled": set(),
        "departed": set(),
    }


def test_a_cycle_is_refused() -> None:
    with pytest.raises(ValueError, match="open → closed → open"):
        reachable({"open": {"closed"}, "closed": {"open"}})
    with pytest.raises(ValueError, match="open → open"):
        reachable({"open": {"open"}})
