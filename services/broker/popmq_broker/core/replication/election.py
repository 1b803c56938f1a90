"""What a replica does when it sees the register: lead, follow or wait.

    the register's record              this replica                          → it
    ---------------------------------  ------------------------------------  ------------------
    there is none                      (any)                                 founds the group
    it is of other data                has messages                          refuses to start
    names this replica primary         the member that is counted            begins an epoch
                                       another incarnation of it             waits: its data is gone
    names another, whose heart beats   (any)                                 follows it
    names another, which is silent     a member that is counted              begins an epoch
                                       none                                  waits

A heart is that of a directory, not of a name: a primary that comes back without its data is silent,
or the others would wait for it, and it for them. Whoever founds a group and dies before it has
written down the data's identity is a member all the same.

A group that is founded has one member. An empty directory founds a group only if it is told to
wait for nobody: the first of several to come wins, the others follow it.

An epoch begins with a compare and set that keeps, of the set, those whose hearts beat, if they are
enough; all of its members have whatever is committed, so it is safe with any of them.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import Enum

from popmq_broker.core.replication.epochs import Epochs
from popmq_broker.core.replication.group_record import GroupRecord


class Role(Enum):
    FOUND = "found"
    REFUSE = "refuse"
    LEAD = "lead"
    FOLLOW = "follow"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class Candidate:
    """This replica."""

    replica: str
    incarnation: str
    address: str
    identity: str
    """Of its data; empty: the directory is."""


def heart(replica: str, incarnation: str) -> str:
    """The name under which a replica's heart beats in the register."""
    return f"{replica}.{incarnation}"


def is_alive(record: GroupRecord, replica: str, alive: Collection[str]) -> bool:
    """The member that is counted; another directory under its name is not it."""
    return heart(replica, record.in_sync.get(replica, "")) in alive


def role_of(
    me: Candidate, record: GroupRecord | None, alive: Collection[str], promised: int
) -> tuple[Role, str]:
    """What to do, and why.

    `alive`: the hearts that beat. `promised`: the highest epoch that this replica has followed.
    """
    if record is None:
        return Role.FOUND, "the register knows no group of this name"
    if me.identity and me.identity != record.identity:
        return Role.REFUSE, (
            f"the group's data is {record.identity}, that of this directory {me.identity}"
        )
    if record.epoch < promised:
        return Role.REFUSE, (
            f"the register is at epoch {record.epoch}, this replica has followed {promised}"
        )
    counted = record.counts(me.replica, me.incarnation)
    if record.primary == me.replica:
        if counted:
            return Role.LEAD, "the register names this replica"
        return Role.WAIT, "the register names this replica, but with another data directory"
    if is_alive(record, record.primary, alive):
        return Role.FOLLOW, f"{record.primary} is primary in epoch {record.epoch}"
    if counted:
        return Role.LEAD, f"{record.primary} is silent, and this replica is in sync"
    return Role.WAIT, f"{record.primary} is silent, and this replica is not in sync"


def founding(
    me: Candidate, identity: str, min_in_sync: int, now_ms: int, promised: int = 0
) -> GroupRecord:
    """The first record; of a group whose register was lost it is above all epochs of before."""
    return GroupRecord(
        epoch=promised + 1,
        primary=me.replica,
        address=me.address,
        identity=identity,
        in_sync={me.replica: me.incarnation},
        min_in_sync=min_in_sync,
        began_ms=now_ms,
    )


def was_handed_over(replica: str, before: GroupRecord | None, epochs: Epochs) -> bool:
    """Whether the last primary named this replica its successor. `before`: the register's record
    when this replica became primary; nobody appends in the epoch in which a successor is named.
    `epochs`: of this replica's log, without its own."""
    if before is None or before.primary != replica or before.forced_epoch == before.epoch:
        return False
    last = epochs.last
    return last is None or last.epoch < before.epoch


def next_epoch(
    me: Candidate, record: GroupRecord, alive: Collection[str], now_ms: int
) -> GroupRecord:
    """The record with which this replica becomes primary."""
    left = {
        replica: incarnation
        for replica, incarnation in record.in_sync.items()
        if replica == me.replica or is_alive(record, replica, alive)
    }
    enough = len(left) >= record.min_in_sync
    return replace(
        record,
        epoch=record.epoch + 1,
        primary=me.replica,
        address=me.address,
        in_sync=left if enough else record.in_sync,
        began_ms=max(now_ms, record.began_ms + 1),
    )
