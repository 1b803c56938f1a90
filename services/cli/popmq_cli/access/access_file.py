"""Users and policies as a file says them, and RocketMQ's JSON of them: UserInfo, AclInfo.

    {"users": [
        {"username": "alice", "password": "…", "userType": "Normal", "userStatus": "enable"}],
     "acls": [{"subject": "User:alice", "policies": [{"policyType": "Custom", "entries": [
        {"resource": "Topic:a", "actions": ["Pub"], "sourceIps": [], "decision": "Allow"}]}]}]}

A list of UserInfo or AclInfo, or a single one, is read, too. What is wrong is told by its place, so
that a message never shows a secret.

Source: RocketMQ remoting.protocol.body UserInfo and AclInfo, broker.auth.converter.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from popmq_admin.v1 import admin_pb2 as admin
from popmq_readings.access_words import ACTIONS, known, username_of

USER_TYPES: Final = {"Super": "SUPER", "Normal": "NORMAL"}
"""RocketMQ's words → those of popmq.admin.v1."""
USER_STATUSES: Final = {"enable": "ENABLED", "disable": "DISABLED"}
POLICY_TYPES: Final = ("Custom", "Default")
DECISIONS: Final = ("Allow", "Deny")


class WrongFile(ValueError):
    """Says where, and what."""


@dataclass(frozen=True, slots=True)
class FileUser:
    username: str
    type: str = ""
    """SUPER, NORMAL; empty: the file does not say."""
    status: str = ""
    """ENABLED, DISABLED, or empty."""
    secret: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class FilePolicy:
    username: str
    type: str
    """Custom, Default."""
    entries: tuple[admin.AclEntry, ...]


@dataclass(frozen=True, slots=True)
class AccessFile:
    users: tuple[FileUser, ...]
    policies: tuple[FilePolicy, ...]
    not_carried_over: tuple[str, ...] = ()
    """Sentences without a full stop."""


def read(text: str) -> AccessFile:
    """Raises `WrongFile`."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as wrong:
        raise WrongFile(f"it is no JSON: {wrong}") from wrong
    users, acls = _parts(found)
    read_users = tuple(_user(one, f"users[{i}]") for i, one in enumerate(users))
    policies = [one for i, acl in enumerate(acls) for one in _policies(acl, f"acls[{i}]")]
    check_once(one.username for one in read_users)
    return AccessFile(read_users, tuple(policies))


def check_once(names: Iterable[str]) -> None:
    """Raises `WrongFile`."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise WrongFile(f"user {name} is there twice")
        seen.add(name)


def _parts(found: Any) -> tuple[list[Any], list[Any]]:
    """(UserInfos, AclInfos). Raises `WrongFile`."""
    if isinstance(found, dict) and not {"users", "acls"} & found.keys():
        found = [found]
    if isinstance(found, dict):
        return _list(found, "users", "the file"), _list(found, "acls", "the file")
    if not isinstance(found, list):
        raise WrongFile('it has neither "users" nor "acls"')
    for i, one in enumerate(found):
        if not isinstance(one, dict) or not {"username", "subject"} & one.keys():
            raise WrongFile(f"[{i}] is neither a user nor an ACL: no username, no subject")
    return [one for one in found if "username" in one], [one for one in found if "subject" in one]


def _user(found: Any, at: str) -> FileUser:
    status = _word(found, "userStatus", list(USER_STATUSES), at)
    kind = _word(found, "userType", list(USER_TYPES), at)
    return FileUser(
        _text(found, "username", at, needed=True),
        USER_TYPES.get(kind, ""),
        USER_STATUSES.get(status, ""),
        _text(found, "password", at),
    )


def _policies(found: Any, at: str) -> Iterable[FilePolicy]:
    username = username_of(_text(found, "subject", at, needed=True))
    for i, policy in enumerate(_list(found, "policies", at)):
        here = f"{at}.policies[{i}]"
        kind = _word(policy, "policyType", POLICY_TYPES, here) or POLICY_TYPES[0]
        entries = [
            _entry(one, f"{here}.entries[{k}]")
            for k, one in enumerate(_list(policy, "entries", here))
        ]
        if entries:
            yield FilePolicy(username, kind, tuple(entries))


def _entry(found: Any, at: str) -> admin.AclEntry:
    actions = _texts(found, "actions", at)
    if not actions:
        raise WrongFile(f"{at} names no actions")
    decision = _word(found, "decision", DECISIONS, at)
    if not decision:
        raise WrongFile(f"{at} has no decision")
    try:
        named = [known(one, ACTIONS) for one in actions]
    except ValueError as wrong:
        raise WrongFile(f"{at}.actions: {wrong}") from wrong
    return admin.AclEntry(
        resource=_text(found, "resource", at, needed=True),
        actions=named,
        source_ips=_texts(found, "sourceIps", at),
        decision=decision,
    )


def _list(found: Any, name: str, at: str) -> list[Any]:
    if not isinstance(found, dict):
        raise WrongFile(f"{at} is no object")
    value = found.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise WrongFile(f"{name} of {at} is no list")
    return value


def _text(found: Any, name: str, at: str, *, needed: bool = False) -> str:
    """Empty: it is not there. Raises `WrongFile`."""
    if not isinstance(found, dict):
        raise WrongFile(f"{at} is no object")
    value = found.get(name)
    if value is None and not needed:
        return ""
    if not isinstance(value, str) or (needed and not value):
        raise WrongFile(f"{at} has no {name}" if not value else f"{name} of {at} is no text")
    return value


def _texts(found: Any, name: str, at: str) -> list[str]:
    values = _list(found, name, at)
    if not all(isinstance(one, str) for one in values):
        raise WrongFile(f"{name} of {at} is no list of texts")
    return values


def _word(found: Any, name: str, words: Sequence[str], at: str) -> str:
    """Empty: it is not there. Raises `WrongFile`."""
    value = _text(found, name, at)
    try:
        return known(value, words) if value else ""
    except ValueError as wrong:
        raise WrongFile(f"{name} of {at}: {wrong}") from wrong


def written(users: Iterable[admin.User], acls: Iterable[admin.Acl]) -> dict[str, Any]:
    """What `read` reads. Servers do not tell secrets, so there is no password."""
    types = {ours: theirs for theirs, ours in USER_TYPES.items()}
    statuses = {ours: theirs for theirs, ours in USER_STATUSES.items()}
    return {
        "users": [
            {
                "username": one.username,
                "userType": types[one.type],
                "userStatus": statuses[one.status],
            }
            for one in users
        ],
        "acls": [
            {
                "subject": acl.subject,
                "policies": [
                    {"policyType": policy.type, "entries": [_entry_info(e) for e in policy.entries]}
                    for policy in acl.policies
                ],
            }
            for acl in acls
        ],
    }


def _entry_info(entry: admin.AclEntry) -> dict[str, Any]:
    return {
        "resource": entry.resource,
        "actions": list(entry.actions),
        "sourceIps": list(entry.source_ips),
        "decision": entry.decision,
    }
