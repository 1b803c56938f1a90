"""What a delayed message is as a record, before and after its time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from popmq_broker.core.timers import timer, timer_levels
from popmq_broker.core.timers.bits import Bits
from popmq_broker.core.timers.timer_wheel import MARK, WheelEntry
from popmq_common.errors import BadRequest, Corrupt, PropertiesTooLarge
from popmq_common.records import properties as names

NAMED = {names.UNIQ_KEY: "ID", names.TAGS: "a", names.DELIVER_MS: "5000", "colour": "blue"}
TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), min_size=1, max_size=200)


def test_a_parked_record_says_where_and_when() -> None:
    parked = timer.parked(names.encode(NAMED), "orders", 3, 5_000)
    assert names.decode(parked) == NAMED | {
        "TIMER_OUT_MS": "5000",
        "REAL_TOPIC": "orders",
        "REAL_QID": "3",
    }
    named = names.decode(parked)
    assert timer.real_place(named) == ("orders", 3)
    assert timer.entry_of(named, 9) == WheelEntry(5_000, 9, timer.code_of("orders", "ID"))
    delivered = timer.delivered(named, "9")
    assert names.decode(delivered) == NAMED | {"TIMER_OUT_MS": "5000", "__TIMER_OF": "9"}
    assert timer.ends(timer.ended_by(delivered) or "") == [9]


def test_nanoseconds_are_never_too_early() -> None:
    for nanos, due_ms in (("0", 5_000), ("1", 5_001), ("999999", 5_001)):
        assert timer.deliver_at_ms(names.encode(NAMED | {"DELIVER_NANOS": nanos})) == due_ms
    assert timer.deliver_at_ms(names.encode({"a": "b"})) is None
    assert timer.deliver_at_ms(names.encode({names.DELIVER_MS: "-5"})) is None


@given(topic=st.text("abc", min_size=1, max_size=127), offset=st.integers(0, 10**18), more=TEXT)
def test_what_could_be_stored_can_be_delivered(topic: str, offset: int, more: str) -> None:
    """T60: topic and properties of a delivered record are never longer than the parked one's."""
    plain = names.encode(NAMED | {"more": more})
    parked = timer.parked(plain, topic, 0, 1_700_000_000_000)
    delivered = timer.delivered(names.decode(parked), str(offset))
    assert len(topic) + len(delivered) <= len("rmq_sys_wheel_timer") + len(parked)


def test_the_largest_properties_are_refused_when_sent_not_when_due() -> None:
    with pytest.raises(PropertiesTooLarge):
        timer.parked(names.encode({"a": "x" * 32_700}), "orders", 0, 5_000)


def test_a_rolled_record_counts() -> None:
    parked = timer.parked(names.encode(NAMED), "orders", 3, 5_000)
    once = names.decode(timer.rolled(names.decode(parked), "9"))
    twice = names.decode(timer.rolled(once, "21"))
    assert (twice["TIMER_ROLL_TIMES"], twice["__TIMER_OF"]) == ("2", "21")
    assert timer.entry_of(once, 21) == WheelEntry(5_000, 21, timer.code_of("orders", "ID"))


def test_the_mark_of_a_recall_is_rocketmqs() -> None:
    mark = timer.mark("orders", "ID", 5_000, 0, "9,12")
    named = names.decode(mark)
    assert named["TIMER_DEL_UNIQKEY"] == "orders+ID"
    assert (named["TAGS"], named["UNIQ_KEY"]) == ("_RECALL_TAG_", "ID")
    assert timer.ends(named["__TIMER_OF"]) == [9, 12]
    assert timer.entry_of(named, 20) == WheelEntry(5_000, 20, timer.code_of("orders", "ID") | MARK)


def test_a_mark_of_an_older_rocketmq_names_the_id_alone() -> None:
    named = {"TIMER_DEL_UNIQKEY": "ID", "TIMER_OUT_MS": "5000", "REAL_TOPIC": "orders"}
    entry = timer.entry_of(named, 1)
    assert entry == WheelEntry(5_000, 1, timer.code_of("orders", "ID") | MARK)


def test_same_ids_in_two_topics_are_two_messages() -> None:
    assert timer.code_of("orders", "ID") != timer.code_of("bills", "ID")


def test_what_is_no_parked_record() -> None:
    for named in ({}, {"TIMER_OUT_MS": "x", "REAL_TOPIC": "t"}, {"TIMER_OUT_MS": "5"}):
        assert timer.entry_of(named, 0) is None
    assert timer.real_place({}) is None


def test_what_ends_which() -> None:
    assert timer.level_end("3@17") == (3, 17)
    assert timer.ends("3@17") == []
    assert timer.level_end("17") is None
    assert timer.level_end("a@b") is None
    assert timer.ends("1,x,3") == [1, 3]


def test_levels() -> None:
    delays = timer_levels.parse("1s 5m 2h 1d")
    assert delays == (1_000, 300_000, 7_200_000, 86_400_000)
    assert timer_levels.level_of(names.encode({"DELAY": "2"}), delays) == 2
    assert timer_levels.level_of(names.encode({"DELAY": "9"}), delays) == 4
    assert timer_levels.level_of(b"", delays) == 0
    for text in ("5", "x", "1s 5w", "-1s"):
        with pytest.raises(BadRequest, match="is no delay"):
            timer_levels.parse(text)


def test_the_offsets_of_levels_are_rocketmqs_json() -> None:
    text = timer_levels.encode_offsets({2: 7, 1: 3}, 4, 99)
    assert '"offsetTable": {"1": 3, "2": 7}' in text
    assert timer_levels.decode_offsets(text, where="f") == {1: 3, 2: 7}
    with pytest.raises(Corrupt, match="no table of offsets"):
        timer_levels.decode_offsets("[]", where="f")


@given(offsets=st.sets(st.integers(90, 210)))
def test_bits(offsets: set[int]) -> None:
    bits = Bits(100, 200)
    for offset in offsets:
        bits.add(offset)
    assert {i for i in range(90, 210) if i in bits} == {i for i in offsets if 100 <= i < 200}
