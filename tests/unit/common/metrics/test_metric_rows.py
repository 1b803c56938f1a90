"""A page of metrics has a bounded number of series, and its sums stay right."""

import random

from popmq_common.metrics.metric import counter
from popmq_common.metrics.metric_rows import OTHER, Rows

SENT = counter("sent", "Sent", "topic")


def page(rows: Rows, sent: dict[str, int]) -> dict[str, float]:
    rows.begin()
    found = rows.counters(SENT, {(topic,): count for topic, count in sent.items()})
    return {labels[0]: value for labels, value in found.items()}


def test_who_comes_late_is_told_together() -> None:
    rows = Rows(2, 1)
    assert page(rows, {"a": 1, "b": 2}) == {"a": 1, "b": 2}
    assert page(rows, {"c": 4, "d": 8, "a": 1, "b": 2}) == {"a": 1, "b": 2, OTHER: 12}
    assert rows.together == 2


def test_a_place_that_is_free_is_taken_and_what_is_told_together_never_falls() -> None:
    rows = Rows(1, 1)
    page(rows, {"a": 1, "b": 5, "c": 7})
    assert page(rows, {"b": 5, "c": 7}) == {OTHER: 12}  # a's place is free from the next page on
    found = page(rows, {"b": 6, "c": 8})
    assert found == {"b": 6, OTHER: 12}  # 8 and the 4 that b left: no fall from 12
    assert page(rows, {"b": 6, "c": 9})[OTHER] == 13
    assert page(rows, {"b": 6}).get(OTHER) is None  # nobody is told together
    assert rows.together == 0


def test_labels_behind_the_key_stay() -> None:
    rows = Rows(1, 2)
    rows.begin()
    found = rows.gauges({("t", "g", "done"): 1, ("u", "g", "done"): 2, ("v", "h", "done"): 3})
    assert found == {("t", "g", "done"): 1, (OTHER, OTHER, "done"): 5}


def test_a_counter_of_one_name_never_falls_whatever_is_made_and_deleted() -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    rng, rows = random.Random(seed), Rows(3, 1)
    sent: dict[str, int] = {}
    last = 0.0
    for _ in range(300):
        name = f"t{rng.randrange(8)}"
        if rng.random() < 0.2:
            sent.pop(name, None)
        else:
            sent[name] = sent.get(name, 0) + rng.randrange(5)
        found = page(rows, sent)
        assert len(found) <= 4
        assert all(found.get(name, 0) == sent[name] for name in found if name != OTHER)
        assert found.get(OTHER, last) >= last
        last = found.get(OTHER, last)
