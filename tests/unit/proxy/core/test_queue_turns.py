"""Over which queues messages without a group spread."""

from collections import Counter

from popmq_proxy.core.queue_turns import STAY_MS, TOPICS_MAX, QueueTurns

QUEUES = [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1)]


def test_slow_sends_fill_one_queue_after_the_other() -> None:
    turns = QueueTurns()
    took = [turns.next("topic", QUEUES, at * STAY_MS) for at in range(1, 11)]
    assert took == QUEUES * 2


def test_what_comes_together_lies_together() -> None:
    turns = QueueTurns()
    took = Counter(turns.next("topic", QUEUES, 1_000 + at // 5) for at in range(50))
    assert took == {("a", 0): 30, ("b", 0): 20}


def test_a_steady_stream_fills_all_alike() -> None:
    turns = QueueTurns()
    took = Counter(turns.next("topic", QUEUES, 1_000 + at // 4) for at in range(60_000))
    assert took.keys() == set(QUEUES)
    assert max(took.values()) - min(took.values()) <= 4 * STAY_MS


def test_topics_have_turns_of_their_own() -> None:
    turns = QueueTurns()
    took: dict[str, list[tuple[str, int]]] = {"one": [], "two": []}
    for at in range(1, 11):
        for topic, places in took.items():
            places.append(turns.next(topic, QUEUES, at * STAY_MS))
    assert took == {"one": QUEUES * 2, "two": QUEUES * 2}


def test_a_queue_that_is_gone_is_not_taken() -> None:
    turns = QueueTurns()
    for at in range(1, 4):
        turns.next("topic", QUEUES[:3], at * STAY_MS)
    assert turns.next("topic", QUEUES[:2], 3 * STAY_MS) == ("a", 1)
    assert turns.next("topic", [("c", 0)], 3 * STAY_MS) == ("c", 0)


def test_a_clock_that_is_set_back_stops_no_turn() -> None:
    turns = QueueTurns()
    took = [turns.next("topic", QUEUES[:3], 100_000 - at * 1_000) for at in range(3)]
    assert took == QUEUES[:3]


def test_many_topics_take_no_memory_for_ever() -> None:
    turns = QueueTurns()
    for number in range(TOPICS_MAX + 10):
        turns.next(f"topic-{number}", QUEUES, 1_000)
    assert len(turns._topics) <= TOPICS_MAX
