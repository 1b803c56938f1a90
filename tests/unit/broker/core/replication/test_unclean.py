"""When may an operator make a replica primary that is not in sync, and what is written then?"""

from dataclasses import replace

import pytest

from popmq_broker.core.replication import group_record
from popmq_broker.core.replication.group_record import GroupRecord
from popmq_broker.core.replication.unclean import Survivor, forced, loses_nothing, objection

RECORD = GroupRecord(
    epoch=7,
    primary="a1",
    address="m1:10911",
    identity="data",
    in_sync={"a1": "one", "a2": "two"},
    min_in_sync=2,
    began_ms=5_000,
)
A3 = Survivor(
    replica="a3",
    incarnation="three",
    address="m3:10911",
    log_end=900,
    commit_point=800,
    last_stored_ms=4_000,
)


def test_a_replica_that_may_lack_messages_begins_a_forced_epoch_alone() -> None:
    record = forced(RECORD, A3, None, 6_000)
    assert (record.epoch, record.primary, record.address) == (8, "a3", "m3:10911")
    assert record.in_sync == {"a3": "three"}
    assert (record.min_in_sync, record.identity) == (2, "data")
    assert record.forced_epoch == 8
    assert forced(RECORD, A3, 1, 6_000).min_in_sync == 1


def test_a_clock_that_is_behind_does_not_make_the_epoch_older() -> None:
    assert forced(RECORD, A3, None, 10).began_ms > RECORD.began_ms


def test_a_member_in_sync_loses_nothing_and_no_epoch_is_noted() -> None:
    member = replace(A3, replica="a2", incarnation="two")
    assert loses_nothing(RECORD, member)
    assert forced(RECORD, member, 1, 6_000).forced_epoch == 0
    assert not loses_nothing(RECORD, replace(member, incarnation="emptied since"))


@pytest.mark.parametrize(
    ("alive", "allowed"),
    [
        ({"a3.three"}, True),
        ({"a1.one", "a3.three"}, False),
        ({"a1.emptied", "a2.emptied", "a3.three"}, True),
        ({"a1.emptied", "a2.two"}, False),
    ],
)
def test_a_member_that_lives_is_in_the_way_unless_its_data_is_gone(
    alive: set[str], allowed: bool
) -> None:
    assert (objection(RECORD, A3, alive) is None) == allowed


def test_a_replica_without_messages_is_refused() -> None:
    assert "no messages" in (objection(RECORD, replace(A3, log_end=0), set()) or "")


def test_the_register_keeps_what_was_forced() -> None:
    record = forced(RECORD, A3, None, 6_000)
    assert group_record.decode(group_record.encode(record), where="r") == record
