"""Whose turn it is: bounds, fairness between message groups, and what a restart needs."""

import pytest

from popmq_broker.core.leases import fifo_queue as module
from popmq_broker.core.leases.fifo_queue import FifoEntry, FifoQueue
from popmq_broker.core.leases.grant import Grant, Lease


def lease(offset: int) -> Lease:
    return Lease(Grant(offset, 0, 100, 0, offset, 1), offset * 10, 10)


def with_messages(*names: str) -> FifoQueue:
    order = FifoQueue(0)
    for offset, name in enumerate(names):
        order.found(FifoEntry(offset, name, offset * 10, 10))
    return order


def take(order: FifoQueue, count: int, room_bytes: int = 1_000, attempt_id: str = "") -> list[int]:
    entries = order.next_entries(count, room_bytes)
    for entry in entries:
        order.hold(entry, lease(entry.offset), attempt_id=attempt_id, counted=True)
    return [entry.offset for entry in entries]


def test_message_groups_take_turns() -> None:
    order = with_messages("a", "a", "b", "c")
    assert take(order, 1) == [0]
    assert take(order, 1) == [2]
    order.settle(0)
    assert take(order, 1) == [3], "c was waiting before a was free again"
    assert take(order, 1) == [1]
    assert take(order, 1) == []


def test_a_batch_ends_where_its_bytes_end_but_holds_one_message_always() -> None:
    order = with_messages("a", "a", "a")
    assert take(order, 9, room_bytes=15) == [0, 1]
    order.settle(0)
    order.settle(1)
    assert take(order, 9, room_bytes=1) == [2]


def test_a_message_group_waits_for_all_of_its_messages_that_are_held() -> None:
    order = with_messages("a", "a", "a")
    assert take(order, 2) == [0, 1]
    order.give_back(0, counted=True)
    assert take(order, 9) == []
    assert order.blocked_count() == 2
    order.settle(1)
    assert order.blocked_count() == 0
    assert take(order, 9) == [0], "what failed comes alone"
    order.settle(0)
    assert take(order, 9) == [2]


def test_what_was_given_back_unread_is_no_failure() -> None:
    order = with_messages("a", "a", "a")
    assert take(order, 1) == [0]
    order.give_back(0, counted=False)
    assert take(order, 9) == [0, 1, 2]
    assert [order.entries[offset].attempts for offset in (0, 1, 2)] == [1, 1, 1]


def test_first_passes_what_is_settled_or_was_filtered_out_and_frees_its_leases() -> None:
    order = FifoQueue(0)
    for offset in (1, 2, 4):
        order.found(FifoEntry(offset, "a", 0, 10))
    assert take(order, 9) == [1, 2, 4]
    assert order.advance(5) == []
    assert order.first == 1
    order.settle(2)
    assert order.advance(5) == [], "the first is not settled"
    assert len(order.leases()) == 3
    order.settle(1)
    assert [one.grant.revive_offset for one in order.advance(5)] == [1, 2]
    assert order.first == 4


def test_an_attempt_is_remembered_while_it_holds_something() -> None:
    order = with_messages("a", "b")
    assert take(order, 9, attempt_id="x") == [0, 1]
    order.settle(0)
    assert [entry.offset for entry in order.held_by("x")] == [1]
    order.give_back(1, counted=True)
    assert order.held_by("x") == []
    assert order.held_by("") == []
    assert not order._attempts


def test_one_of_each_message_group_where_a_client_cannot_keep_more_in_order() -> None:
    order = with_messages("a", "a", "b", "b", "c")
    assert not order.has_ready_for(4, single=True)
    chosen = order.next_entries(9, 1_000, single=True)
    assert [entry.offset for entry in chosen] == [0, 2, 4]


def test_nothing_is_left_when_all_is_settled() -> None:
    order = with_messages("a", "b", "a")
    for offset in take(order, 9):
        order.settle(offset)
    order.advance(3)
    assert not order.entries
    assert not order._message_groups
    assert not order._turns


def test_how_far_a_pop_looks_ahead_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ENTRIES_MAX", 2)
    assert not with_messages("a").full
    assert with_messages("a", "a").full
