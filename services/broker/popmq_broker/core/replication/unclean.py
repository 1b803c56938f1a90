"""An operator makes a replica primary that may lack what was committed: when no replica that is in
sync is left, and nobody would ever become primary otherwise.

What the group had committed and this replica does not have is lost. So it is refused as long as
the heart of a member in sync beats. One that came back with an empty directory has another heart.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

from popmq_broker.core.replication.election import is_alive
from popmq_broker.core.replication.group_record import GroupRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Survivor:
    """The replica as it tells of itself."""

    replica: str
    incarnation: str
    address: str
    log_end: int
    """Its log is on disk up to here."""
    commit_point: int
    """Up to where it knows the log to be committed; more may have been."""
    last_stored_ms: int
    """When the last message of its log was stored."""


def loses_nothing(record: GroupRecord, chosen: Survivor) -> bool:
    """It is a member in sync: it has whatever was committed."""
    return record.counts(chosen.replica, chosen.incarnation)


def objection(record: GroupRecord, chosen: Survivor, alive: Collection[str]) -> str | None:
    """Why it must not be forced. `alive`: the hearts that beat."""
    rest = sorted(record.in_sync.keys() - {chosen.replica})
    beating = [replica for replica in rest if is_alive(record, replica, alive)]
    if beating:
        names = ", ".join(beating)
        return (
            f"{names} is in sync and alive, so nothing need be lost: with enough replicas it takes "
            "over by itself"
        )
    if not chosen.log_end:
        return "it has no messages; choose another one"
    return None


def forced(
    record: GroupRecord, chosen: Survivor, min_in_sync: int | None, now_ms: int
) -> GroupRecord:
    """The record that makes it primary. As when a primary hands over, nobody appends in its epoch:
    the replica begins the next one. `min_in_sync` None: as it was."""
    epoch = record.epoch + 1
    return replace(
        record,
        epoch=epoch,
        primary=chosen.replica,
        address=chosen.address,
        in_sync={chosen.replica: chosen.incarnation},
        min_in_sync=min_in_sync or record.min_in_sync,
        began_ms=max(now_ms, record.began_ms + 1),
        forced_epoch=record.forced_epoch if loses_nothing(record, chosen) else epoch,
    )
