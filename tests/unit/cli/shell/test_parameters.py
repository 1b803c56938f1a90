"""What people write on the command line: what is printed is read, what is no such thing is told."""

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from popmq_cli.shell.parameters import (
    DURATION_MS_MAX,
    MessagePosition,
    MessageType,
    QueueRef,
    QueueType,
)
from popmq_common.words import counted, numbered
from popmq_readings.times import TIME_MS_MAX, duration_ms, duration_text, moment, point_in_time

NOW = 1_795_359_747_352
HOUR = 3_600_000


@given(st.integers(0, TIME_MS_MAX))
def test_a_time_that_was_printed_is_read(ms: int) -> None:
    assert point_in_time(moment(ms), NOW) == ms
    assert point_in_time(moment(ms), NOW, ago=False) == ms


@given(st.integers(0, DURATION_MS_MAX))
def test_a_duration_that_was_printed_is_read(ms: int) -> None:
    assert duration_ms(duration_text(ms)) == ms


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2026-11-22T15:02:27.352Z", NOW),
        ("2026-11-22T15:02:27.352", NOW),
        ("2026-11-22 15:02:27.352", NOW),
        ("2026-11-22T17:02:27.352+02:00", NOW),
        ("2026-11-22T17:02:27.352+0200", NOW),
        ("2026-11-22T07:32:27.352-07:30", NOW),
        ("2026-11-22", NOW - NOW % (24 * HOUR)),
        (str(NOW), NOW),
        ("2h", NOW - 2 * HOUR),
        (" 30m ", NOW - HOUR // 2),
        ("7d", NOW - 7 * 24 * HOUR),
    ],
)
def test_times_are_read_with_and_without_a_zone(text: str, ms: int) -> None:
    assert point_in_time(text, NOW) == ms


@pytest.mark.parametrize(
    "text", ["", "yesterday", "12:00", "2026-13-01", "-2h", "1e9", "10000-01-01"]
)
def test_what_is_no_time_is_told_with_one_that_is(text: str) -> None:
    with pytest.raises(ValueError, match=r"no time; write 2026-11-22T15:02:27\.352Z, 30m"):
        point_in_time(text, NOW)


def test_a_time_to_come_is_no_duration() -> None:
    with pytest.raises(ValueError, match="'2h' is no time"):
        point_in_time("2h", NOW, ago=False)


@pytest.mark.parametrize(
    ("text", "queue"),
    [
        ("0", QueueRef("", 0)),
        ("broker-a:7", QueueRef("broker-a", 7)),
        ("a:b:7", QueueRef("a:b", 7)),
    ],
)
def test_a_queue_that_was_printed_is_read(text: str, queue: QueueRef) -> None:
    assert QueueType().convert(text, None, None) == queue
    assert str(queue) == text


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("3:17", MessagePosition("", 3, 17)),
        ("broker-a:3:17", MessagePosition("broker-a", 3, 17)),
        ("01AB", "01AB"),
    ],
)
def test_a_place_that_was_printed_is_read(text: str, place: MessagePosition | str) -> None:
    assert MessageType().convert(text, None, None) == place
    assert str(place) == text


@pytest.mark.parametrize("text", ["", ":", "a", "a:", ":1", "1:-1", "1.5", "99999999999"])
def test_what_is_no_queue_is_told(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is neither QUEUE nor BROKER:QUEUE"):
        QueueType().convert(text, None, None)


def test_one_is_one() -> None:
    assert [counted(count, "message") for count in (0, 1, 2)] == [
        "0 messages",
        "1 message",
        "2 messages",
    ]
    assert counted(1_000, "entry", "entries") == "1,000 entries"
    assert (numbered("queue", 1, 1), numbered("queue", 1, 3)) == ("queue 1", "queues 1 to 3")
