"""To whom does a primary hand over?"""

from popmq_broker.core.replication.group_record import GroupRecord
from popmq_broker.core.replication.primary import Primary

LAG_MS = 1_000


def primary(*followers: str) -> Primary:
    """a1, whose log is on disk up to 100; the followers are in sync and have it all."""
    in_sync = {name: f"{name} incarnation" for name in ("a1", *followers)}
    record = GroupRecord(
        epoch=3, primary="a1", address="m1:1", identity="i", in_sync=in_sync, min_in_sync=1
    )
    made = Primary(
        "a1", "a1 incarnation", record, epoch_end=1, durable_end=100, lag_ms=LAG_MS, now_ms=0
    )
    for name in followers:
        session = made.joined(name, f"{name} incarnation", f"{name}:1", 0, 0)
        made.heard(name, session, 3, 100, 100, 0)
    return made


def test_to_the_one_that_is_wanted_and_to_no_other() -> None:
    assert primary("a2", "a3").successor(10) == "a2"
    assert primary("a2", "a3").successor(10, "a3") == "a3"
    assert primary("a2", "a3").successor(10, "a9") is None


def test_not_before_it_has_everything() -> None:
    made = primary("a2")
    made.synced(120)
    assert made.candidates(10) == ["a2"]
    assert made.successor(10) is None
    made.heard("a2", 1, 3, 120, 120, 20)
    assert made.successor(20) == "a2"


def test_a_silent_one_is_no_candidate() -> None:
    made = primary("a2")
    assert made.is_silent("a2", LAG_MS)
    assert not made.is_silent("a2", LAG_MS - 1)
    assert made.candidates(LAG_MS) == []
    assert made.is_silent("nobody", 0)


def test_a_member_that_never_came_is_none_either() -> None:
    """The record counts it; this primary has not heard of it yet and knows no address."""
    made = primary("a2")
    del made.followers["a2"]
    assert made.candidates(10) == []
    assert made.successor(10) is None
