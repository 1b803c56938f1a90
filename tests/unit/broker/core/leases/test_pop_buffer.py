"""The pop buffer's decisions: what waits, what is stored and in which order, what may be saved."""

import pytest

from popmq_broker.core.groups.offsets import QueueKey
from popmq_broker.core.leases.grant import NOT_STORED, Grant
from popmq_broker.core.leases.leases import GroupQueueState
from popmq_broker.core.leases.pop_buffer import (
    AT_ONCE_MS,
    QUEUE_GRANTS_MAX,
    STALE_MIN,
    GrantBuffer,
    Unstored,
)

KEY = QueueKey("g", "t", 0)
STAY_MS = 10_000


def grant_at(offset: int, *, popped_ms: int = 0, invisible_ms: int = 60_000) -> Grant:
    return Grant(offset, popped_ms, invisible_ms, 0, NOT_STORED, 1)


def buffer_of(leases_max: int = 100_000) -> GrantBuffer:
    return GrantBuffer(stay_ms=STAY_MS, leases_max=leases_max)


def fill(
    buffer: GrantBuffer, line: Unstored, *spans: tuple[int, int], popped_ms: int = 0
) -> list[Grant]:
    """One grant for each (first offset, count)."""
    grants = []
    for first, count in spans:
        grant = grant_at(first, popped_ms=popped_ms)
        buffer.add(KEY, line, grant, tuple(range(first, first + count)), first)
        grants.append(grant)
    return grants


@pytest.mark.parametrize(
    ("acked", "saved"),
    [
        ((), 0),
        (("b", "b", "c"), 0),  # never past the first, whatever is acked behind it
        (("a",), 0),  # acked in part: all of it is needed
        (("a", "a"), 2),
        (("a", "a", "c"), 2),
        (("c", "b", "b", "a", "a"), 9),  # all: where the next pop begins
    ],
)
def test_the_saved_position_passes_what_is_acked_whole_in_order(
    acked: tuple[str, ...], saved: int
) -> None:
    buffer, line = buffer_of(), Unstored()
    grants = dict(zip("abc", fill(buffer, line, (0, 2), (2, 2), (6, 1)), strict=True))
    for name in acked:
        buffer.ended(grants[name])
    assert line.needed_from(9) == saved


@pytest.mark.parametrize(
    ("wanted", "acked", "stored"),
    [
        ("a", "", [("a", 2)]),
        ("c", "", [("a", 2), ("b", 6), ("c", 9)]),  # everything before it goes first
        ("b", "", [("a", 2), ("b", 6)]),
        ("c", "b", [("a", 6), ("c", 9)]),  # what was acked between is passed by the one before
        ("b", "c", [("a", 2), ("b", 9)]),
        ("", "", []),
    ],
)
def test_what_is_stored_before_a_record(
    wanted: str, acked: str, stored: list[tuple[str, int]]
) -> None:
    buffer, line = buffer_of(), Unstored()
    grants = dict(zip("abc", fill(buffer, line, (0, 1), (2, 1), (6, 1)), strict=True))
    names = {grant: name for name, grant in grants.items()}
    for name in acked:
        assert buffer.ended(grants[name])
    steps = line.through({grants[name] for name in wanted}, 9)
    assert [(names[step.entry.grant], step.moves_to) for step in steps] == stored


@pytest.mark.parametrize(
    ("invisible_ms", "held", "takes"),
    [
        (AT_ONCE_MS, 0, True),
        (AT_ONCE_MS - 1, 0, False),  # nearly over already
        (60_000, 8, True),
        (60_000, 9, False),  # no room for two more
    ],
)
def test_what_waits_and_what_is_journaled_at_once(
    invisible_ms: int, held: int, takes: bool
) -> None:
    buffer, line = buffer_of(leases_max=10), Unstored()
    if held:
        fill(buffer, line, (0, held))
    assert buffer.takes(line, 2, invisible_ms) is takes
    buffer.serving = False
    assert not buffer.takes(line, 2, invisible_ms)


def test_one_queue_has_a_bound_of_its_own() -> None:
    buffer, line = buffer_of(), Unstored()
    fill(buffer, line, *((offset, 1) for offset in range(QUEUE_GRANTS_MAX)))
    assert not buffer.takes(line, 1, 60_000)
    assert buffer.takes(Unstored(), 1, 60_000)


@pytest.mark.parametrize(
    ("invisible_ms", "store_ms"),
    [
        (60_000, STAY_MS),  # stayed too long
        (13_000, STAY_MS),
        (12_999, 9_999),  # nearly due
        (AT_ONCE_MS, 1_500),
    ],
)
def test_when_a_grant_is_stored(invisible_ms: int, store_ms: int) -> None:
    buffer, line = buffer_of(), Unstored()
    buffer.add(KEY, line, grant_at(0, invisible_ms=invisible_ms), (0,), 0)
    assert buffer.next_store_ms() == store_ms
    assert buffer.take_due(store_ms - 1, 9) == []
    assert [entry.from_offset for entry in buffer.take_due(store_ms, 9)] == [0]


def test_what_could_not_be_stored_is_tried_again_later() -> None:
    buffer, line = buffer_of(), Unstored()
    first, second = fill(buffer, line, (0, 1), (1, 1))
    taken = buffer.take_due(STAY_MS, 9)
    assert [entry.grant for entry in taken] == [first, second]
    buffer.ended(second)  # acked meanwhile: nothing to store
    buffer.put_back(taken, STAY_MS + 1_000)
    assert buffer.take_due(STAY_MS + 999, 9) == []
    assert [entry.grant for entry in buffer.take_due(STAY_MS + 1_000, 9)] == [first]


def test_a_batch_is_bounded_and_the_rest_comes_with_the_next() -> None:
    buffer, line = buffer_of(), Unstored()
    fill(buffer, line, *((offset, 1) for offset in range(5)))
    assert [len(buffer.take_due(STAY_MS, 2)) for _ in range(4)] == [2, 2, 1, 0]


def test_counts_of_stored_and_merged_add_up() -> None:
    buffer, line = buffer_of(), Unstored()
    first, second = fill(buffer, line, (0, 3), (3, 2))
    assert (len(buffer), buffer.leases) == (2, 5)
    assert [buffer.ended(second), buffer.ended(second)] == [False, True]
    assert (len(buffer), buffer.leases, buffer.merged) == (1, 3, 1)
    buffer.was_stored(line.grants[first])
    assert (len(buffer), buffer.leases, buffer.stored) == (0, 0, 1)
    assert buffer.next_store_ms() is None


def test_t26_two_grants_that_look_the_same_both_end() -> None:
    """RocketMQ: the second finds its key taken and the queue's offset stands still for ever."""
    buffer, line = buffer_of(), Unstored()
    first, second = fill(buffer, line, (0, 1), (0, 1))
    assert first is not second
    assert len(buffer) == 2
    buffer.ended(first)
    buffer.ended(second)
    assert (len(buffer), len(line), line.needed_from(1)) == (0, 0, 1)


def test_the_heap_does_not_grow_with_grants_that_are_gone() -> None:
    buffer, line = buffer_of(), Unstored()
    for offset in range(10 * STALE_MIN):
        (grant,) = fill(buffer, line, (offset, 1))
        buffer.ended(grant)
    assert len(buffer._heap) <= STALE_MIN + 1


def test_a_queue_commits_up_to_the_first_that_is_buffered() -> None:
    queue = GroupQueueState(KEY, 0)
    queue.position = 9
    assert queue.needed_from == 9
    fill(buffer_of(), queue.unstored, (4, 2))
    assert queue.needed_from == 4
