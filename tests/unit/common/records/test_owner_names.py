"""Which names an owner may have."""

import pytest

from popmq_common.errors import IllegalOwner
from popmq_common.records.names import OWNER_CHARS_MAX, check_owner


@pytest.mark.parametrize(
    "owner", ["a", "payments", "Team-7_eu.west", "ops+oncall@example.com", "x" * OWNER_CHARS_MAX]
)
def test_names_of_teams_and_addresses(owner: str) -> None:
    check_owner(owner)


@pytest.mark.parametrize(
    "owner",
    ["", " ", "a b", "a\n", "pay/ments", "支付", "é", "a,b", "x" * (OWNER_CHARS_MAX + 1)],
)
def test_what_is_none_is_told_with_what_is_allowed(owner: str) -> None:
    with pytest.raises(IllegalOwner, match="1 to 64 characters of a to z, A to Z, 0 to 9, dot,"):
        check_owner(owner)
