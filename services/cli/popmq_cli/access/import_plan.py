"""What an import changes, decided before anything is: pure."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from popmq_admin.v1 import admin_pb2 as admin
from popmq_cli.access.access_file import AccessFile, FileUser, WrongFile
from popmq_common.words import counted
from popmq_readings.access_words import subject_text

ChangeRequest = admin.CreateUserRequest | admin.UpdateUserRequest | admin.PutAclRequest


class ImportStep(NamedTuple):
    call: str
    """CreateUser, UpdateUser, PutAcl."""
    username: str
    what: str
    """For people."""
    request: ChangeRequest


def planned(file: AccessFile, there: Mapping[str, admin.User]) -> list[ImportStep]:
    """In the order in which it is done: Super users first, so that there is always one. `there`:
    the users of the server. Raises `WrongFile`."""
    names = there.keys() | {one.username for one in file.users}
    for policy in file.policies:
        if policy.username not in names:
            text = f"there is no user {policy.username}, for whom the file has policies"
            raise WrongFile(f"{text}: popmq user create {policy.username}")
    users = sorted(file.users, key=lambda one: one.type != "SUPER")
    steps = [step for one in users for step in _of_user(one, there.get(one.username))]
    for policy in file.policies:
        request = admin.PutAclRequest(
            subject=subject_text(policy.username),
            policy_type=policy.type,
            entries=policy.entries,
        )
        count = counted(len(policy.entries), "entry", "entries")
        what = f"{count} of {subject_text(policy.username)} in policy {policy.type}"
        steps.append(ImportStep("PutAcl", policy.username, what, request))
    return steps


def _of_user(user: FileUser, found: admin.User | None) -> Iterator[ImportStep]:
    """A user who is there keeps the secret: it may be newer than the file."""
    name = user.username
    if found is None:
        kind = user.type or "NORMAL"
        create = admin.CreateUserRequest(username=name, type=kind, secret=user.secret)
        yield ImportStep("CreateUser", name, f"user {name} ({kind})", create)
        found = admin.User(username=name, type=kind, status="ENABLED")
    update = admin.UpdateUserRequest(username=name)
    if user.type not in ("", found.type):
        update.type = user.type
    if user.status not in ("", found.status):
        update.status = user.status
    changes = " and ".join(word for word in (update.type, update.status) if word)
    if changes:
        yield ImportStep("UpdateUser", name, f"user {name} is {changes}", update)


def kept_secrets(file: AccessFile, there: Mapping[str, admin.User]) -> list[str]:
    """Users whose secret in the file is not taken."""
    return [one.username for one in file.users if one.secret and one.username in there]
