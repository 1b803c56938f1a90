"""RocketMQ's JSON of users and policies is read and written; mistakes are told by their place."""

import json
from typing import Any

import pytest

from popmq_admin.v1 import admin_pb2 as admin
from popmq_cli.access.access_file import FilePolicy, FileUser, WrongFile, read, written

ENTRY = {
    "resource": "Topic:orders",
    "actions": ["Pub", "sub"],
    "sourceIps": ["10.0.0.0/8"],
    "decision": "allow",
}
ACL = {"subject": "User:alice", "policies": [{"policyType": "custom", "entries": [ENTRY]}]}
ALICE = {
    "username": "alice",
    "password": "alice-secret",
    "userType": "super",
    "userStatus": "disable",
}


def test_users_and_policies_are_read() -> None:
    found = read(json.dumps({"users": [ALICE, {"username": "bob"}], "acls": [ACL]}))
    alice = FileUser("alice", "SUPER", "DISABLED", "alice-secret")
    assert found.users == (alice, FileUser("bob"))
    entry = admin.AclEntry(
        resource="Topic:orders",
        actions=["Pub", "Sub"],
        source_ips=["10.0.0.0/8"],
        decision="Allow",
    )
    assert found.policies == (FilePolicy("alice", "Custom", (entry,)),)
    assert "alice-secret" not in repr(found)


@pytest.mark.parametrize("shape", [[ALICE, ACL], [ACL, ALICE], {"users": [ALICE], "acls": [ACL]}])
def test_lists_are_read_too(shape: Any) -> None:
    found = read(json.dumps(shape))
    assert [one.username for one in found.users] == ["alice"]
    assert [one.username for one in found.policies] == ["alice"]


def test_a_single_one_is_read() -> None:
    assert [one.username for one in read(json.dumps(ALICE)).users] == ["alice"]
    assert [one.type for one in read(json.dumps(ACL)).policies] == ["Custom"]


def test_what_is_written_can_be_read() -> None:
    users = [
        admin.User(username="a", type="SUPER", status="ENABLED", secrets=1),
        admin.User(username="b", type="NORMAL", status="DISABLED", secrets=2),
    ]
    entry = admin.AclEntry(
        resource="Group:g*", actions=["Sub"], source_ips=["::1"], decision="Deny"
    )
    policy = admin.AclPolicy(type="Default", entries=[entry])
    text = json.dumps(written(users, [admin.Acl(subject="User:b", policies=[policy])]))
    found = read(text)
    assert found.users == (FileUser("a", "SUPER", "ENABLED"), FileUser("b", "NORMAL", "DISABLED"))
    assert found.policies == (FilePolicy("b", "Default", (entry,)),)
    assert json.loads(text)["users"][0] == {
        "username": "a",
        "userType": "Super",
        "userStatus": "enable",
    }


def acl(**entry: Any) -> dict[str, Any]:
    return {"acls": [{"subject": "User:a", "policies": [{"entries": [{**ENTRY, **entry}]}]}]}


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ({}, "is neither a user nor an ACL"),
        ([3], r"\[0\] is neither a user nor an ACL"),
        ("hidden", "neither"),
        ({"users": 3}, "users of the file is no list"),
        ({"users": [3]}, r"users\[0\] is no object"),
        ({"users": [{"password": "hidden"}]}, r"users\[0\] has no username"),
        ({"users": [{"username": 3}]}, r"username of users\[0\] is no text"),
        ({"users": [{"username": "a", "password": ["hidden"]}]}, "password of users"),
        ({"users": [{"username": "a", "userType": "Supper"}]}, "Did you mean Super"),
        ({"users": [{"username": "a", "userStatus": "off"}]}, "not one of enable, disable"),
        ({"users": [{"username": "a"}, {"username": "a"}]}, "user a is there twice"),
        ({"acls": [{"policies": []}]}, r"acls\[0\] has no subject"),
        ({"acls": [{"subject": "a", "policies": [3]}]}, r"acls\[0\].policies\[0\] is no object"),
        (acl(resource=None), r"acls\[0\].policies\[0\].entries\[0\] has no resource"),
        (acl(actions=[]), r"entries\[0\] names no actions"),
        (acl(actions=["Publ"]), r"entries\[0\].actions: .* Did you mean Pub"),
        (acl(actions=[3]), "no list of texts"),
        (acl(decision=None), "has no decision"),
        (acl(decision="maybe"), "not one of Allow, Deny"),
        (acl(sourceIps="10.0.0.1"), "sourceIps of .* is no list"),
    ],
)
def test_what_is_wrong_is_told_by_its_place(found: Any, told: str) -> None:
    with pytest.raises(WrongFile, match=told) as failed:
        read(json.dumps(found))
    assert "hidden" not in str(failed.value)


@pytest.mark.parametrize("text", ['{"users": "hidden', '["hidden"', "[" * 100_000])
def test_what_is_no_json_is_told(text: str) -> None:
    with pytest.raises(WrongFile, match="no JSON") as failed:
        read(text)
    assert "hidden" not in str(failed.value)
