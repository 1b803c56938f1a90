"""Reading parked records by their bytes says what decoding says, or leaves it to that."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from popmq_broker.core.timers import timer, timer_bytes
from popmq_broker.core.timers.timer_wheel import WheelEntry
from popmq_common.errors import PropertiesTooLarge
from popmq_common.records import properties as names

NAMES = st.sampled_from(
    [
        *[names.UNIQ_KEY, names.TAGS, names.DELIVER_MS, names.TIMER_OUT_MS, names.TIMER_OF, "é"],
        *[names.REAL_TOPIC, names.REAL_QUEUE_ID, names.DELAY_LEVEL, "TIMER_DELAY_SEC", "colour"],
        *[names.TIMER_DEL_KEY, names.TIMER_ROLL_TIMES, "MY_REAL_NAME", f"X{names.UNIQ_KEY}"],
    ]
)
VALUES = st.sampled_from(["", "0", "7", "1700000000000", "orders", "rmq_sys_REVIVE_LOG_c", "é x"])
USUAL = {names.UNIQ_KEY: "01AB", names.TAGS: "a", names.DELIVER_MS: "5000", "colour": "blue"}


@given(
    named=st.dictionaries(NAMES, VALUES, max_size=5),
    topic=st.sampled_from(["orders", "a", "%RETRY%x", "rmq_sys_REVIVE_LOG_c"]),
    rolled=st.booleans(),
    torn=st.integers(0, 3),
)
@example(named=USUAL, topic="orders", rolled=False, torn=0)
def test_both_ways_say_the_same(named: dict[str, str], topic: str, rolled: bool, torn: int) -> None:
    """Also of what no sender of ours writes."""
    sent = names.encode(named)
    parked = timer.parked(sent[: len(sent) - torn], topic, 3, 5_000)
    if rolled:
        parked = timer.rolled(names.decode(parked), "8")
    decoded = names.decode(parked)
    assert timer.entry_in(parked, 9) == timer.entry_of(decoded, 9)
    end = timer_bytes.end_of(parked)
    if end is None:
        return
    assert (end.topic, end.queue_id) == timer.real_place(decoded)
    assert WheelEntry(end.due_ms, 9, end.code) == timer.entry_of(decoded, 9)
    quick = timer_bytes.delivered(parked, end, 9)
    slow = names.decode(timer.delivered(decoded, "9"))
    assert quick is None or names.decode(quick) == slow


def test_what_is_usual_is_not_decoded_and_the_bytes_are_the_same() -> None:
    sent = names.encode(USUAL)
    parked = timer.parked(sent, "orders", 3, 5_000)
    assert parked == timer_bytes.parked(sent, parked[len(sent) :])
    assert parked == names.encode(names.decode(parked))
    end = timer_bytes.end_of(parked)
    assert end is not None
    assert (end.due_ms, end.topic, end.queue_id) == (5_000, "orders", 3)
    assert timer_bytes.delivered(parked, end, 17) == timer.delivered(names.decode(parked), "17")


def test_a_mark_of_a_recall_is_left_to_decoding() -> None:
    assert timer_bytes.end_of(timer.mark("orders", "ID", 5_000, 0, "9")) is None
    named = {names.UNIQ_KEY: "ID", names.TIMER_DEL_KEY: "orders+ID"}
    assert timer_bytes.end_of(timer.parked(names.encode(named), "orders", 0, 5_000)) is None


def test_properties_that_do_not_fit_are_refused_in_the_quick_way_too() -> None:
    size = names.PROPERTIES_BYTES_MAX - len(timer.parked(b"a\x01\x02", "orders", 0, 5_000))
    timer.parked(b"a\x01" + b"x" * size + b"\x02", "orders", 0, 5_000)
    with pytest.raises(PropertiesTooLarge):
        timer.parked(b"a\x01" + b"x" * (size + 10) + b"\x02", "orders", 0, 5_000)
