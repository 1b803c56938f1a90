"""Who may be forced to become primary, and with which record."""

from dataclasses import replace

import pytest

from popmq_broker.core.replication.election import heart
from popmq_broker.core.replication.group_record import GroupRecord
from popmq_broker.core.replication.unclean import Chosen, forced, loses_nothing, objection

RECORD = GroupRecord(
    epoch=4,
    primary="b",
    address="there:1",
    identity="data",
    in_sync={"b": "b1", "c": "c1"},
    min_in_sync=2,
    began_ms=1_000,
)
ME = Chosen(
    replica="a",
    incarnation="a1",
    address="here:1",
    log_end=500,
    commit_point=400,
    last_stored_ms=900,
)
B, C = heart("b", "b1"), heart("c", "c1")


@pytest.mark.parametrize(
    ("alive", "lost", "refused"),
    [
        (set(), [], False),
        ({heart("a", "a1")}, [], False),
        ({C}, [], True),
        ({B, C}, ["b"], True),
        ({C}, ["c"], False),
        ({B, C}, ["b", "c"], False),
        ({heart("b", "b2"), heart("c", "c9")}, [], False),  # both came back without their data
    ],
)
def test_nobody_is_forced_while_a_member_in_sync_lives(
    alive: set[str], lost: list[str], refused: bool
) -> None:
    reason = objection(RECORD, ME, alive, lost)
    assert (reason is not None) is refused
    if reason is not None:
        assert "c is in sync" in reason


def test_who_has_no_messages_is_not_forced() -> None:
    assert objection(RECORD, replace(ME, log_end=0), set(), []) is not None


def test_a_forced_replica_is_the_only_member_and_the_record_says_so() -> None:
    record = forced(RECORD, ME, None, 10)
    assert record.in_sync == {"a": "a1"}
    assert (record.epoch, record.primary, record.address) == (5, "a", "here:1")
    assert (record.forced_epoch, record.min_in_sync, record.began_ms) == (5, 2, 1_001)
    assert forced(RECORD, ME, 1, 10).min_in_sync == 1


def test_a_member_that_is_forced_loses_nothing() -> None:
    member = replace(ME, replica="c", incarnation="c1")
    assert loses_nothing(RECORD, member)
    assert not loses_nothing(RECORD, replace(member, incarnation="c2"))
    assert forced(RECORD, member, None, 10).forced_epoch == 0
