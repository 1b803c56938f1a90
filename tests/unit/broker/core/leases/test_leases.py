"""The lease table: what is due when, and what an ack finds."""

from popmq_broker.core.groups.offsets import QueueKey
from popmq_broker.core.leases.grant import Grant, Lease
from popmq_broker.core.leases.leases import STALE_DUE_MIN, GroupQueueState, LeaseOutcome, LeaseTable

KEY = QueueKey("g", "t", 0)


def table_with_queue() -> tuple[LeaseTable, GroupQueueState]:
    table = LeaseTable()
    queue = table.queues[KEY] = GroupQueueState(KEY, 0)
    return table, queue


def leases(*offsets: int, popped_ms: int = 0, generation: int = 1) -> dict[int, Lease]:
    grant = Grant(offsets[0], popped_ms, 100, 0, 0, generation)
    return {offset: Lease(grant, 0, 1) for offset in offsets}


def test_the_lease_of_the_very_first_message_is_due_like_any_other() -> None:
    table, queue = table_with_queue()
    table.add(queue, leases(0))
    assert table.next_due_ms() == 100
    assert [due.offsets for due in table.take_due(100, 10)] == [(0,)]


def test_what_waits_for_its_revival_is_counted() -> None:
    table, queue = table_with_queue()
    table.add(queue, leases(3, 4, 5))
    table.add(queue, leases(9, popped_ms=50))
    table.end(queue, (4,), LeaseOutcome.ALREADY_ACKED)
    assert [table.overdue_count(now_ms) for now_ms in (99, 100, 150)] == [0, 2, 3]
    table.take_due(100, 9)
    assert table.overdue_count(150) == 1


def test_a_grant_is_taken_in_parts_when_it_is_larger_than_what_is_wanted() -> None:
    table, queue = table_with_queue()
    table.add(queue, leases(3, 4, 5))
    table.end(queue, (4,), LeaseOutcome.ALREADY_ACKED)
    assert [due.offsets for due in table.take_due(100, 1)] == [(3,)]
    assert [due.offsets for due in table.take_due(100, 9)] == [(5,)]
    assert table.take_due(100, 9) == []


def test_no_more_is_taken_than_fits_into_the_bytes_wanted() -> None:
    table, queue = table_with_queue()
    table.add(queue, leases(3, 4, 5))
    table.add(queue, leases(9))
    assert [due.offsets for due in table.take_due(100, 9, 2)] == [(3, 4)]
    assert [due.offsets for due in table.take_due(100, 9, 2)] == [(5,), (9,)]


def test_a_lease_that_was_replaced_is_due_only_once_and_later() -> None:
    table, queue = table_with_queue()
    table.add(queue, leases(7))
    table.add(queue, leases(7, popped_ms=50, generation=2))
    assert table.live_count == 1
    assert table.take_due(149, 9) == []
    assert table.next_due_ms() == 150
    assert [due.grant.generation for due in table.take_due(150, 9)] == [2]


def test_the_heap_does_not_grow_with_leases_that_ended() -> None:
    table, queue = table_with_queue()
    for offset in range(10 * STALE_DUE_MIN):
        table.add(queue, leases(offset))
        table.end(queue, (offset,), LeaseOutcome.ALREADY_ACKED)
    assert len(table._due) <= STALE_DUE_MIN + 1
    assert table.next_due_ms() is None


def test_what_could_not_be_revived_is_looked_at_again_later() -> None:
    table, queue = table_with_queue()
    table.add(queue, leases(1, 2))
    table.put_back(table.take_due(100, 9), 1_100)
    assert table.take_due(1_099, 9) == []
    assert [due.offsets for due in table.take_due(1_100, 9)] == [(1, 2)]


def test_t83_a_lease_that_was_renewed_or_returned_is_due_once_at_its_new_time() -> None:
    table, queue = table_with_queue()
    table.add(queue, leases(7))
    longer, shorter, same = (Grant(7, 0, ms, 0, 0, 1) for ms in (200, 150, 150))
    for grant in (longer, shorter, same):
        table.add(queue, {7: Lease(grant, 0, 1)})
    assert table.take_due(149, 9) == []
    assert [due.offsets for due in table.take_due(1_000, 9)] == [(7,)]
    assert table.live_count == 1


def test_a_queue_with_nothing_to_hand_out_and_nothing_to_commit_is_done() -> None:
    _, queue = table_with_queue()
    assert queue.is_done_to(0)
    assert not queue.is_done_to(1), "a message is ready"
    queue.position = 1
    assert not queue.is_done_to(1), "what was handed out is not committed yet"
    queue.advance(1)
    assert queue.is_done_to(1)
    assert not GroupQueueState(KEY, 0, fifo=True).is_done_to(0), "an order may hold what came back"
