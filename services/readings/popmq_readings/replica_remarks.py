"""What is wrong with a broker's replicas, or worth knowing: decided from what its primary told."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from popmq_admin.v1 import admin_pb2 as admin
from popmq_common.words import counted
from popmq_readings.short_numbers import bytes_text

IN_SYNC: Final = ("primary", "taking over", "handing over", "in sync")
"""Roles of replicas that have everything."""
PAGE: Final = "docs/replicas.md"


class ReplicaRemark(NamedTuple):
    wrong: bool
    """Else it is good to know."""
    code: str
    what: str
    why: str
    todo: str


def in_sync_count(group: admin.ReplicaGroup) -> int:
    return sum(one.role in IN_SYNC for one in group.replicas)


def primary_of(group: admin.ReplicaGroup) -> str:
    """Its name; empty: there is none, or the broker has no replicas."""
    return group.replicas[0].name if group.replicas else ""


def short(group: admin.ReplicaGroup) -> str:
    """`a1, 3 of 3 in sync`; empty for a broker without replicas."""
    if not group.replicated:
        return ""
    if group.failure:
        return "no primary"
    return f"{primary_of(group)}, {in_sync_count(group)} of {len(group.replicas)} in sync"


def remarks(group: admin.ReplicaGroup) -> list[ReplicaRemark]:
    """None of a broker without replicas."""
    if not group.replicated:
        return []
    if group.failure:
        todo = f"start its replicas; if those in sync are gone for good: {PAGE}"
        what = f"broker {group.broker} has no primary: nothing is sent or received there"
        return [ReplicaRemark(True, "no-primary", what, group.failure, todo)]
    return [*_in_sync(group), *_forced(group)]


def _in_sync(group: admin.ReplicaGroup) -> Iterator[ReplicaRemark]:
    name, needs = f"broker {group.broker}", group.min_in_sync
    count, known = in_sync_count(group), len(group.replicas)
    absent = ", ".join(_absent(one) for one in group.replicas if one.role not in IN_SYNC)
    so_many = f"{count} of {known} replicas" if known > 1 else "1 replica"
    if count < needs:
        what = f"{name} takes no writes: {so_many} in sync, {needs} needed"
        todo = "start the others, or empty ones in their place; nothing is lost meanwhile"
        yield ReplicaRemark(True, "replicas-too-few", what, absent or "no other one has come", todo)
    elif absent:
        what = f"{name} has {so_many} in sync"
        todo = "look at its log; start it, or another one in its place"
        yield ReplicaRemark(
            True, "replica-missing", what, f"{absent}; {_margin(count, needs)}", todo
        )
    elif known < 2 or needs < 2 or count == needs:
        what = f"{name} has {so_many} in sync and needs {needs}"
        yield ReplicaRemark(
            False, "replicas-few", what, _margin(count, needs), "three, needing two"
        )


def _absent(one: admin.Replica) -> str:
    return f"{one.name} is {one.role}, {bytes_text(one.behind_bytes)} behind"


def _margin(count: int, needs: int) -> str:
    """What one more failure does."""
    if count == 1:
        return "no clean fail-over until another one is in sync"
    if count == needs:
        return "one more failure stops writes"
    if count - 1 == 1:
        return "after one more failure there is no clean fail-over until it is back"
    return f"{counted(count - needs, 'more failure')} may come before writes stop"


def _forced(group: admin.ReplicaGroup) -> Iterator[ReplicaRemark]:
    if group.forced_epoch:
        what = f"broker {group.broker}: epoch {group.forced_epoch} was forced by an operator"
        why = "messages and acks that were answered OK before it may be lost"
        yield ReplicaRemark(
            False, "replica-forced", what, why, "compare with what your services sent"
        )
