"""What an import changes, and in which order."""

import pytest

from popmq_admin.v1 import admin_pb2 as admin
from popmq_cli.access.access_file import AccessFile, FilePolicy, FileUser, WrongFile
from popmq_cli.access.import_plan import kept_secrets, planned

ENTRY = admin.AclEntry(resource="Topic:t", actions=["Pub"], decision="Allow")


def there(name: str, kind: str = "NORMAL", status: str = "ENABLED") -> dict[str, admin.User]:
    return {name: admin.User(username=name, type=kind, status=status, secrets=1)}


def calls(file: AccessFile, users: dict[str, admin.User]) -> list[tuple[str, str]]:
    return [(step.call, step.username) for step in planned(file, users)]


def test_super_users_come_first_and_policies_last() -> None:
    """If the only Super user of the server becomes Normal by the file, another is there before."""
    file = AccessFile(
        (FileUser("old", "NORMAL"), FileUser("new", "SUPER", secret="new-secret")),
        (FilePolicy("old", "Custom", (ENTRY,)),),
    )
    assert calls(file, there("old", "SUPER")) == [
        ("CreateUser", "new"),
        ("UpdateUser", "old"),
        ("PutAcl", "old"),
    ]


def test_a_user_who_exists_keeps_the_secret() -> None:
    """It may have been replaced since the file was written: an old one must not come back."""
    file = AccessFile((FileUser("a", "SUPER", "DISABLED", "stolen-secret"),), ())
    (step,) = planned(file, there("a"))
    assert step.request == admin.UpdateUserRequest(username="a", type="SUPER", status="DISABLED")
    assert "stolen-secret" not in step.what
    assert kept_secrets(file, there("a")) == ["a"]
    assert kept_secrets(file, {}) == []


def test_what_is_so_already_is_not_changed() -> None:
    file = AccessFile((FileUser("a", "NORMAL", "ENABLED"), FileUser("b")), ())
    assert calls(file, there("a") | there("b", "SUPER", "DISABLED")) == []


def test_a_new_user_who_is_disabled() -> None:
    file = AccessFile((FileUser("a", "NORMAL", "DISABLED", "some-secret"),), ())
    create, update = planned(file, {})
    assert create.request == admin.CreateUserRequest(
        username="a", type="NORMAL", secret="some-secret"
    )
    assert update.request == admin.UpdateUserRequest(username="a", status="DISABLED")


def test_policies_of_nobody_are_refused_before_anything_is_changed() -> None:
    file = AccessFile((FileUser("a"),), (FilePolicy("bob", "Custom", (ENTRY,)),))
    with pytest.raises(WrongFile, match="popmq user create bob"):
        planned(file, {})
    assert ("PutAcl", "bob") in calls(file, there("bob"))
