"""When a sign of life renews a lease, until when, and that nothing of a client is left over."""

import pytest

from popmq_broker.core.groups.offsets import QueueKey
from popmq_broker.core.leases.grant import Grant, Lease
from popmq_broker.core.leases.leases import GroupQueueState, LeaseOutcome, LeaseTable
from popmq_broker.core.leases.renewal import renewed, returned

KEY = QueueKey("g", "t", 0)
LEASE_MS_MAX = 1_000


def grant(popped_ms: int = 0, invisible_ms: int = 100, client_id: str = "c") -> Grant:
    return Grant(5, popped_ms, invisible_ms, 0, 0, 1, client_id, 100)


@pytest.mark.parametrize(
    ("now_ms", "due_ms"),
    [
        (0, 100),
        (49, 100),  # before the middle
        (50, 150),
        (99, 199),
        (100, 100),  # over
        (500, 100),
    ],
)
def test_a_sign_of_life_in_the_second_half_renews(now_ms: int, due_ms: int) -> None:
    assert renewed(grant(), now_ms, LEASE_MS_MAX).due_ms == due_ms


def test_no_sign_of_life_renews_beyond_the_maximum_since_the_pop() -> None:
    almost = grant(invisible_ms=980)
    last = renewed(almost, 979, LEASE_MS_MAX)
    assert last.due_ms == 1_000
    assert renewed(last, 999, LEASE_MS_MAX) is last


def test_a_goodbye_never_makes_a_lease_longer() -> None:
    assert returned(grant(), 10, 30).due_ms == 40
    assert returned(grant(), 90, 30).due_ms == 100
    assert not returned(grant(), 90, 30).counted


def test_pop_time_and_generation_stay_so_the_handle_does() -> None:
    for after in (renewed(grant(7), 80, LEASE_MS_MAX), returned(grant(7), 80, 30)):
        assert (after.pop_time_ms, after.generation, after.start_offset) == (7, 1, 5)


@pytest.mark.parametrize("end", ["ack", "fence", "forget", "change", "goodbye"])
def test_t30_whatever_ends_its_leases_a_client_leaves_nothing(end: str) -> None:
    table = LeaseTable()
    queue = table.queues[KEY] = GroupQueueState(KEY, 9)
    made = grant()
    table.add(queue, {offset: Lease(made, 0, 1) for offset in (5, 6)})
    assert [held.offsets for held in table.renewals.of("c")] == [(5, 6)]
    if end == "ack":
        table.end(queue, (5,), LeaseOutcome.ALREADY_ACKED)
        assert [held.offsets for held in table.renewals.of("c")] == [(6,)]
        table.end(queue, (6,), LeaseOutcome.ALREADY_ACKED)
    elif end == "fence":
        table.fence(queue, 20)
    elif end == "forget":
        table.forget(KEY)
    else:
        after = returned(made, 0, 0) if end == "goodbye" else Grant(5, 50, 100, 0, 1, 2)
        table.add(queue, {offset: Lease(after, 0, 1) for offset in (5, 6)})
    assert len(table.renewals) == 0


def test_one_call_gives_no_more_than_asked_for_and_goes_on_where_it_stopped() -> None:
    table = LeaseTable()
    queue = table.queues[KEY] = GroupQueueState(KEY, 99)
    for offset in range(10):
        table.add(queue, {offset: Lease(grant(client_id=f"c{offset % 3}"), 0, 1)})
    clients = ["c0", "c1", "c2", "nobody"]
    seen: set[int] = set()
    while due := table.renewals.due(clients, 60, LEASE_MS_MAX, 4):
        assert len(due) <= 4
        for held in due:
            seen.update(held.offsets)
            longer = renewed(held.grant, 60, LEASE_MS_MAX)
            leases = {offset: Lease(longer, 0, 1) for offset in held.offsets}
            table.add(queue, leases)
    assert seen == set(range(10))
