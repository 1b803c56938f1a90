"""What is said of a broker's replicas, by how many are in sync and needed."""

import pytest

from popmq_admin.v1 import admin_pb2 as admin
from popmq_cli.replicas.replica import headline
from popmq_readings.replica_remarks import remarks, short


def group(*roles: str, needs: int = 2, **fields: object) -> admin.ReplicaGroup:
    """Replicas a1, a2, … with these roles."""
    made = admin.ReplicaGroup(broker="b", replicated=True, min_in_sync=needs, epoch=4)
    for number, role in enumerate(roles, 1):
        made.replicas.add(name=f"a{number}", role=role, behind_bytes=0 if number == 1 else 10)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


THREE = ("primary", "in sync", "in sync")


@pytest.mark.parametrize(
    ("found", "code", "wrong", "said"),
    [
        (group(*THREE[:2], "silent"), "replica-missing", True, "one more failure stops writes"),
        (group(*THREE[:2], "catching up", needs=1), "replica-missing", True, "a3 is catching up"),
        (group("primary", "silent", needs=1), "replica-missing", True, "no clean fail-over"),
        (group("primary", "silent", "silent"), "replicas-too-few", True, "1 of 3 replicas in sync"),
        (group("taking over", "silent"), "replicas-too-few", True, "2 needed"),
        (group("primary"), "replicas-too-few", True, "no other one has come"),
        (group("primary", "in sync", needs=1), "replicas-few", False, "no clean fail-over"),
        (group("primary", "in sync"), "replicas-few", False, "one more failure stops writes"),
        (group("primary", needs=1), "replicas-few", False, "no clean fail-over"),
        (group(*THREE, needs=3), "replicas-few", False, "one more failure stops writes"),
        (group(*THREE, forced_epoch=3), "replica-forced", False, "may be lost"),
        (group(failure="a1 follows"), "no-primary", True, "a1 follows"),
    ],
)
def test_what_is_said(found: admin.ReplicaGroup, code: str, wrong: bool, said: str) -> None:
    (remark,) = remarks(found)
    assert (remark.code, remark.wrong) == (code, wrong)
    assert said in f"{remark.what}: {remark.why}"
    assert remark.todo


def test_three_of_which_two_are_needed_are_well() -> None:
    assert remarks(group(*THREE)) == []


def test_a_broker_without_replicas_has_no_remarks() -> None:
    alone = admin.ReplicaGroup(broker="b", min_in_sync=1, replicas=[admin.Replica(role="primary")])
    assert remarks(alone) == []
    assert remarks(admin.ReplicaGroup()) == []
    assert short(alone) == ""
    assert headline(alone) == "b: no replicas"


def test_a_group_in_one_line() -> None:
    assert short(group(*THREE[:2], "silent")) == "a1, 2 of 3 in sync"
    assert short(group(failure="gone")) == "no primary"
    assert "2 of 3 in sync, needs 2" in headline(group(*THREE[:2], "silent"))
    assert "epoch 3 was forced" in headline(group(*THREE, forced_epoch=3))
