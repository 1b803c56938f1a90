"""The audits of brokers put together: the verdict, what it rests on, sums, and what changed."""

from collections import Counter
from dataclasses import replace

import pytest
from harness.audited_brokers import MINUTE, broker, epoch, made

from popmq_pipelines.audit.verdict import AuditVerdict
from popmq_pipelines.cluster.audited_broker import AuditedBroker, Traffic

TAKEN = ("orders", "billing")


def balance(**counts: int) -> dict[tuple[str, str], Counter[str]]:
    return {TAKEN: Counter(counts)}


FAIL = {
    "verdict": AuditVerdict.FAIL,
    "finding_places": [
        {"kind": "skipped", "topic": "orders", "consumer_group": "billing", "finding_count": 3}
    ],
}
UNREAD = {"verdict": AuditVerdict.INCOMPLETE, "problems": ["a disk"]}


@pytest.mark.parametrize(
    ("brokers", "problems", "verdict"),
    [
        ([broker("a"), broker("b")], (), "PASS"),
        ([broker("a"), broker("b", **UNREAD)], (), "INCOMPLETE"),
        ([broker("a", **FAIL), broker("b", **UNREAD)], (), "FAIL"),
        ([broker("a")], ("b cannot be read",), "INCOMPLETE"),
        ([], (), "INCOMPLETE"),
    ],
)
def test_the_worst_verdict_is_told_and_nothing_is_green_by_absence(
    brokers: list[AuditedBroker], problems: tuple[str, ...], verdict: str
) -> None:
    assert made(*brokers, problems=problems).verdict == verdict


def test_what_was_never_leased_is_told_apart() -> None:
    one = broker(
        "a",
        balance=balance(stored=20, acked=8, not_leased=12, again_after_expiry=2),
        ready={TAKEN: 5},
        skipped={TAKEN: 3},
    )
    (row,) = made(one, replace(one, skipped={})).groups
    wanted = {"acked": 16, "ready": 10, "skipped": 3, "passed": 11}
    assert {name: count for name, count in row.counts.items() if count} == wanted
    assert row.stored == sum(row.counts.values()) == 40
    assert (row.again, row.owner) == (4, "money")


def test_a_position_set_back_makes_no_more_ready_than_there_is() -> None:
    one = broker("a", balance=balance(stored=20, acked=18, not_leased=2), ready={TAKEN: 20})
    (row,) = made(one).groups
    assert (row.counts["ready"], row.counts["passed"]) == (2, 0)


def test_sums_by_owner() -> None:
    traffic = {0: Traffic(60, 600), 2 * MINUTE: Traffic(120, 1_200)}
    one = broker(
        "a",
        stored={"orders": Traffic(180, 1_800), "rmq_sys_x": Traffic(5, 5)},
        minutes={"shop": traffic},
        balance=balance(stored=180, acked=180),
        times={("money", "store to ack", 1): Counter({4: 98, 100: 2})},
    )
    report = made(one, one)
    assert [row.topic for row in report.inner_topics] == ["rmq_sys_x"]
    shop, money = report.owners
    assert (shop.owner, shop.stored, shop.stored_bytes, shop.topics, shop.groups) == (
        *("shop", 360, 3_600, 1),
        0,
    )
    assert (shop.rate_per_s, shop.peak_per_s) == (2.0, 4.0)
    assert (money.owner, money.groups, money.counts["acked"]) == ("money", 1, 360)
    assert money.store_to_ack is not None
    assert (money.store_to_ack.p50_ms, money.store_to_ack.p99_ms) == (4, 100)
    assert money.store_to_ack.octaves == {3: 196, 7: 4}
    assert report.minutes == {"shop": [[0, 120], [2 * MINUTE, 240]]}


def test_attempts_are_told_apart_and_add_up() -> None:
    times = {
        ("", "store to ack", 1): Counter({1: 5}),
        ("", "store to ack", 2): Counter({9: 3}),
        ("money", "store to ack", 5): Counter({900: 2}),
        ("", "born to store", 0): Counter({2: 10}),
    }
    found = made(broker("a", times=times)).times
    assert [(row.span, row.attempt, row.message_count, row.max_ms) for row in found] == [
        ("born to store", 0, 10, 2),
        ("store to ack", 0, 10, 900),
        ("store to ack", 1, 5, 1),
        ("store to ack", 2, 3, 9),
        ("store to ack", 3, 2, 900),
    ]


def test_what_was_deleted_before_the_first_audit_was_never_looked_at() -> None:
    first = made(broker("a", epoch(1, 0, 50), epoch(2, 50, 100)), broker("b", epoch(1, 30, 100)))
    assert [(one.looked_at, one.never) for one in first.coverage] == [
        ([0, 100], []),
        ([30, 100], [[0, 30]]),
    ]


def test_what_an_audit_has_forgotten_was_looked_at() -> None:
    """`compact` takes the first epochs out of the ledger."""
    first = made(broker("a", epoch(1, 0, 50), epoch(2, 50, 100)))
    later = made(broker("a", epoch(2, 50, 100), epoch(3, 100, 150)), before=first)
    assert [(one.looked_at, one.never) for one in later.coverage] == [([0, 150], [])]


def test_an_audit_that_was_begun_anew_names_what_went_meanwhile() -> None:
    first = made(broker("a", epoch(1, 0, 100)))
    anew = made(broker("a", epoch(1, 130, 200)), before=first)
    assert [(one.looked_at, one.never) for one in anew.coverage] == [([0, 200], [[100, 130]])]
    again = made(broker("a", epoch(1, 130, 200), epoch(2, 200, 300)), before=anew)
    assert [(one.looked_at, one.never) for one in again.coverage] == [([0, 300], [[100, 130]])]


def test_a_log_that_began_anew_is_another_one() -> None:
    first = made(broker("a", epoch(1, 0, 100)))
    wiped = made(broker("a", epoch(1, 0, 40)), before=first)
    assert [(one.looked_at, one.never) for one in wiped.coverage] == [([0, 40], [])]


def test_what_changed_since_the_last_report() -> None:
    orders = {"stored": {"orders": Traffic(10, 100)}}
    first = made(broker("a", **orders), broker("b"))
    assert (first.changes, first.before_ms) == ([], None)
    more = {"stored": {"orders": Traffic(12, 120), "events": Traffic(1, 9)}}
    second = made(broker("a", **FAIL, **more), broker("c"), before=first)
    assert second.before_ms == 5_000
    assert second.changes == [
        "The verdict was PASS and is FAIL.",
        "a: PASS before, FAIL now.",
        "c was audited for the first time: PASS.",
        "b is not in this report any more.",
        "3 new: skipped, orders, billing.",
        "Topic events is new.",
        "Owner money is new.",
        "3 more messages stored.",
        "29 more bytes stored.",
    ]
    third = made(broker("a", **more), broker("c"), before=second)
    assert "No longer found: skipped, orders, billing (3)." in third.changes
