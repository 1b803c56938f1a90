"""All users and policies of a cluster: one table with a version, and what may be changed in it.

Brokers keep it as JSON in their logs (broker/engine/catalog/access.py), in RocketMQ's words; only
`secrets` differs from RocketMQ's `password`, of which there is one.
"""

import json
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from popmq_common.errors import (
    AclEntryExists,
    Corrupt,
    IllegalUser,
    LastSuperUser,
    NothingThere,
    TooManyRequests,
    UserExists,
    UserNotFound,
)
from popmq_proxy.core.access.decide import AccessVerdict, decide
from popmq_proxy.core.access.limits import Limits, check_limits
from popmq_proxy.core.access.model import (
    SECRETS_MAX,
    Acl,
    Entry,
    Need,
    PolicyType,
    Secret,
    User,
    UserStatus,
    UserType,
    check_username,
    subject_of,
    username_of,
    word,
)

USERS_MAX: Final = 2_000
ENTRIES_MAX: Final = 256
"""Of one user."""
LIMITS_MAX: Final = 2_000
TABLE_BYTES_MAX: Final = 2 << 20
"""As JSON."""


_AMOUNTS: Final = {
    "messagesPerS": "messages_per_s",
    "bytesPerS": "bytes_per_s",
    "waitingReceives": "waiting_receives",
    "calls": "calls",
    "connections": "connections",
    "creationsPerH": "creations_per_h",
}
"""Of `Limits`, by their names in JSON."""


class Version(NamedTuple):
    """The greater one is newer."""

    version: int = 0
    """0: there is no table."""
    stamp: str = ""


NO_VERSION: Final = Version()


@dataclass(frozen=True, slots=True)
class AccessTable:
    """Not changed once it is made."""

    version: Version = NO_VERSION
    users: dict[str, User] = field(default_factory=dict)
    acls: dict[str, Acl] = field(default_factory=dict)
    """By username."""
    limits: dict[str, Limits] = field(default_factory=dict)
    """By subject."""

    def user(self, username: str) -> User:
        """Raises `UserNotFound`."""
        found = self.users.get(username)
        if found is None:
            raise UserNotFound(user=username)
        return found

    def with_user(self, user: User, *, only_new: bool = False) -> "AccessTable":
        """Raises `UserExists`, `IllegalUser`, `LastSuperUser`, `TooManyRequests`."""
        check_username(user.username)
        if only_new and user.username in self.users:
            raise UserExists(user=user.username)
        if len(user.secrets) > SECRETS_MAX:
            raise IllegalUser(user=user.username, reason=f"at most {SECRETS_MAX} keys are kept")
        changed = replace(self, users={**self.users, user.username: user})
        if len(changed.users) > USERS_MAX:
            raise TooManyRequests(what="users", limit=USERS_MAX)
        return changed._still_governed(self)

    def without_user(self, username: str) -> "AccessTable":
        """Its policies go with it. Raises `UserNotFound`, `LastSuperUser`."""
        self.user(username)
        users = {name: one for name, one in self.users.items() if name != username}
        acls = {name: one for name, one in self.acls.items() if name != username}
        return replace(self, users=users, acls=acls)._still_governed(self)

    def with_entries(
        self, username: str, policy: PolicyType, entries: list[Entry], *, only_new: bool = False
    ) -> "AccessTable":
        """One resource has one entry in a policy. Raises `UserNotFound`, `AclEntryExists`,
        `TooManyRequests`."""
        self.user(username)
        acl = self.acls.get(username, Acl(username))
        kept = {one.resource: one for one in acl.entries(policy)}
        for one in entries:
            if only_new and one.resource in kept:
                raise AclEntryExists(user=username, resource=one.resource)
            kept[one.resource] = one
        if len(kept) > ENTRIES_MAX:
            raise TooManyRequests(what="entries of a policy", limit=ENTRIES_MAX)
        return self._with_acl(_with_policy(acl, policy, tuple(kept.values())))

    def without_entries(
        self, username: str, policy: PolicyType | None, resource: str
    ) -> "tuple[AccessTable, int]":
        """(table, how many are gone). No policy: of both; no resource: all.

        Raises `UserNotFound`, `NothingThere`.
        """
        self.user(username)
        acl, gone = self.acls.get(username, Acl(username)), 0
        for one in PolicyType if policy is None else (policy,):
            before = acl.entries(one)
            kept = tuple(entry for entry in before if resource not in ("", str(entry.resource)))
            gone += len(before) - len(kept)
            acl = _with_policy(acl, one, kept)
        if not gone:
            raise NothingThere(what=f"entry of {username} for {resource or 'any resource'}")
        return self._with_acl(acl), gone

    def with_limits(self, limits: Limits) -> "AccessTable":
        """Raises `IllegalAccessEntry`, `TooManyRequests`."""
        limits = check_limits(limits)
        changed = {**self.limits, limits.subject: limits}
        if limits.is_none:
            del changed[limits.subject]
        if len(changed) > LIMITS_MAX:
            raise TooManyRequests(what="subjects with limits", limit=LIMITS_MAX)
        return replace(self, limits=changed)

    def governs(self) -> bool:
        """Somebody may change it."""
        return any(
            one.type is UserType.SUPER and one.status is UserStatus.ENABLED
            for one in self.users.values()
        )

    def _still_governed(self, before: "AccessTable") -> "AccessTable":
        """Raises `LastSuperUser`."""
        if before.governs() and not self.governs():
            raise LastSuperUser()
        return self

    def _with_acl(self, acl: Acl) -> "AccessTable":
        acls = {**self.acls, acl.username: acl}
        if not acl.custom and not acl.default:
            del acls[acl.username]
        return replace(self, acls=acls)


def _with_policy(acl: Acl, policy: PolicyType, entries: tuple[Entry, ...]) -> Acl:
    if policy is PolicyType.CUSTOM:
        return replace(acl, custom=entries)
    return replace(acl, default=entries)


def judge(table: AccessTable, username: str, need: Need, address: str) -> AccessVerdict:
    """The same as `decide`, of a user by name."""
    user = table.users.get(username)
    if user is None or user.status is not UserStatus.ENABLED:
        what = "is not there" if user is None else "is disabled"
        return AccessVerdict(False, f"user {username} {what}")
    return decide(user, table.acls.get(username), need, address)


def changed_users(before: AccessTable, after: AccessTable) -> set[str]:
    """Users who are not what they were, or may not do what they might."""
    if before is after:
        return set()
    names = before.users.keys() | after.users.keys()
    return {
        name
        for name in names
        if before.users.get(name) != after.users.get(name)
        or before.acls.get(name) != after.acls.get(name)
    }


# --- JSON ---


def encode(table: AccessTable) -> bytes:
    """Raises `TooManyRequests` for one that is too large."""
    data = json.dumps(
        {
            "users": [_user_fields(one) for _, one in sorted(table.users.items())],
            "acls": [_acl_fields(one) for _, one in sorted(table.acls.items())],
            "limits": [_limits_fields(one) for _, one in sorted(table.limits.items())],
        },
        separators=(",", ":"),
    ).encode()
    if len(data) > TABLE_BYTES_MAX:
        raise TooManyRequests(what="bytes of users and policies", limit=TABLE_BYTES_MAX)
    return data


def _user_fields(user: User) -> dict[str, Any]:
    return {
        "username": user.username,
        "userType": user.type.value,
        "userStatus": user.status.value,
        "secrets": [{"key": one.key, "until": one.until_ms} for one in user.secrets],
    }


def _acl_fields(acl: Acl) -> dict[str, Any]:
    policies = [
        {"policyType": policy.value, "entries": [_entry_fields(one) for one in entries]}
        for policy in PolicyType
        if (entries := acl.entries(policy))
    ]
    return {"subject": subject_of(acl.username), "policies": policies}


def _entry_fields(entry: Entry) -> dict[str, Any]:
    return {
        "resource": str(entry.resource),
        "actions": sorted(one.value for one in entry.actions),
        "sourceIps": list(entry.source_ips),
        "decision": entry.decision.value,
    }


def decode(version: Version, data: bytes) -> AccessTable:
    """Raises `Corrupt`."""
    try:
        fields = json.loads(data)
        users = [_user_of(one) for one in fields["users"]]
        acls = [_acl_of(one) for one in fields["acls"]]
        limits = [_limits_of(one) for one in fields.get("limits", [])]
    except Exception as wrong:
        reason = f"no table of users: {wrong!r}"
        raise Corrupt(path=f"access table {version.version}", offset="?", reason=reason) from wrong
    return AccessTable(
        version,
        {one.username: one for one in users},
        {one.username: one for one in acls},
        {one.subject: one for one in limits},
    )


def _limits_fields(limits: Limits) -> dict[str, Any]:
    amounts = {name: getattr(limits, field) for name, field in _AMOUNTS.items()}
    return {"subject": limits.subject, **amounts}


def _limits_of(fields: dict[str, Any]) -> Limits:
    """An older proxy has written the first three alone."""
    amounts = {field: int(fields.get(name, 0)) for name, field in _AMOUNTS.items()}
    return check_limits(Limits(str(fields["subject"]), **amounts))


def _user_of(fields: dict[str, Any]) -> User:
    return User(
        str(fields["username"]),
        word(UserType, fields["userType"]),
        word(UserStatus, fields["userStatus"]),
        tuple(Secret(str(one["key"]), int(one["until"])) for one in fields["secrets"]),
    )


def _acl_of(fields: dict[str, Any]) -> Acl:
    acl = Acl(username_of(fields["subject"]))
    for policy in fields["policies"]:
        entries = tuple(_entry_of(one) for one in policy["entries"])
        acl = _with_policy(acl, word(PolicyType, policy["policyType"]), entries)
    return acl


def _entry_of(fields: dict[str, Any]) -> Entry:
    return Entry.of(
        fields["resource"], fields["actions"], fields["decision"], fields.get("sourceIps", [])
    )
