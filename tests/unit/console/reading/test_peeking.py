"""Which messages does a look take, and which pass its filter?"""

import pytest

from popmq_admin.v1 import admin_pb2 as admin
from popmq_console.reading.peeking import (
    SCANNED_MAX,
    PeekFilter,
    QueuePlace,
    chosen_queues,
    newest_places,
    oldest_places,
    places_from,
    queue_of,
)


def queue(number: int, low: int, high: int, broker: str = "a") -> admin.TopicQueue:
    return admin.TopicQueue(broker=broker, queue_id=number, min_offset=low, max_offset=high)


QUEUES = [queue(0, 5, 8), queue(1, 0, 0), queue(2, 0, 2, "b")]


def test_the_newest_of_all_queues_in_turns() -> None:
    found = newest_places(QUEUES, 4)
    assert found == [
        QueuePlace("a", 0, 7),
        QueuePlace("b", 2, 1),
        QueuePlace("a", 0, 6),
        QueuePlace("b", 2, 0),
    ]


def test_the_oldest_begin_at_what_is_still_there() -> None:
    assert oldest_places(QUEUES, 2) == [QueuePlace("a", 0, 5), QueuePlace("b", 2, 0)]


def test_from_an_offset() -> None:
    assert places_from(QUEUES, [7, 7, 7], 9) == [QueuePlace("a", 0, 7)]
    assert places_from(QUEUES, [0, 0, 1], 9)[1] == QueuePlace("b", 2, 1)


def test_a_long_queue_is_not_listed_whole() -> None:
    assert len(newest_places([queue(0, 0, 10**9)], 10**6)) == SCANNED_MAX


def test_all_or_one_queue() -> None:
    assert chosen_queues(QUEUES, *queue_of("")) == QUEUES
    assert [one.queue_id for one in chosen_queues(QUEUES, *queue_of("2"))] == [2]
    assert chosen_queues(QUEUES, *queue_of("a:2")) == []
    assert queue_of("broker:x:3") == ("broker:x", 3)


@pytest.mark.parametrize("text", ["x", "a:", ":", "-1", "1.5", "9" * 20, "²"])
def test_what_is_no_queue_is_told(text: str) -> None:
    with pytest.raises(ValueError, match="is no queue"):
        queue_of(text)


def test_a_filter_by_tag_key_and_text() -> None:
    message = admin.StoredMessage(
        tag="new", keys=["k1"], message_id="M", body=b"Hello", properties={"shop": "Berlin"}
    )
    passing = [
        PeekFilter(),
        PeekFilter(tag="new"),
        PeekFilter(key="k1"),
        PeekFilter(key="M"),
        PeekFilter(text="hELL"),
        PeekFilter(text="berlin"),
    ]
    assert all(one.passes(message) for one in passing)
    failing = [
        PeekFilter(tag="ne"),
        PeekFilter(key="k"),
        PeekFilter(text="x"),
        PeekFilter("new", "k2"),
    ]
    assert not any(one.passes(message) for one in failing)
    assert not PeekFilter()
