"""What an operator reads before a primary is forced."""

from popmq_broker.clients.register.register import Seen
from popmq_broker.core.replication.group_record import GroupRecord
from popmq_broker.core.replication.unclean import Survivor
from popmq_broker.force import Outlook
from popmq_cli.replicas.force import lines


def outlook(incarnation: str) -> Outlook:
    record = GroupRecord(
        epoch=7, primary="a1", address="m1:1", identity="i", in_sync={"a1": "one", "a2": "two"}
    )
    chosen = Survivor(
        replica="a2",
        incarnation=incarnation,
        address="m2:1",
        log_end=900,
        commit_point=800,
        last_stored_ms=1_764_065_412_000,
    )
    return Outlook(seen=Seen(b"", 1, frozenset()), record=record, chosen=chosen)


def test_what_will_be_lost_is_said_with_what_is_known_of_it() -> None:
    text = "\n".join(lines(outlook("an emptied directory")))
    for part in ("epoch 7, primary a1, in sync a1, a2", "up to byte 900", "before byte 800"):
        assert part in text
    assert "2025-11-25T10:10:12" in text
    assert "Lost is what was committed behind its log's end" in text


def test_a_member_in_sync_loses_nothing() -> None:
    assert lines(outlook("two"))[-1] == "It is in sync: nothing is lost."
