"""What is sent ends with a whole record."""

import pytest

from popmq_broker.core.replication.whole_records import first_bytes, whole_bytes
from popmq_common.records import record as rec

RECORDS = b"".join(size.to_bytes(4) + bytes(size - 4) for size in (100, 8, 60))


@pytest.mark.parametrize(
    ("length", "whole"),
    [
        (0, 0),
        (3, 0),
        (4, 0),
        (99, 0),
        (100, 100),
        (103, 100),
        (107, 100),
        (108, 108),
        (167, 108),
        (168, 168),
    ],
)
def test_half_a_record_is_left_out(length: int, whole: int) -> None:
    assert whole_bytes(RECORDS[:length]) == whole


def test_where_nothing_was_written_there_is_no_record() -> None:
    assert whole_bytes(bytes(50)) == 0
    assert whole_bytes(RECORDS + bytes(50)) == len(RECORDS)
    assert whole_bytes(b"\xff" * 50) == 0


def test_the_filler_of_a_file_is_whole_with_the_file() -> None:
    filler = rec.blank(40) + bytes(32)
    assert first_bytes(filler) == 40
    assert whole_bytes(RECORDS + filler) == len(RECORDS) + 40
    assert whole_bytes(RECORDS + filler[:39]) == len(RECORDS)
