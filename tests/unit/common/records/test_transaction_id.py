"""A transaction id says where its half message lies, and nothing else passes for one."""

import pytest

from popmq_common.errors import InvalidTransactionId
from popmq_common.records.transaction_id import TransactionId, decode, encode

PLACE = TransactionId("broker:with colons", 12, 345_678)


def test_what_was_given_out_is_read() -> None:
    assert decode(encode(PLACE)) == PLACE


def test_every_changed_character_is_seen() -> None:
    name = encode(PLACE)
    for i, char in enumerate(name):
        with pytest.raises(InvalidTransactionId):
            decode(name[:i] + ("0" if char != "0" else "1") + name[i + 1 :])


@pytest.mark.parametrize("text", ["", " ", "x", ":::", "a:b:c:d", "01F4ABCD" * 4])
def test_what_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidTransactionId):
        decode(text)
