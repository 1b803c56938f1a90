"""The recall handle: RocketMQ's text, and nothing else passes for one."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from popmq_common.errors import InvalidRecallHandle
from popmq_proxy.core.messages.recall_handle import RecallHandle, decode, encode

NAME = st.text("abcXYZ012-_%", min_size=1, max_size=60)


@given(topic=NAME, broker=NAME, due_ms=st.integers(0, 10**14), message_id=st.text(min_size=1))
def test_round_trip(topic: str, broker: str, due_ms: int, message_id: str) -> None:
    """A message id may hold anything, blanks too."""
    handle = RecallHandle(topic, broker, due_ms, message_id)
    assert decode(encode(handle), topic) == handle


def test_it_is_rocketmqs() -> None:
    handle = encode(RecallHandle("orders", "broker-a", 1_700_000_000_000, "01AB"))
    assert base64.urlsafe_b64decode(handle) == b"v1 orders broker-a 1700000000000 01AB"


@given(text=st.text(max_size=80))
def test_no_text_of_others_passes(text: str) -> None:
    for candidate in (text, base64.urlsafe_b64encode(text.encode("utf-8", "ignore")).decode()):
        try:
            assert decode(candidate, "orders").topic == "orders"
        except InvalidRecallHandle:
            continue


def test_a_handle_of_another_topic_is_refused() -> None:
    handle = encode(RecallHandle("orders", "broker-a", 5, "01AB"))
    with pytest.raises(InvalidRecallHandle, match="not given for this topic"):
        decode(handle, "bills")
    with pytest.raises(InvalidRecallHandle, match="longer than"):
        decode("x" * 5_000, "orders")
