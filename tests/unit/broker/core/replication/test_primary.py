"""A primary: what is committed, and who is in sync."""

from collections.abc import Mapping

import pytest

from popmq_broker.core.replication.group_record import GroupRecord
from popmq_broker.core.replication.primary import Primary
from popmq_common.errors import AckBeyondLog, StaleEpoch

LAG_MS = 1_000
END = 1_000
"""Where the log ends."""


class Group:
    """A primary `a` and its followers, on a clock that the test moves."""

    def __init__(self, in_sync: str, min_in_sync: int, *, durable_end: int = 0) -> None:
        record = GroupRecord(
            epoch=5,
            primary="a",
            address="a:1",
            identity="data",
            in_sync={name: f"{name}1" for name in in_sync},
            min_in_sync=min_in_sync,
        )
        self.now_ms = 10_000
        self.sessions: dict[str, int] = {}
        self.primary = Primary(
            "a", "a1", record, epoch_end=100, durable_end=durable_end, lag_ms=LAG_MS, now_ms=10_000
        )

    def joins(self, name: str, durable_end: int = 0, incarnation: str = "") -> None:
        self.sessions[name] = self.primary.joined(
            name, incarnation or f"{name}1", f"{name}:1", durable_end, self.now_ms
        )

    def acks(self, name: str, durable_end: int, log_end: int = END) -> int:
        session = self.sessions[name]
        return self.primary.heard(name, session, 5, durable_end, log_end, self.now_ms)

    def proposed(self) -> Mapping[str, str] | None:
        record = self.primary.propose(self.now_ms)
        return None if record is None else record.in_sync

    def passes(self, ms: int) -> None:
        self.now_ms += ms


# --- the commit point ---


def test_alone_it_commits_what_it_has_on_disk() -> None:
    group = Group("a", 1)
    assert group.primary.synced(150) == 150
    assert group.primary.synced(140) == 150


def test_alone_it_commits_nothing_if_two_are_asked_for() -> None:
    group = Group("a", 2)
    assert group.primary.synced(150) == 0


@pytest.mark.parametrize(
    ("own", "acks", "committed"),
    [
        (200, {"b": 200}, 200),
        (200, {"b": 150}, 150),
        (150, {"b": 200}, 150),
        (200, {}, 0),
    ],
)
def test_two_commit_what_both_have(own: int, acks: dict[str, int], committed: int) -> None:
    group = Group("ab", 2)
    for name, end in acks.items():
        group.joins(name)
        group.acks(name, end)
    assert group.primary.synced(own) == committed


def test_three_commit_what_all_have_though_two_would_do() -> None:
    group = Group("abc", 2)
    group.primary.synced(300)
    for name in "bc":
        group.joins(name)
    assert group.acks("b", 250) == 0
    assert group.acks("c", 120) == 120
    assert group.acks("c", 260) == 250


def test_a_replica_that_is_not_in_sync_does_not_count() -> None:
    group = Group("ab", 1)
    group.primary.synced(300)
    group.joins("c")
    assert group.acks("c", 300) == 0


def test_what_a_follower_had_when_it_greeted_counts_with_the_next_event() -> None:
    group = Group("ab", 2, durable_end=300)
    group.joins("b", 200)
    assert group.primary.synced(300) == 200


def test_another_directory_under_the_name_of_a_member_does_not_count() -> None:
    group = Group("ab", 1, durable_end=300)
    group.joins("b", incarnation="b2")
    assert group.acks("b", 300) == 0


def test_the_commit_point_never_falls() -> None:
    group = Group("ab", 2, durable_end=300)
    group.joins("b", 200)
    assert group.primary.synced(300) == 200
    group.joins("b", 100)
    assert group.acks("b", 100) == 200


def test_an_epoch_is_committed_with_its_first_record() -> None:
    group = Group("ab", 2, durable_end=300)
    group.joins("b", 99)
    assert not group.primary.epoch_is_committed
    group.acks("b", 100)
    assert group.primary.epoch_is_committed


# --- what is not believed ---


def test_acks_of_an_old_session_are_refused() -> None:
    group = Group("ab", 2, durable_end=300)
    group.joins("b")
    old = group.sessions["b"]
    group.joins("b")
    assert group.sessions["b"] != old
    with pytest.raises(StaleEpoch):
        group.primary.heard("b", old, 5, 300, END, group.now_ms)
    assert group.primary.commit_point == 0


@pytest.mark.parametrize("epoch", [4, 6])
def test_acks_of_another_epoch_are_refused(epoch: int) -> None:
    group = Group("ab", 2, durable_end=300)
    group.joins("b")
    with pytest.raises(StaleEpoch):
        group.primary.heard("b", group.sessions["b"], epoch, 300, END, group.now_ms)


def test_acks_of_a_replica_that_never_greeted_are_refused() -> None:
    with pytest.raises(StaleEpoch):
        Group("ab", 2).primary.heard("b", 1, 5, 300, END, 0)


def test_an_ack_of_more_than_there_is_is_refused() -> None:
    group = Group("ab", 2, durable_end=END)
    group.joins("b")
    with pytest.raises(AckBeyondLog):
        group.acks("b", END + 1)
    assert group.primary.commit_point == 0


# --- who is in sync ---


def test_a_follower_is_added_once_it_has_all_that_is_committed_and_this_epoch() -> None:
    group = Group("a", 1, durable_end=300)
    group.primary.synced(300)
    group.joins("b", 99)
    assert group.proposed() is None
    group.acks("b", 299)
    assert group.proposed() is None
    group.acks("b", 300)
    assert group.proposed() == {"a": "a1", "b": "b1"}


def test_the_first_record_of_the_epoch_is_needed_if_nothing_is_committed() -> None:
    group = Group("a", 2, durable_end=300)
    group.joins("b", 99)
    assert group.proposed() is None
    group.acks("b", 100)
    assert group.proposed() == {"a": "a1", "b": "b1"}
    assert group.primary.accepted() == 100


def test_a_silent_follower_is_not_added() -> None:
    group = Group("a", 1, durable_end=300)
    group.joins("b", 300)
    group.passes(LAG_MS)
    assert group.proposed() is None


def test_while_an_addition_is_on_its_way_both_sets_must_have_a_record() -> None:
    group = Group("a", 1, durable_end=300)
    group.primary.synced(300)
    group.joins("b", 300)
    group.proposed()
    assert group.primary.synced(400) == 300
    assert group.acks("b", 350) == 350
    assert group.primary.accepted() == 350


def test_while_a_removal_is_on_its_way_both_sets_must_have_a_record() -> None:
    group = Group("ab", 1, durable_end=300)
    group.passes(LAG_MS)
    assert group.proposed() == {"a": "a1"}
    assert group.primary.synced(400) == 0
    assert group.primary.accepted() == 400


def test_one_change_at_a_time() -> None:
    group = Group("ab", 1, durable_end=300)
    group.passes(LAG_MS)
    first = group.primary.propose(group.now_ms)
    group.joins("b", 300)
    assert group.primary.propose(group.now_ms) is None
    assert group.primary.proposed is first


def test_a_new_primary_gives_its_members_time_to_come() -> None:
    group = Group("ab", 1, durable_end=300)
    group.passes(LAG_MS - 1)
    assert group.proposed() is None
    assert group.primary.missing(group.now_ms) == []
    group.passes(1)
    assert group.primary.missing(group.now_ms) == ["b"]


def test_a_silent_member_is_removed_if_enough_are_left() -> None:
    group = Group("abc", 2, durable_end=300)
    for name in "bc":
        group.joins(name, 300)
    group.passes(LAG_MS)
    group.acks("b", END)
    assert group.proposed() == {"a": "a1", "b": "b1"}


@pytest.mark.parametrize("in_sync", ["ab", "abc"])
def test_the_set_is_never_smaller_than_the_minimum(in_sync: str) -> None:
    group = Group(in_sync, 2, durable_end=300)
    group.passes(10 * LAG_MS)
    assert len(group.primary.missing(group.now_ms)) == len(in_sync) - 1
    assert group.proposed() is None
    assert group.primary.synced(400) == 0


def test_one_comes_as_another_goes() -> None:
    group = Group("ab", 2, durable_end=300)
    group.passes(LAG_MS)
    group.joins("c", 300)
    assert group.proposed() == {"a": "a1", "c": "c1"}
    group.primary.synced(400)
    assert group.acks("c", 400) == 0  # until the register says so
    assert group.primary.accepted() == 400


def test_another_directory_takes_the_place_of_the_old_one() -> None:
    group = Group("ab", 2, durable_end=300)
    group.joins("b", 300, incarnation="b2")
    assert group.proposed() == {"a": "a1", "b": "b2"}
    assert group.primary.commit_point == 0
    assert group.primary.accepted() == 300


def test_a_follower_that_only_talks_is_removed() -> None:
    group = Group("ab", 1, durable_end=300)
    group.joins("b")
    for _ in range(30):
        group.passes(100)
        group.acks("b", 50)
    assert group.proposed() == {"a": "a1"}


def test_under_steady_load_a_follower_keeps_up_though_it_never_has_all() -> None:
    """What it acks is what was appended one round trip ago."""
    group = Group("ab", 1)
    group.joins("b")
    end = 100
    for _ in range(100):
        group.passes(50)
        before, end = end, end + 100
        group.primary.synced(end)
        group.acks("b", before, log_end=end)
        assert group.proposed() is None


def test_a_follower_that_is_always_seconds_behind_is_removed() -> None:
    group = Group("ab", 1)
    group.joins("b")
    ends: list[int] = [0] * 60
    for at in range(200):
        group.passes(50)
        ends.append(100 * at)
        group.acks("b", ends[-60], log_end=ends[-1])
    assert group.proposed() == {"a": "a1"}


def test_a_member_that_greets_again_is_not_removed_for_it() -> None:
    group = Group("ab", 1, durable_end=300)
    group.joins("b", 300)
    group.passes(10 * LAG_MS)
    group.acks("b", END)
    group.passes(100)
    group.joins("b", END)
    assert group.proposed() is None
    group.passes(LAG_MS)
    assert group.proposed() == {"a": "a1"}


# --- a planned stop ---


def test_the_successor_has_all_that_the_primary_has_on_disk() -> None:
    group = Group("abc", 2, durable_end=300)
    assert group.primary.successor(group.now_ms) is None
    group.joins("b", 200)
    group.joins("c", 300)
    assert group.primary.successor(group.now_ms) == "c"
    group.acks("b", 300)
    assert group.primary.successor(group.now_ms) == "b"


def test_a_silent_member_is_no_successor() -> None:
    group = Group("ab", 1, durable_end=300)
    group.joins("b", 300)
    group.passes(LAG_MS)
    assert group.primary.successor(group.now_ms) is None


def test_who_is_not_in_sync_is_no_successor() -> None:
    group = Group("a", 1, durable_end=300)
    group.joins("b", 300)
    assert group.primary.successor(group.now_ms) is None


def test_an_epoch_is_handed_over_in_which_nobody_appends() -> None:
    group = Group("ab", 1, durable_end=300)
    group.joins("b", 300)
    record = group.primary.handed_over("b")
    assert (record.epoch, record.primary, record.address) == (6, "b", "b:1")
    assert record.in_sync == group.primary.record.in_sync


def test_nothing_is_handed_over_while_a_change_is_on_its_way() -> None:
    group = Group("ab", 1, durable_end=300)
    group.joins("b", 300)
    group.joins("c", 300)
    assert group.primary.successor(group.now_ms) == "b"
    assert group.proposed() is not None
    assert group.primary.successor(group.now_ms) is None
    with pytest.raises(AssertionError):
        group.primary.handed_over("b")


# --- a stop ---


def test_one_that_would_be_missed_waits_for_another_that_catches_up() -> None:
    group = Group("ab", 2)
    group.joins("b", END)
    assert not group.primary.awaits_another(group.now_ms)  # nobody comes
    group.joins("c", END // 2)
    assert group.primary.awaits_another(group.now_ms)
    group.passes(LAG_MS)
    assert not group.primary.awaits_another(group.now_ms)  # it is silent


def test_one_of_three_in_sync_waits_for_nobody() -> None:
    group = Group("abc", 2)
    for name in "bcd":
        group.joins(name, END)
    assert not group.primary.awaits_another(group.now_ms)
