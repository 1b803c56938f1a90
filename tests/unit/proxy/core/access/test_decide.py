"""Who may do what? The decision beside a slow model that is written another way."""

import re
from itertools import combinations, permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from popmq_proxy.core.access.decide import decide
from popmq_proxy.core.access.model import (
    ANY_NAME,
    Acl,
    Action,
    Decision,
    Entry,
    Need,
    PolicyType,
    ResourceType,
    User,
    UserType,
)

ALICE = User("alice")
HOME, AWAY = "10.1.2.3", "192.0.2.9"
PUB_ORDERS = Need(ResourceType.TOPIC, "shop%orders", (Action.PUB,))
RESOURCES = [
    *("*", "Topic:*", "Topic:shop%orders", "Topic:shop%ord*", "Topic:shop%*", "Topic:s*"),
    *("Namespace:shop", "Namespace:sh*", "Namespace:*", "Topic:other", "Group:*", "Cluster:*"),
    *("Group:g", "Group:shop%g", "Topic:orders", "Namespace:other"),
]
NEEDS = [
    Need(kind, name, actions)
    for kind, name in (
        (ResourceType.TOPIC, "shop%orders"),
        (ResourceType.TOPIC, "orders"),
        (ResourceType.TOPIC, ANY_NAME),
        (ResourceType.GROUP, "g"),
        (ResourceType.GROUP, "%RETRY%shop%g"),
        (ResourceType.CLUSTER, "DefaultCluster"),
    )
    for actions in ((Action.PUB,), (Action.SUB,), (Action.PUB, Action.SUB), (Action.GET,))
]


def entry(resource: str, decision: str = "Allow", actions: str = "All", *source_ips: str) -> Entry:
    return Entry.of(resource, actions.split(","), decision, list(source_ips))


def model(acl: Acl, need: Need, address: str) -> bool:
    """By texts and numbers alone."""
    for entries in (acl.custom, acl.default):
        ranked = sorted(
            (rank(str(one.resource)), one.decision is Decision.ALLOW)
            for one in entries
            if named(str(one.resource), need)
            and (one.actions & {Action.ALL, *need.actions})
            and (not one.source_ips or (address == HOME) == ("10.0.0.0/8" in one.source_ips))
        )
        if ranked:
            return ranked[0][1]
    return False


def rank(text: str) -> tuple[int, int]:
    """Smaller is asked first."""
    if text == "*":
        return 3, 0
    kind, _, name = text.partition(":")
    if name == "*":
        return 2, 0
    if name.endswith("*"):
        return 1, 1 - len(name)
    return (1, -1 - len(name)) if kind == "Namespace" else (0, 0)


def named(text: str, need: Need) -> bool:
    if text == "*":
        return True
    kind, _, name = text.partition(":")
    asked = re.sub("^(%RETRY%|%DLQ%)", "", need.name)
    if kind == "Namespace":
        if need.type is ResourceType.CLUSTER or "%" not in asked:
            return False
        asked = asked.split("%")[0]
    elif kind != need.type.value:
        return False
    if need.name == ANY_NAME and name != "*":
        return False
    return re.fullmatch(re.escape(name).replace(r"\*", ".*"), asked) is not None


def test_all_pairs_of_entries_are_decided_as_the_model_does() -> None:
    """Upstream's order was wrong three times, so no examples: every pair, in both orders."""
    entries = [entry(name, decision) for name, decision in product(RESOURCES, ("Allow", "Deny"))]
    for need in NEEDS:
        for pair in (*combinations(entries, 1), *permutations(entries, 2)):
            acl = Acl("alice", custom=pair)
            assert decide(ALICE, acl, need, HOME).allowed == model(acl, need, HOME), (need, pair)


ENTRIES = st.lists(
    st.builds(
        lambda resource, decision, actions, home: Entry.of(
            resource, sorted(actions), decision, ["10.0.0.0/8"] if home else []
        ),
        st.sampled_from(RESOURCES),
        st.sampled_from(("Allow", "Deny")),
        st.sets(st.sampled_from(("Pub", "Sub", "Get", "All")), min_size=1),
        st.booleans(),
    ),
    max_size=6,
    unique_by=lambda one: one.resource,
).map(tuple)


@given(ENTRIES, ENTRIES, st.sampled_from(NEEDS), st.sampled_from((HOME, AWAY)))
def test_any_policies_are_decided_as_the_model_does(
    custom: tuple[Entry, ...], default: tuple[Entry, ...], need: Need, address: str
) -> None:
    acl = Acl("alice", custom, default)
    assert decide(ALICE, acl, need, address).allowed == model(acl, need, address)


def test_who_has_no_policy_may_nothing_and_a_super_user_everything() -> None:
    assert not decide(ALICE, None, PUB_ORDERS, HOME).allowed
    assert decide(ALICE, None, PUB_ORDERS, HOME).reason == "no matched policies"
    root = User("root", UserType.SUPER)
    denied = Acl("root", custom=(entry("*", "Deny"),))
    assert decide(root, denied, PUB_ORDERS, HOME).allowed


def test_the_default_policy_is_asked_only_when_no_custom_entry_fits() -> None:
    default = (entry("Topic:*", "Allow"),)
    custom = (entry("*", "Deny", "Pub"),)
    verdict = decide(ALICE, Acl("alice", custom, default), PUB_ORDERS, HOME)
    assert (verdict.allowed, verdict.policy) == (False, PolicyType.CUSTOM)
    sub = Need(ResourceType.TOPIC, "shop%orders", (Action.SUB,))
    verdict = decide(ALICE, Acl("alice", custom, default), sub, HOME)
    assert (verdict.allowed, verdict.policy) == (True, PolicyType.DEFAULT)


@pytest.mark.parametrize(
    ("source", "address", "allowed"),
    [
        ("10.1.2.3", "10.1.2.3", True),
        ("10.1.2.3", "10.1.2.33", False),
        ("10.0.0.0/8", "10.255.0.1", True),
        ("10.0.0.1/8", "10.255.0.1", True),  # host bits may be set, as RocketMQ takes them
        ("2001:db8::/32", "2001:db8::7", True),
        ("2001:db8::/32", "10.0.0.1", False),
        ("10.0.0.0/8", "::ffff:10.0.0.1", True),  # an IPv4 client of an IPv6 socket
        ("fe80::/10", "fe80::1%eth0", True),
        ("10.0.0.0/8", "no address", False),
    ],
)
def test_an_entry_for_some_addresses_fits_those_alone(
    source: str, address: str, allowed: bool
) -> None:
    acl = Acl("alice", custom=(entry("Topic:*", "Allow", "All", source),))
    assert decide(ALICE, acl, PUB_ORDERS, address).allowed is allowed


def test_the_verdict_names_the_entry_that_decided() -> None:
    deny = entry("Topic:shop%ord*", "Deny", "Pub")
    acl = Acl("alice", custom=(entry("Topic:shop%*"), deny))
    verdict = decide(ALICE, acl, PUB_ORDERS, HOME)
    assert verdict.entry is deny
    assert verdict.reason == "Deny of Topic:shop%ord*"


def test_a_literal_allow_beats_a_shorter_deny_and_deny_wins_a_tie() -> None:
    literal = Acl("alice", custom=(entry("Topic:*", "Deny"), entry("Topic:shop%orders")))
    assert decide(ALICE, literal, PUB_ORDERS, HOME).allowed
    tie = Acl("alice", custom=(entry("Topic:shop%*"), entry("Namespace:shop", "Deny")))
    assert not decide(ALICE, tie, PUB_ORDERS, HOME).allowed
