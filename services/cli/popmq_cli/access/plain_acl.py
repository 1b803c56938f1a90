"""RocketMQ 4's plain_acl.yml (ACL 1.0) as users and policies.

    account          → user; admin: true → SUPER
    topicPerms       → entries of policy Custom for Topic:NAME; groupPerms likewise
    defaultTopicPerm → entry of policy Default for Topic:*; defaultGroupPerm for Group:*
    PUB, SUB         → Allow of these; PUB|SUB: of both; DENY → Deny of All
    addresses        → not carried over: requests from there were not checked, and now are

Where the default allows what the line of a topic does not, policy Default gets a Deny for that
topic: in ACL 1.0 the default does not count for a topic that has a line of its own.

Source: RocketMQ AuthMigrator, which lacks that Deny, and reads an unknown word as Allow of All.
Here an unknown word is refused.
"""

from collections.abc import Iterator
from typing import Any, Final

import yaml

from popmq_admin.v1 import admin_pb2 as admin
from popmq_cli.access.access_file import (
    AccessFile,
    FilePolicy,
    FileUser,
    WrongFile,
    check_once,
)

PERMISSIONS: Final = {
    "PUB": ("Pub",),
    "SUB": ("Sub",),
    "PUB|SUB": ("Pub", "Sub"),
    "SUB|PUB": ("Pub", "Sub"),
    "DENY": (),
}
KINDS: Final = {
    "Topic": ("topicPerms", "defaultTopicPerm"),
    "Group": ("groupPerms", "defaultGroupPerm"),
}
_NOTHING: Final = ("", "~", "null")
_YES: Final = ("true", "yes", "on")
_NO: Final = ("false", "no", "off", *_NOTHING)


def read(text: str) -> AccessFile:
    """Raises `WrongFile`."""
    found = _loaded(text)
    accounts = found.get("accounts") if isinstance(found, dict) else None
    if not isinstance(accounts, list):
        raise WrongFile("it has no list of accounts, as plain_acl.yml has")
    users: list[FileUser] = []
    policies: list[FilePolicy] = []
    left = list(_global_addresses(found))
    for i, account in enumerate(accounts):
        if not isinstance(account, dict):
            raise WrongFile(f"accounts[{i}] has no accessKey")
        user = _user(account, i)
        users.append(user)
        policies += _policies(account, user.username)
        left += _own_address(account, user.username)
    check_once(one.username for one in users)
    return AccessFile(tuple(users), tuple(policies), tuple(left))


def _loaded(text: str) -> Any:
    """All values as texts: a secret 0123 is no number. Errors of the library show the line that is
    wrong, which may have a secret, so only its number is told."""
    try:
        return yaml.load(text, yaml.BaseLoader)
    except yaml.MarkedYAMLError as wrong:
        line = wrong.problem_mark.line + 1 if wrong.problem_mark else "?"
        raise WrongFile(f"it is no YAML: line {line} cannot be read") from None
    except (yaml.YAMLError, RecursionError, ValueError):
        raise WrongFile("it is no YAML") from None


def _user(account: dict[str, Any], index: int) -> FileUser:
    name = _text(account, "accessKey", f"accounts[{index}]")
    if not name:
        raise WrongFile(f"accounts[{index}] has no accessKey")
    is_admin = _text(account, "admin", f"account {name}").lower()
    if is_admin not in _YES + _NO:
        raise WrongFile(f"admin of account {name} is neither true nor false")
    kind = "SUPER" if is_admin in _YES else "NORMAL"
    return FileUser(name, kind, secret=_text(account, "secretKey", f"account {name}"))


def _policies(account: dict[str, Any], name: str) -> Iterator[FilePolicy]:
    custom: list[admin.AclEntry] = []
    default: list[admin.AclEntry] = []
    for kind, (own, other) in KINDS.items():
        allowed: tuple[str, ...] = ()
        if word := _text(account, other, f"account {name}"):
            allowed = _allowed(word, f"{other} of account {name}")
            default.append(_entry(f"{kind}:*", allowed))
        for resource, actions in _lines(account, own, name):
            custom.append(_entry(f"{kind}:{resource}", actions))
            more = [one for one in allowed if actions and one not in actions]
            if more:
                denied = admin.AclEntry(
                    resource=f"{kind}:{resource}", actions=more, decision="Deny"
                )
                default.append(denied)
    for policy, entries in (("Custom", custom), ("Default", default)):
        if entries:
            yield FilePolicy(name, policy, tuple(entries))


def _lines(account: dict[str, Any], field: str, name: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Of topicPerms or groupPerms: `orders=PUB|SUB` → ("orders", ("Pub", "Sub"))."""
    at = f"{field} of account {name}"
    for line in _list(account, field, f"account {name}"):
        if not isinstance(line, str):
            raise WrongFile(f"{at} is no list of texts")
        resource, equals, word = line.partition("=")
        if not equals or not resource.strip():
            raise WrongFile(f"{at}: {line!r} is not written NAME=PUB|SUB")
        yield resource.strip(), _allowed(word, f"{at}, {resource.strip()}")


def _allowed(word: str, at: str) -> tuple[str, ...]:
    """None: all is denied. Raises `WrongFile`."""
    found = PERMISSIONS.get("".join(word.split()).upper())
    if found is None:
        raise WrongFile(f"{at}: {word.strip()!r} is not one of {', '.join(PERMISSIONS)}")
    return found


def _entry(resource: str, allowed: tuple[str, ...]) -> admin.AclEntry:
    if not allowed:
        return admin.AclEntry(resource=resource, actions=["All"], decision="Deny")
    return admin.AclEntry(resource=resource, actions=allowed, decision="Allow")


def _global_addresses(found: dict[str, Any]) -> Iterator[str]:
    addresses = _list(found, "globalWhiteRemoteAddresses", "the file")
    if not all(isinstance(one, str) for one in addresses):
        raise WrongFile("globalWhiteRemoteAddresses is no list of texts")
    if addresses:
        yield (
            f"globalWhiteRemoteAddresses ({', '.join(addresses)}) is not carried over: requests "
            "from there must be signed now"
        )


def _own_address(account: dict[str, Any], name: str) -> Iterator[str]:
    address = _text(account, "whiteRemoteAddress", f"account {name}")
    if address:
        yield (
            f"whiteRemoteAddress of {name} ({address}) is not carried over: requests from there "
            "must be signed now"
        )


def _text(found: dict[str, Any], name: str, at: str) -> str:
    """Empty: it is not there. Raises `WrongFile`."""
    value = found.get(name, "")
    if not isinstance(value, str):
        raise WrongFile(f"{name} of {at} is no text")
    return "" if value.strip().lower() in _NOTHING else value.strip()


def _list(found: dict[str, Any], name: str, at: str) -> list[Any]:
    value = found.get(name, "")
    if isinstance(value, str) and value.strip().lower() in _NOTHING:
        return []
    if not isinstance(value, list):
        raise WrongFile(f"{name} of {at} is no list")
    return value
