"""Reports of counts as the broker keeps them."""

import pytest

from popmq_common.errors import Corrupt
from popmq_common.records.count_report import CountedAs, CountReport, CountRow, decode, encode

REPORT = CountReport(
    client_id="host@1@a",
    id_prefix="01AABBCCDDEEFF0001",
    sequence=3,
    from_ms=1,
    until_ms=60_001,
    is_last=False,
    uncounted=0,
    rows=(
        CountRow(CountedAs.SENT, "orders", "", 0, 5, (1 << 63) - 1),
        CountRow(CountedAs.ACKED, "orders", "billing", 60_000, 1, 7),
    ),
)


def test_there_and_back() -> None:
    assert decode(encode(REPORT), where="x") == REPORT


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b"\xff", encode(REPORT).replace(b"sent", b"made")]
)
def test_what_is_none_names_its_place(body: bytes) -> None:
    with pytest.raises(Corrupt, match="log offset 5"):
        decode(body, where="log offset 5")
