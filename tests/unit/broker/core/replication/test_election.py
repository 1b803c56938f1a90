"""What a replica does when it sees the register, as a table; the record with which one leads."""

from dataclasses import replace

import pytest

from popmq_broker.core.replication.election import (
    Candidate,
    Role,
    founding,
    heart,
    next_epoch,
    role_of,
    was_handed_over,
)
from popmq_broker.core.replication.epochs import Epochs, EpochStart
from popmq_broker.core.replication.group_record import GroupRecord

ME = Candidate("a", "a1", "here:1", "data")
EMPTY = replace(ME, identity="")
RECORD = GroupRecord(
    epoch=4,
    primary="b",
    address="there:1",
    identity="data",
    in_sync={"a": "a1", "b": "b1", "c": "c1"},
    min_in_sync=2,
    began_ms=1_000,
)
MINE = replace(RECORD, primary="a")
WITHOUT_ME = replace(RECORD, in_sync={"b": "b1", "c": "c1"})
ALL = {heart("a", "a1"), heart("b", "b1"), heart("c", "c1")}
B_IS_SILENT = {heart("a", "a1"), heart("c", "c1")}
B_IS_WIPED = {*B_IS_SILENT, heart("b", "b2")}


@pytest.mark.parametrize(
    ("me", "record", "alive", "promised", "role"),
    [
        (ME, None, ALL, 0, Role.FOUND),
        (EMPTY, None, set(), 0, Role.FOUND),
        (replace(ME, identity="other"), RECORD, ALL, 0, Role.REFUSE),
        (replace(ME, identity="other"), MINE, ALL, 0, Role.REFUSE),
        (ME, RECORD, ALL, 5, Role.REFUSE),
        (ME, MINE, ALL, 5, Role.REFUSE),
        (ME, RECORD, ALL, 4, Role.FOLLOW),
        # it names this replica
        (ME, MINE, ALL, 4, Role.LEAD),
        (ME, MINE, set(), 4, Role.LEAD),
        (replace(ME, incarnation="a2"), MINE, ALL, 0, Role.WAIT),
        (replace(EMPTY, incarnation="a2"), MINE, ALL, 0, Role.WAIT),
        (EMPTY, MINE, set(), 0, Role.LEAD),  # it has founded the group, and died at once
        # it names another, whose heart beats
        (ME, RECORD, ALL, 0, Role.FOLLOW),
        (ME, WITHOUT_ME, ALL, 0, Role.FOLLOW),
        (EMPTY, WITHOUT_ME, ALL, 0, Role.FOLLOW),
        (replace(EMPTY, incarnation="a2"), RECORD, ALL, 0, Role.FOLLOW),
        # … which is silent
        (ME, RECORD, B_IS_SILENT, 4, Role.LEAD),
        (ME, RECORD, set(), 4, Role.LEAD),
        (ME, WITHOUT_ME, B_IS_SILENT, 4, Role.WAIT),
        (replace(ME, incarnation="a2"), RECORD, B_IS_SILENT, 0, Role.WAIT),
        (EMPTY, WITHOUT_ME, B_IS_SILENT, 0, Role.WAIT),
        # … under whose name another directory's heart beats
        (ME, RECORD, B_IS_WIPED, 4, Role.LEAD),
        (ME, WITHOUT_ME, B_IS_WIPED, 4, Role.WAIT),
    ],
)
def test_what_a_replica_does(
    me: Candidate, record: GroupRecord | None, alive: set[str], promised: int, role: Role
) -> None:
    done, why = role_of(me, record, alive, promised)
    assert done is role
    assert why


def test_whoever_founds_a_group_is_its_only_member() -> None:
    record = founding(EMPTY, "data", 2, 7)
    assert record.in_sync == {"a": "a1"}
    assert (record.epoch, record.primary, record.min_in_sync, record.began_ms) == (1, "a", 2, 7)
    assert role_of(replace(EMPTY, identity="data"), record, set(), 0)[0] is Role.LEAD
    assert founding(EMPTY, "data", 2, 7, promised=6).epoch == 7  # the register was lost


WITHOUT_B = {"a": "a1", "c": "c1"}


@pytest.mark.parametrize(
    ("alive", "kept"),
    [
        (ALL, RECORD.in_sync),
        (B_IS_SILENT, WITHOUT_B),
        (B_IS_WIPED, WITHOUT_B),
        ({heart("c", "c1")}, WITHOUT_B),  # the own heart need not have beaten yet
        ({heart("a", "a1")}, RECORD.in_sync),  # too few: whoever is missing is waited for
        (set(), RECORD.in_sync),
    ],
)
def test_whom_a_new_primary_keeps(alive: set[str], kept: dict[str, str]) -> None:
    record = next_epoch(ME, RECORD, alive, 2_000)
    assert record == replace(
        RECORD, epoch=5, primary="a", address="here:1", in_sync=kept, began_ms=2_000
    )


def test_an_epoch_begins_later_than_the_last_whatever_the_clock_says() -> None:
    assert next_epoch(ME, RECORD, ALL, 10).began_ms == RECORD.began_ms + 1


@pytest.mark.parametrize(
    ("before", "last_epoch", "handed_over"),
    [
        (None, 0, False),  # it founds the group
        (RECORD, 4, False),  # another one is named, and silent
        (MINE, 4, False),  # it has led in this epoch, and was killed
        (MINE, 3, True),
        (replace(MINE, forced_epoch=4), 3, False),
        (replace(MINE, forced_epoch=2), 3, True),
    ],
)
def test_whether_the_last_primary_has_handed_over(
    before: GroupRecord | None, last_epoch: int, handed_over: bool
) -> None:
    epochs = Epochs(4, (EpochStart(1, 0), EpochStart(last_epoch, 100)) if last_epoch else ())
    assert was_handed_over("a", before, epochs) is handed_over
