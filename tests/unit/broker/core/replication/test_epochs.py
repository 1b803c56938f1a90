"""Epochs: where two logs part, against a slow model that compares bytes; what the file may hold."""

import json
from dataclasses import dataclass, field
from itertools import count, takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from popmq_broker.core.replication.epochs import (
    EPOCHS_MAX,
    Epochs,
    EpochStart,
    decode,
    encode,
    epoch_at,
    split,
)
from popmq_common.errors import Corrupt

REPLICAS = 3


@dataclass
class Log:
    """A replica's log; no two bytes that were appended are equal."""

    data: list[int] = field(default_factory=list)
    epochs: Epochs = field(default_factory=Epochs)

    def cut(self, end: int) -> None:
        del self.data[end:]
        self.epochs = self.epochs.cut(end)

    def restart(self, lost: int) -> None:
        self.cut(max(0, len(self.data) - lost))


def common(one: Log, other: Log) -> int:
    pairs = zip(one.data, other.data, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def where_equal(one: Log, other: Log) -> int | None:
    return split(one.epochs.starts, len(one.data), other.epochs.starts, len(other.data))


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("lead"), st.integers(0, REPLICAS - 1), st.integers(0, 5)),
        st.tuples(st.just("follow"), st.permutations(range(REPLICAS)), st.integers(0, 8)),
        st.tuples(st.just("crash"), st.integers(0, REPLICAS - 1), st.integers(0, 4)),
    ),
    max_size=40,
)


def follow(follower: Log, primary: Log, most: int) -> None:
    """Cut where the logs part, then take bytes, epoch by epoch."""
    end = where_equal(primary, follower)
    follower.cut(end or 0)
    while most and len(follower.data) < len(primary.data):
        found = epoch_at(primary.epochs.starts, len(follower.data))
        assert found is not None
        begins, epoch_end = found
        if begins != follower.epochs.last:
            follower.epochs = follower.epochs.taken(begins)
        at = len(follower.data)
        taken = primary.data[at : min(at + most, epoch_end or len(primary.data))]
        follower.data += taken
        most -= len(taken)


@given(STEPS)
def test_the_split_is_where_the_bytes_part(steps: list[tuple[str, object, int]]) -> None:
    logs = [Log() for _ in range(REPLICAS)]
    numbers, epochs = count(), count(1)
    for kind, who, number in steps:
        if kind == "follow":
            assert isinstance(who, list)
            follow(logs[who[0]], logs[who[1]], number)
        else:
            assert isinstance(who, int)
            log = logs[who]
            if kind == "lead":
                log.epochs = log.epochs.begun(next(epochs), len(log.data))
                log.data += [next(numbers) for _ in range(number)]
            else:
                log.restart(number)
        for one in logs:
            for other in logs:
                assert (where_equal(one, other) or 0) == common(one, other)


FAR = (EpochStart(1, 0), EpochStart(3, 50), EpochStart(4, 80))


@pytest.mark.parametrize(
    ("mine", "my_end", "theirs", "their_end", "expected"),
    [
        (FAR, 100, FAR, 100, 100),
        (FAR, 100, FAR, 90, 90),
        (FAR, 90, FAR, 100, 90),
        (FAR, 100, FAR[:2], 70, 70),
        (FAR, 100, FAR[:2], 85, 80),
        (FAR, 100, FAR[:1], 60, 50),
        (FAR, 100, (EpochStart(1, 0), EpochStart(2, 40)), 60, 40),
        (FAR, 100, (EpochStart(1, 0), EpochStart(2, 60)), 90, 50),
        (FAR, 100, (), 0, 0),
        ((), 0, FAR, 100, 0),
        (FAR, 100, (EpochStart(2, 10),), 20, None),
        (FAR, 100, (), 20, None),
        # the same number, but another beginning: of other data
        ((EpochStart(1, 0),), 10, (EpochStart(1, 5),), 10, None),
        # the oldest are forgotten on one side
        (FAR, 100, FAR[1:], 70, 70),
    ],
)
def test_where_two_logs_part(
    mine: tuple[EpochStart, ...],
    my_end: int,
    theirs: tuple[EpochStart, ...],
    their_end: int,
    expected: int | None,
) -> None:
    assert split(mine, my_end, theirs, their_end) == expected
    assert split(theirs, their_end, mine, my_end) == expected


def test_an_epoch_in_which_nothing_was_appended_is_gone() -> None:
    epochs = Epochs().begun(2, 0).begun(3, 0).begun(5, 40).begun(6, 40)
    assert epochs == Epochs(6, (EpochStart(3, 0), EpochStart(6, 40)))


def test_an_epoch_begins_above_all_that_was_promised() -> None:
    with pytest.raises(AssertionError):
        Epochs(promised=5).begun(4, 0)
    with pytest.raises(AssertionError):
        Epochs(promised=2).begun(2, 0).begun(2, 10)


def test_a_promise_is_never_taken_back() -> None:
    assert Epochs(promised=5).promise(4) == Epochs(promised=5)
    assert Epochs(promised=5).cut(0).promised == 5


def test_the_oldest_epochs_are_forgotten() -> None:
    epochs = Epochs()
    for epoch in range(1, EPOCHS_MAX + 10):
        epochs = epochs.begun(epoch, epoch * 10)
    assert len(epochs.starts) == EPOCHS_MAX
    assert epochs.last == EpochStart(EPOCHS_MAX + 9, (EPOCHS_MAX + 9) * 10)
    follower = Epochs(EPOCHS_MAX + 99, epochs.starts).taken(EpochStart(EPOCHS_MAX + 99, 1 << 40))
    assert len(follower.starts) == EPOCHS_MAX


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (0, (EpochStart(1, 0), 50)),
        (49, (EpochStart(1, 0), 50)),
        (50, (EpochStart(3, 50), 80)),
        (80, (EpochStart(4, 80), None)),
        (1_000, (EpochStart(4, 80), None)),
    ],
)
def test_which_epoch_a_byte_belongs_to(
    offset: int, expected: tuple[EpochStart, int | None]
) -> None:
    assert epoch_at(FAR, offset) == expected


def test_a_byte_before_the_first_known_epoch_belongs_to_none() -> None:
    assert epoch_at(FAR[1:], 49) is None
    assert epoch_at((), 0) is None


def test_the_file_is_read_as_it_was_written() -> None:
    for epochs in (Epochs(), Epochs(7), Epochs(4, FAR), Epochs(9, FAR[1:])):
        assert decode(encode(epochs)) == epochs


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "{}",
        '{"promised": 1}',
        '{"epochs": [], "promised": "x"}',
        '{"epochs": [], "promised": -1}',
        '{"epochs": [[1]], "promised": 1}',
        '{"epochs": [[1, 2, 3]], "promised": 1}',
        '{"epochs": [["a", 0]], "promised": 1}',
        '{"epochs": [[1, -5]], "promised": 1}',
        '{"epochs": [[2, 0], [1, 10]], "promised": 2}',
        '{"epochs": [[1, 10], [2, 0]], "promised": 2}',
        '{"epochs": [[1, 0], [1, 10]], "promised": 2}',
        '{"epochs": [[1, 10], [2, 10]], "promised": 2}',
        '{"epochs": [[1, 0], [3, 10]], "promised": 2}',
        '{"epochs": {"1": 0}, "promised": 1}',
        '{"epochs": 7, "promised": 1}',
    ],
)
def test_a_file_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(Corrupt, match=r"epochs\.json"):
        decode(text)


@given(st.recursive(st.none() | st.integers() | st.text(), st.lists))
def test_no_json_is_taken_for_epochs_by_chance(value: object) -> None:
    with pytest.raises(Corrupt):
        decode(json.dumps(value))
