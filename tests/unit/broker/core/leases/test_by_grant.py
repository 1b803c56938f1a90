"""What an ack of many messages ends, and what it finds of each."""

from random import Random

import pytest

from popmq_broker.core.groups.offsets import QueueKey
from popmq_broker.core.leases.by_grant import LeasesByGrant
from popmq_broker.core.leases.grant import Grant, Lease
from popmq_broker.core.leases.leases import GroupQueueState, LeaseOutcome, LeaseTable
from popmq_common.records.receipt import Receipt

KEY = QueueKey("g", "t", 0)
DONE, AGAIN, UNKNOWN = LeaseOutcome.DONE, LeaseOutcome.ALREADY_ACKED, LeaseOutcome.UNKNOWN


def popped(table: LeaseTable, offsets: range, popped_ms: int = 0, generation: int = 1) -> Grant:
    queue = table.queues.setdefault(KEY, GroupQueueState(KEY, 0))
    queue.position = max(queue.position, offsets.stop)
    grant = Grant(offsets[0], popped_ms, 100, 0, 0, generation)
    table.add(queue, {offset: Lease(grant, 0, 1) for offset in offsets})
    return grant


def ref(grant: Grant, offset: int) -> Receipt:
    return Receipt(
        grant.start_offset, grant.pop_time_ms, 100, 0, 0, "b", 0, offset, 0, grant.generation
    )


def test_a_run_of_one_grant_ends_at_once() -> None:
    table, acked = LeaseTable(), LeasesByGrant()
    grant = popped(table, range(4))
    acked.add(table.queues[KEY], ref(grant, 0), [0, 1, 3], 50)
    assert acked.outcomes == [DONE] * 3
    assert [tuple(offsets) for _, offsets in acked.held.values()] == [(0, 1, 3)]


def test_a_message_that_is_named_twice_is_acked_once() -> None:
    table, acked = LeaseTable(), LeasesByGrant()
    grant = popped(table, range(4))
    acked.add(table.queues[KEY], ref(grant, 0), [0, 1, 0], 50)
    acked.add(table.queues[KEY], ref(grant, 0), [1, 2], 50)
    assert acked.outcomes == [DONE, DONE, AGAIN, AGAIN, DONE]
    assert [tuple(offsets) for _, offsets in acked.held.values()] == [(0, 1, 2)]


def test_messages_of_another_pop_are_not_acked_with_a_run() -> None:
    table, acked = LeaseTable(), LeasesByGrant()
    grant = popped(table, range(2))
    popped(table, range(2, 4))
    acked.add(table.queues[KEY], ref(grant, 0), [0, 1, 2], 50)
    assert acked.outcomes == [DONE, DONE, UNKNOWN]


@pytest.mark.parametrize(
    ("now_ms", "outcome"), [(99, LeaseOutcome.DONE), (100, LeaseOutcome.EXPIRED)]
)
def test_a_run_whose_time_is_over_is_expired(now_ms: int, outcome: LeaseOutcome) -> None:
    table, acked = LeaseTable(), LeasesByGrant()
    grant = popped(table, range(4))
    acked.add(table.queues[KEY], ref(grant, 0), [0, 1], now_ms)
    assert acked.outcomes == [outcome] * 2


def test_a_run_finds_what_its_messages_find_one_by_one() -> None:
    seed = Random().randrange(1 << 32)
    random = Random(seed)
    for _ in range(2_000):
        table = LeaseTable()
        grants = [
            popped(table, range(n * 4, n * 4 + 4), random.choice((0, 30)), random.choice((1, 2)))
            for n in range(3)
        ]
        queue = table.queues[KEY]
        queue.fenced_ms = random.choice((0, 0, 20))
        for offset in random.sample(range(12), 3):
            table.end(queue, (offset,), random.choice((AGAIN, LeaseOutcome.EXPIRED)))
        grant = random.choice(grants)
        own = range(grant.start_offset, grant.start_offset + 4)
        offsets = random.choices(own if random.random() < 0.7 else range(14), k=4)
        handle = ref(grant, random.choice(own))
        now_ms = random.choice((50, 110))
        run, single = LeasesByGrant(), LeasesByGrant()
        run.add(queue, handle, offsets, now_ms)
        for offset in offsets:
            single.add(queue, handle, [offset], now_ms)
        assert run.outcomes == single.outcomes, f"seed {seed}"
        assert list(run.held.items()) == list(single.held.items()), f"seed {seed}"
