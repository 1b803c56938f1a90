"""RocketMQ 4's plain_acl.yml becomes users and policies that decide as it did."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from popmq_admin.v1 import admin_pb2 as admin
from popmq_cli.access.access_file import AccessFile, FileUser, WrongFile
from popmq_cli.access.plain_acl import PERMISSIONS, read
from popmq_proxy.core.access.decide import decide
from popmq_proxy.core.access.model import Acl, Action, Entry, Need, ResourceType, User

FILE = Path(__file__).with_name("plain_acl.yml")


def told(entry: admin.AclEntry) -> str:
    return f"{entry.decision} {','.join(entry.actions)} {entry.resource}"


def policy(file: AccessFile, username: str, kind: str) -> list[str]:
    return [
        told(entry)
        for one in file.policies
        if (one.username, one.type) == (username, kind)
        for entry in one.entries
    ]


def test_accounts_become_users() -> None:
    """A secret stays as it is written: 0123456789 is no number, and # is no comment."""
    assert read(FILE.read_text()).users == (
        FileUser("orders-service", "NORMAL", secret="0123456789"),
        FileUser("reader", "NORMAL", secret="reader: secret # 1"),
        FileUser("operator", "SUPER", secret="operator-secret"),
    )


def test_permissions_become_entries() -> None:
    found = read(FILE.read_text())
    assert policy(found, "orders-service", "Custom") == [
        "Allow Pub,Sub Topic:orders",
        "Allow Sub Topic:invoices",
        "Deny All Topic:salaries",
        "Allow Sub Group:billing",
        "Deny All Group:payroll",
    ]
    assert policy(found, "orders-service", "Default") == [
        "Deny All Topic:*",
        "Allow Sub Group:*",
    ]
    assert policy(found, "reader", "Custom") == ["Allow Sub Topic:orders"]
    assert policy(found, "reader", "Default") == ["Allow Pub,Sub Topic:*", "Deny Pub Topic:orders"]
    assert not [one for one in found.policies if one.username == "operator"]


def test_addresses_that_are_not_carried_over_are_told() -> None:
    everywhere, reader = read(FILE.read_text()).not_carried_over
    assert "10.10.103.*, 192.168.0.*" in everywhere
    assert "whiteRemoteAddress of reader (192.168.1.*)" in reader
    assert all("must be signed now" in text for text in (everywhere, reader))


def decided(account: dict[str, Any], kind: ResourceType, action: Action) -> bool:
    """By the proxy, from what is read."""
    found = read(yaml.safe_dump({"accounts": [{"accessKey": "u", **account}]}))
    entries = {
        one.type: tuple(
            Entry.of(e.resource, list(e.actions), e.decision, list(e.source_ips))
            for e in one.entries
        )
        for one in found.policies
    }
    acl = Acl("u", entries.get("Custom", ()), entries.get("Default", ()))
    return decide(User("u"), acl, Need(kind, "x", (action,)), "10.0.0.1").allowed


@pytest.mark.parametrize("default", ["", *PERMISSIONS])
@pytest.mark.parametrize("own", ["", *PERMISSIONS])
def test_every_decision_is_that_of_acl_1(own: str, default: str) -> None:
    """The line of a topic or group counts alone; without one the default does; without both
    nothing is allowed."""
    for kind, lines, other in (
        (ResourceType.TOPIC, "topicPerms", "defaultTopicPerm"),
        (ResourceType.GROUP, "groupPerms", "defaultGroupPerm"),
    ):
        account: dict[str, Any] = {other: default, lines: [f"x={own}"] if own else None}
        for action in (Action.PUB, Action.SUB):
            expected = action.value.upper() in (own or default).split("|")
            assert decided(account, kind, action) is expected, (kind, action)
        assert not decided(account, kind, Action.DELETE)


@pytest.mark.parametrize("word", ["PUBSUB", "ALL", "PUB|SUB|X", "ANY"])
def test_an_unknown_permission_is_refused_and_allows_nothing(word: str) -> None:
    for account in (
        {"topicPerms": [f"t={word}"]},
        {"groupPerms": [f"g={word}"]},
        {"defaultTopicPerm": word},
        {"defaultGroupPerm": word},
    ):
        with pytest.raises(WrongFile, match=r"account u.*is not one of PUB, SUB"):
            read(yaml.safe_dump({"accounts": [{"accessKey": "u", **account}]}))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no list of accounts"),
        ("[]", "no list of accounts"),
        ("accounts: 3", "no list of accounts"),
        ("accounts: [3]", r"accounts\[0\] has no accessKey"),
        ("accounts: [{secretKey: hidden}]", r"accounts\[0\] has no accessKey"),
        ("accounts: [{accessKey: u, admin: perhaps}]", "admin of account u"),
        ("accounts: [{accessKey: u}, {accessKey: u}]", "user u is there twice"),
        ("accounts: [{accessKey: u, topicPerms: [t]}]", "is not written NAME=PUB"),
        ("accounts: [{accessKey: u, topicPerms: ['=PUB']}]", "is not written NAME=PUB"),
        ("accounts: [{accessKey: u, topicPerms: t=PUB}]", "topicPerms of account u is no list"),
        ("accounts: [{accessKey: u, topicPerms: [{t: PUB}]}]", "no list of texts"),
        ("accounts: [{accessKey: u, secretKey: [hidden]}]", "secretKey of account u is no text"),
        ("globalWhiteRemoteAddresses: [[1]]\naccounts: []", "no list of texts"),
        ("accounts:\n  - accessKey: u\n    secretKey: 'hidden\n", "no YAML: line "),
        ("accounts:\n  - secretKey: @hidden\n", "no YAML: line 2"),
        ("accounts: !!python/object:os.system {hidden: 1}", "no list of accounts"),
        ("[" * 5_000, "no YAML"),
    ],
)
def test_what_is_wrong_is_told_without_a_secret(text: str, told: str) -> None:
    with pytest.raises(WrongFile, match=told) as failed:
        read(text)
    assert "hidden" not in str(failed.value)


def test_yes_is_an_administrator_as_in_rocketmq() -> None:
    """Its reader takes YAML 1.1's words."""
    for word, kind in (("yes", "SUPER"), ("True", "SUPER"), ("no", "NORMAL"), ("~", "NORMAL")):
        (user,) = read(f"accounts: [{{accessKey: u, admin: {word}}}]").users
        assert user.type == kind
