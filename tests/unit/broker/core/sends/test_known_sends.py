"""Which messages were sent lately: keys, bounds, and what a record is of."""

import pytest

from popmq_broker.core.sends.known_sends import KnownSends, id_of, key_of
from popmq_broker.core.sends.sent_message import StoredSend, is_repeat, sent_message
from popmq_common.records import properties as names
from popmq_common.records.names import HALF_TOPIC, TIMER_TOPIC, dead_letter_topic, retry_topic
from popmq_common.records.record import Record, SysFlag
from popmq_common.units import LogOffset, QueueOffset

USUAL = "01AABBCCDDEEFF00110011223300000001"


def properties(message_id: str = USUAL, **more: str) -> bytes:
    return names.encode({names.UNIQ_KEY: message_id, **more})


def record(topic: str, text: bytes, sys_flag: int = 0, body: bytes = b"a") -> Record:
    host = bytes(8)
    place = 0, QueueOffset(0), LogOffset(0)
    return Record(topic, *place, body, text, sys_flag, 0, 0, host, 0, host, 0)


@pytest.mark.parametrize("message_id", [USUAL, "short", "x" * 200, "ä"])
def test_a_key_is_of_topic_and_id_wherever_the_id_stands(message_id: str) -> None:
    first = names.encode({names.UNIQ_KEY: message_id, "colour": "blue"})
    later = names.encode({"U": "x" * 40, "colour": "blue", names.UNIQ_KEY: message_id})
    assert id_of(first) == id_of(later) == message_id.encode()
    assert key_of("t", first) == key_of("t", later)
    assert key_of("t", first) != key_of("u", first)
    assert key_of("t", first) != key_of("t", names.encode({names.UNIQ_KEY: message_id + "1"}))


def test_a_property_as_long_as_an_id_is_taken_for_one_only_by_its_first_letter() -> None:
    other = names.encode({"colour": "b" * 36, names.UNIQ_KEY: USUAL})
    assert key_of("t", other) == key_of("t", properties())


def test_keys_are_all_new_once() -> None:
    known = KnownSends(100, 1_000)
    keys = [key_of("t", properties(name)) for name in "ab"]
    assert known.all_new(keys)
    assert not known.all_new([keys[0], keys[0]])
    known.add(keys, [10, 20], 0)
    assert [known.find(key) for key in keys] == [10, 20]
    assert not known.all_new(keys[1:])
    assert known.all_new([key_of("t", properties("c"))])
    assert known.find(key_of("t", properties("c"))) is None


def test_at_least_half_of_the_newest_are_known_and_never_more_than_all() -> None:
    known = KnownSends(100, 1_000)
    for number in range(1_000):
        known.add([number], [number], 0)
        assert len(known) <= 100
        newest = range(max(0, number - 49), number + 1)
        assert all(known.find(key) == key for key in newest)


def test_a_send_is_known_for_its_age_and_not_for_twice_that() -> None:
    known = KnownSends(100, 1_000)
    known.add([1], [1], 0)
    for now_ms in range(100, 2_100, 100):
        known.add([now_ms], [0], now_ms)
        assert (known.find(1) is not None) is (now_ms < 2_000)


def test_a_clock_that_jumps_ends_one_table_and_no_more() -> None:
    known = KnownSends(100, 1_000)
    known.add([1], [1], 0)
    known.add([2], [2], 1 << 40)
    assert known.find(1) == 1
    known.add([3], [3], 0)
    assert [known.find(key) for key in (1, 2, 3)] == [1, 2, 3]


def test_none_is_known_if_it_is_off() -> None:
    assert not KnownSends(0, 1_000).on
    assert not KnownSends(1_000, 0).on


@pytest.mark.parametrize(
    ("topic", "more", "sys_flag", "expected"),
    [
        ("t", {}, 0, StoredSend("t", USUAL.encode(), False, False)),
        ("t", {names.TIMER_OF: "7"}, 0, None),
        ("t", {names.REDRIVE_OF: "d@7"}, 0, None),
        ("t", {}, SysFlag.COMMIT.value, None),
        ("t", {f"MY{names.TIMER_OF}": "7"}, 0, StoredSend("t", USUAL.encode(), False, False)),
        (retry_topic("g", "t"), {}, 0, None),
        (dead_letter_topic("g"), {}, 0, None),
        (TIMER_TOPIC, {names.REAL_TOPIC: "t"}, 0, StoredSend("t", USUAL.encode(), False, True)),
        (TIMER_TOPIC, {names.REAL_TOPIC: "t", names.TIMER_OF: "7"}, 0, None),
        (TIMER_TOPIC, {names.REAL_TOPIC: "t", names.TIMER_DEL_KEY: "t+x"}, 0, None),
        (TIMER_TOPIC, {}, 0, None),
        (HALF_TOPIC, {names.REAL_TOPIC: "t"}, 0, StoredSend("t", USUAL.encode(), True, False)),
        (HALF_TOPIC, {names.REAL_TOPIC: "t", names.HALF_ORIGIN: "1@2@3"}, 0, None),
    ],
)
def test_which_send_a_record_is_of(
    topic: str, more: dict[str, str], sys_flag: int, expected: StoredSend | None
) -> None:
    assert sent_message(record(topic, properties(**more), sys_flag)) == expected


def test_a_record_without_an_id_is_of_no_send() -> None:
    assert sent_message(record("t", b"colour\x01blue\x02")) is None


@pytest.mark.parametrize(
    ("change", "repeats"),
    [
        ({}, True),
        ({"topic": "u"}, False),
        ({"properties": properties("other")}, False),
        ({"body": b"b"}, False),
        ({"half": True}, False),
        ({"may_wait": True}, True),
    ],
)
def test_what_is_a_repeat(change: dict[str, object], repeats: bool) -> None:
    sent = {"topic": "t", "properties": properties(), "body": b"a", "sys_flag": 0}
    kind = {"half": False, "may_wait": False}
    asked: dict[str, object] = {**sent, **kind, **change}
    assert is_repeat(record("t", properties()), **asked) is repeats  # type: ignore[arg-type]


def test_a_message_that_waits_is_no_repeat_of_one_that_does_not() -> None:
    waits = record(TIMER_TOPIC, properties(**{names.REAL_TOPIC: "t"}))
    for may_wait in (False, True):
        found = is_repeat(
            waits,
            topic="t",
            properties=properties(),
            body=b"a",
            sys_flag=0,
            half=False,
            may_wait=may_wait,
        )
        assert found is may_wait


def test_a_body_may_be_compressed_again() -> None:
    flag = SysFlag.COMPRESSED.value
    stored = record("t", properties(), flag, b"one way")
    assert is_repeat(
        stored,
        topic="t",
        properties=properties(),
        body=b"other way",
        sys_flag=flag,
        half=False,
        may_wait=False,
    )


def test_older_ones_are_added_while_nothing_is_dropped() -> None:
    known = KnownSends(4, 1_000)
    known.add([1], [10], 0)
    assert known.add_older([1, 2], [5, 6])
    assert (known.find(1), known.find(2)) == (10, 6)
    assert not known.add_older([3], [7])  # no room
    turned = KnownSends(100, 1_000)
    turned.add([1], [10], 0)
    turned.add([2], [20], 1_000)
    assert not turned.add_older([3], [7])
    assert turned.find(3) is None
