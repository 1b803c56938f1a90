"""Receipt handles: all fields come back, and nothing that was changed is taken."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from popmq_common.errors import InvalidReceiptHandle
from popmq_common.records.receipt import (
    Receipt,
    broker_of,
    decode,
    encode,
    encode_all,
    of_run,
    runs,
)

NUMBERS = st.integers(-(2**63), 2**63 - 1)
RECEIPTS = st.builds(
    Receipt,
    *[NUMBERS] * 5,
    st.text("abcdefghij-_0", min_size=1),
    *[NUMBERS] * 4,
)


@given(RECEIPTS)
def test_round_trip(given_receipt: Receipt) -> None:
    text = encode(given_receipt, "g", "t")
    assert decode(text) == given_receipt
    assert broker_of(text, "g", "t") == given_receipt.broker
    assert text.split(" ")[:9] == [str(field) for field in given_receipt[:9]]


@given(RECEIPTS, st.lists(st.tuples(NUMBERS, NUMBERS), max_size=5))
def test_many_of_one_grant_are_as_each_alone(first: Receipt, places: list[tuple[int, int]]) -> None:
    alone = [
        encode(first._replace(queue_offset=offset, log_offset=at), "g", "t")
        for offset, at in places
    ]
    assert encode_all(first, places, "g", "t") == alone


@given(st.lists(st.tuples(st.sampled_from((1, 2)), NUMBERS, NUMBERS), max_size=8))
def test_runs_say_what_the_handles_say_one_by_one(given_of: list[tuple[int, int, int]]) -> None:
    first = Receipt(0, 0, 0, 0, 0, "b", 0, 0, 0, 1)
    handles = [
        encode(first._replace(generation=n, queue_offset=offset, log_offset=at), "g", "t")
        for n, offset, at in given_of
    ]
    found = [(ref.generation, offset) for ref, offsets in runs(handles) for offset in offsets]
    assert found == [(n, offset) for n, offset, _ in given_of]


def test_neighbours_of_one_grant_are_one_run() -> None:
    first = Receipt(0, 0, 0, 0, 0, "b", 0, 0, 0, 1)
    handles = encode_all(first, [(3, 30), (4, 50), (6, 70)], "g", "t")
    handles += encode_all(first._replace(queue_id=1), [(3, 90)], "g", "t")
    found = [(ref.queue_id, ref.queue_offset, offsets) for ref, offsets in runs(handles)]
    assert found == [(0, 3, [3, 4, 6]), (1, 3, [3])]


@given(RECEIPTS, st.integers(0, 2**63 - 1))
def test_a_handle_of_a_run_is_another_messages(given_receipt: Receipt, offset: int) -> None:
    text = of_run(encode(given_receipt, "g", "t"), offset)
    assert decode(text) == given_receipt._replace(queue_offset=offset)
    assert broker_of(text, "g", "t") == given_receipt.broker
    with pytest.raises(InvalidReceiptHandle):
        broker_of(text, "g", "t2")
    assert list(runs([text])) == [(decode(text), [offset])]


def test_runs_refuse_what_is_no_handle() -> None:
    with pytest.raises(InvalidReceiptHandle):
        list(runs(["0 0 0"]))


HANDLE = encode(Receipt(0, 0, 0, 0, 0, "b", 0, 7, 0, 1), "g", "t")


@given(st.integers(0, len(HANDLE) - 1), st.characters(min_codepoint=32, max_codepoint=126))
def test_a_changed_handle_is_refused(at: int, char: str) -> None:
    changed = HANDLE[:at] + char + HANDLE[at + 1 :]
    if changed != HANDLE:
        with pytest.raises(InvalidReceiptHandle):
            broker_of(changed, "g", "t")


@pytest.mark.parametrize(
    "handle", ["", " ", "x", HANDLE + " x", HANDLE + " 1 2", HANDLE[:-1], "a b c d e f g h i j"]
)
def test_nonsense_is_refused(handle: str) -> None:
    with pytest.raises(InvalidReceiptHandle):
        broker_of(handle, "g", "t")


def test_a_handle_of_another_group_or_topic_is_refused() -> None:
    for group, topic in (("g2", "t"), ("g", "t2")):
        with pytest.raises(InvalidReceiptHandle, match="not given for this group"):
            broker_of(HANDLE, group, topic)
