"""Records of how groups go over messages: what they say, and what the positions' file has of it."""

import pytest

from popmq_broker.core.groups import offsets, passing
from popmq_broker.core.groups.offsets import OffsetTable, Passing, QueueKey
from popmq_broker.core.groups.passing import EVERYTHING, PassRecord
from popmq_common.errors import Corrupt

KEY = QueueKey("billing", "orders", 3)
WAYS = [
    EVERYTHING,
    Passing(1, "a || b"),
    Passing(2, "name = '{1:2, 3:4}' AND size > 5 OR text = \"x\", 7:8"),
    Passing(1, "späte,9 :Tags"),
]


@pytest.mark.parametrize("way", WAYS)
def test_a_record_says_what_was_put_into_it(way: Passing) -> None:
    record = PassRecord(KEY, 17, way)
    assert passing.decode(passing.encode(record), where="here") == record


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"c":"g","t":"t","q":"x","so":1,"k":0,"f":""}']
)
def test_what_is_no_record_is_named(body: bytes) -> None:
    with pytest.raises(Corrupt, match="here"):
        passing.decode(body, where="here")


def test_the_positions_file_keeps_any_expression() -> None:
    """Numbers before colons stand without quotes there, and are put into quotes to be read."""
    passes = {KEY._replace(queue_id=i): way for i, way in enumerate(WAYS[1:])}
    table = OffsetTable(4711, {KEY: 5}, passes=passes)
    assert offsets.decode(offsets.encode(table, 1), where="here") == table
