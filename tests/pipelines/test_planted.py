"""Small stories, each in a topic of its own: those with a fault are found, the others are not."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
from harness.audit import LONG_MS, Bench, found
from harness.log_writer import GROUP, LogWriter

from popmq_pipelines.audit.verdict import AuditVerdict

pytestmark = [pytest.mark.pipelines, pytest.mark.timeout(600)]


def in_their_time_or_in_the_grace(log: LogWriter) -> None:
    log.ack(log.pop(0))
    log.pop(1)
    log.pop(2, invisible_ms=10 * LONG_MS)


def changed_without_the_end_of_the_old_lease(log: LogWriter) -> None:
    """A crash may fall between the two records: the new lease counts."""
    old = log.pop(0)
    new = replace(old, pop_time_ms=log.now_ms + 1, generation=2)
    log.write_checkpoint(new)
    log.ack(new)


def moved_back_and_leased_again(log: LogWriter) -> None:
    log.ack(log.pop(0))
    log.pop(1)
    log.move(0)
    log.now_ms += 1
    log.ack(log.pop(0, 1))


def moved_to_the_end(log: LogWriter) -> None:
    """The group's position is set to the end; what was leased is forgotten."""
    log.pop(0, 1, 2)
    log.move(3)


HARMLESS: dict[Callable[[LogWriter], None], dict[str, int]] = {
    in_their_time_or_in_the_grace: {"acked": 1, "in_flight": 2},
    changed_without_the_end_of_the_old_lease: {"acked": 1},
    moved_back_and_leased_again: {"acked": 2},
    moved_to_the_end: {"voided": 3},
}


def test_nothing_is_found_where_nothing_is_wrong(bench: Bench) -> None:
    """Each has a topic of its own; leases are due up to a millisecond before the grace ends."""
    for story in HARMLESS:
        bench.log.topic = story.__name__
        for i in range(3):
            bench.log.send(f"m{i}")
    began_ms = bench.log.now_ms
    for story in HARMLESS:
        bench.log.topic = story.__name__
        story(bench.log)
    bench.log.pass_time(began_ms + LONG_MS - 2 - bench.log.now_ms)
    bench.log.save_offsets()
    report = bench.audit()
    assert found(report) == []
    assert report.verdict is AuditVerdict.PASS
    states = Counter((row["topic"], row["state"]) for row in bench.table("recon_message_state"))
    assert states == {
        (story.__name__, state): count
        for story, counts in HARMLESS.items()
        for state, count in counts.items()
    }


def changed_twice_and_never_ended(log: LogWriter) -> None:
    log.change(log.change(log.pop(0), 1_000), 1_000)


def one_of_three_never_ended(log: LogWriter) -> None:
    log.send("m2")
    log.ack(log.pop(0, 1, 2), 0, 2)


def expired_without_copy(log: LogWriter) -> None:
    log.ack(log.pop(0), expired=True)


def expired_with_the_copy_of_another(log: LogWriter) -> None:
    log.expire(log.pop(0), 0, "m1")


def expired_with_a_copy_in_a_strange_place(log: LogWriter) -> None:
    log.expire(log.pop(0), 0, "m0", topic="%RETRY%others_orders")


def copied_but_not_ended(log: LogWriter) -> None:
    log.ack(log.pop(0))
    log.copy("m0")


def acked_twice(log: LogWriter) -> None:
    lease = log.pop(0)
    log.ack(lease)
    log.ack(lease)


def acked_and_copied(log: LogWriter) -> None:
    lease = log.pop(0)
    log.ack(lease)
    log.expire(lease, 0, "m0")


def checkpointed_twice(log: LogWriter) -> None:
    lease = log.pop(0)
    log.write_checkpoint(lease)
    log.ack(lease)


def leased_while_held(log: LogWriter) -> None:
    first = log.pop(0)
    log.now_ms += 1
    second = log.pop(0)
    log.ack(first)
    log.ack(second)


def leased_after_its_end(log: LogWriter) -> None:
    log.ack(log.pop(0))
    log.now_ms += 1
    log.ack(log.pop(0))


def leased_again_with_moves_before_and_after(log: LogWriter) -> None:
    log.move(0)
    log.ack(log.pop(0))
    log.now_ms += 1
    log.ack(log.pop(0))
    log.move(1)


def stored_twice(log: LogWriter) -> None:
    log.ack(log.pop(0))
    log.stored[log.topic, 0] -= 1
    log.send("m1 again")


def not_stored(log: LogWriter) -> None:
    log.ack(log.pop(0))
    log.stored[log.topic, 0] += 2
    log.send("behind a hole")


def leased_beyond_the_queue(log: LogWriter) -> None:
    log.ack(log.pop(0))
    log.ack(log.pop(2))


def acked_beyond_the_queue(log: LogWriter) -> None:
    lease = log.pop(0)
    log.ack(lease)
    log.ack(replace(lease, offsets=(7,)))


def moved_beyond_the_queue(log: LogWriter) -> None:
    log.ack(log.pop(0))
    log.move(4)


FAULTS: dict[Callable[[LogWriter], None], set[tuple[str, int]]] = {
    changed_twice_and_never_ended: {("lease overdue", 0)},
    one_of_three_never_ended: {("lease overdue", 1)},
    expired_without_copy: {("copy missing", 0)},
    expired_with_the_copy_of_another: {("copy missing", 0)},
    expired_with_a_copy_in_a_strange_place: {("copy missing", 0)},
    copied_but_not_ended: {("copy without end", 0)},
    acked_twice: {("ended twice", 0)},
    acked_and_copied: {("ended twice", 0)},
    checkpointed_twice: {("checkpointed twice", 0)},
    leased_while_held: {("leased while held", 0)},
    leased_after_its_end: {("leased after its end", 0)},
    leased_again_with_moves_before_and_after: {("leased after its end", 0)},
    stored_twice: {("stored twice", 1)},
    not_stored: {("message missing", 2)},
    leased_beyond_the_queue: {("beyond the queue", 2)},
    acked_beyond_the_queue: {("ack without checkpoint", 7), ("beyond the queue", 7)},
    moved_beyond_the_queue: {("beyond the queue", 3)},
}


def test_every_planted_fault_is_found_and_nothing_else(bench: Bench) -> None:
    """Each has a topic of its own; what is found of its retry topic counts for it."""
    for fault in FAULTS:
        bench.log.topic = fault.__name__
        for i in range(2):
            bench.log.send(f"m{i}")
        fault(bench.log)
    bench.log.pass_time(LONG_MS)
    bench.log.save_offsets()
    report = bench.audit()
    assert report.verdict is AuditVerdict.FAIL
    expected = {(fault.__name__, *one) for fault, several in FAULTS.items() for one in several}
    named = [
        (topic.removeprefix(f"%RETRY%{GROUP}_"), kind, offset)
        for kind, topic, _, _, offset in found(report)
    ]
    assert sorted(named) == sorted(expected)
    gaps, duplicates = bench.table("recon_gaps"), bench.table("recon_duplicates")
    assert len(gaps) + len(duplicates) == len(named) == sum(report.finding_counts.values())
    assert {row["offset_count"] for row in gaps if row["kind"] == "message missing"} == {2}
    assert "stored twice" in {row["kind"] for row in duplicates}
