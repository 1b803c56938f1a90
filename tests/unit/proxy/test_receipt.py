"""Receipt handles: all fields come back, and nothing that was changed is taken."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from popmq_common.errors import InvalidReceiptHandle
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.core.receipt import Receipt, decode, encode

NUMBERS = st.integers(-(2**63), 2**63 - 1)
SMALL = st.integers(-(2**31), 2**31 - 1)


@given(NUMBERS, NUMBERS, NUMBERS, SMALL, SMALL, SMALL, NUMBERS, NUMBERS, SMALL)
def test_round_trip(a: int, b: int, c: int, d: int, e: int, f: int, g: int, h: int, i: int) -> None:
    lease = link.LeaseRef(
        start_offset=a,
        pop_time_ms=b,
        invisible_ms=c,
        revive_queue=d,
        retry_mark=e,
        queue_id=f,
        queue_offset=g,
        log_offset=h,
        generation=i,
    )
    text = encode(Receipt("broker-a", lease), "g", "t")
    assert decode(text, "g", "t") == ("broker-a", lease)
    assert text.split(" ")[:9] == [str(n) for n in (a, b, c, d, e, "broker-a", f, g, h)]


HANDLE = encode(Receipt("b", link.LeaseRef(queue_offset=7, generation=1)), "g", "t")


@given(st.integers(0, len(HANDLE) - 1), st.characters(min_codepoint=32, max_codepoint=126))
def test_a_changed_handle_is_refused(at: int, char: str) -> None:
    changed = HANDLE[:at] + char + HANDLE[at + 1 :]
    if changed != HANDLE:
        with pytest.raises(InvalidReceiptHandle):
            decode(changed, "g", "t")


@pytest.mark.parametrize(
    "handle", ["", " ", "x", HANDLE + " 1", HANDLE[:-1], "a b c d e f g h i j"]
)
def test_nonsense_is_refused(handle: str) -> None:
    with pytest.raises(InvalidReceiptHandle):
        decode(handle, "g", "t")


def test_a_handle_of_another_group_or_topic_is_refused() -> None:
    for group, topic in (("g2", "t"), ("g", "t2")):
        with pytest.raises(InvalidReceiptHandle, match="not given for this group"):
            decode(HANDLE, group, topic)
