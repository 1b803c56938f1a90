"""Users and policies: what may be changed, and is the same table read that was written?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from popmq_common.errors import (
    AclEntryExists,
    Corrupt,
    IllegalAccessEntry,
    IllegalUser,
    LastSuperUser,
    NothingThere,
    PopMQError,
    TooManyRequests,
    UserExists,
    UserNotFound,
)
from popmq_proxy.core.access import table as tables
from popmq_proxy.core.access.model import (
    Entry,
    PolicyType,
    Resource,
    Secret,
    User,
    UserStatus,
    UserType,
    check_username,
    username_of,
)
from popmq_proxy.core.access.table import AccessTable, Version, changed_users, decode, encode

ROOT = User("root", UserType.SUPER, secrets=(Secret("k1"),))
ALICE = User("alice", secrets=(Secret("k2"), Secret("k3", 99)))
TABLE = AccessTable().with_user(ROOT).with_user(ALICE)


def entry(resource: str, decision: str = "Allow") -> Entry:
    return Entry.of(resource, ["Pub", "sub"], decision, ["10.0.0.0/8"])


def test_a_table_is_read_as_it_was_written() -> None:
    table = TABLE.with_entries("alice", PolicyType.CUSTOM, [entry("Topic:a*"), entry("*", "Deny")])
    table = table.with_entries("alice", PolicyType.DEFAULT, [entry("Group:*")])
    version = Version(7, "s")
    read = decode(version, encode(table))
    assert (read.version, read.users, read.acls) == (version, table.users, table.acls)


@given(st.binary(max_size=200))
def test_what_is_no_table_is_corrupt(data: bytes) -> None:
    with pytest.raises(Corrupt):
        decode(Version(1, ""), data)


def test_keys_are_in_no_text_of_a_user() -> None:
    assert "k2" not in repr(ALICE)
    assert "k1" not in repr(TABLE)


def test_the_last_super_user_stays() -> None:
    with pytest.raises(LastSuperUser):
        TABLE.without_user("root")
    for less in (User("root"), User("root", UserType.SUPER, UserStatus.DISABLED)):
        with pytest.raises(LastSuperUser):
            TABLE.with_user(less)
    two = TABLE.with_user(User("other", UserType.SUPER))
    assert two.without_user("root").governs()
    assert not AccessTable().with_user(ALICE).governs()  # before there is one, none is missed


def test_a_user_who_goes_takes_the_policies_along() -> None:
    table = TABLE.with_entries("alice", PolicyType.CUSTOM, [entry("Topic:a")])
    assert table.without_user("alice").acls == {}
    with pytest.raises(UserNotFound, match="alice"):
        table.without_user("alice").without_user("alice")


def test_one_resource_has_one_entry_in_a_policy() -> None:
    table = TABLE.with_entries("alice", PolicyType.CUSTOM, [entry("Topic:a"), entry("topic:b")])
    with pytest.raises(AclEntryExists, match="Topic:b"):
        table.with_entries("alice", PolicyType.CUSTOM, [entry("Topic:b", "Deny")], only_new=True)
    table = table.with_entries("alice", PolicyType.CUSTOM, [entry("Topic:b", "Deny")])
    decisions = [one.decision.value for one in table.acls["alice"].custom]
    assert decisions == ["Allow", "Deny"]
    table, gone = table.without_entries("alice", None, "Topic:a")
    assert (gone, len(table.acls["alice"].custom)) == (1, 1)
    table, gone = table.without_entries("alice", PolicyType.CUSTOM, "")
    assert (gone, table.acls) == (1, {})
    with pytest.raises(NothingThere):
        table.without_entries("alice", None, "")


def test_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "USERS_MAX", 2)
    with pytest.raises(TooManyRequests, match="users"):
        TABLE.with_user(User("third"))
    monkeypatch.setattr(tables, "ENTRIES_MAX", 1)
    with pytest.raises(TooManyRequests, match="entries"):
        TABLE.with_entries("alice", PolicyType.CUSTOM, [entry("Topic:a"), entry("Topic:b")])
    monkeypatch.setattr(tables, "TABLE_BYTES_MAX", 10)
    with pytest.raises(TooManyRequests, match="bytes"):
        encode(TABLE)
    with pytest.raises(IllegalUser, match="2 keys"):
        TABLE.with_user(User("a", secrets=(Secret("1"), Secret("2"), Secret("3"))))


def test_who_exists_is_not_made_again() -> None:
    with pytest.raises(UserExists, match="popmq user update alice"):
        TABLE.with_user(ALICE, only_new=True)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "a,b", "a=b", "User:a", "a%b", "*", "x" * 256])
def test_names_that_no_header_could_carry_are_refused(name: str) -> None:
    with pytest.raises(IllegalUser):
        check_username(name)


def test_a_subject_is_a_user() -> None:
    assert username_of("User:alice") == username_of("user:alice") == username_of("alice") == "alice"
    with pytest.raises(IllegalUser, match="User:NAME"):
        username_of("Group:alice")


@pytest.mark.parametrize(
    "text", ["", "Topic", "Topic:", "Thing:a", "*:a", "orders", f"Topic:{'x' * 256}"]
)
def test_no_resource(text: str) -> None:
    with pytest.raises(IllegalAccessEntry):
        Resource.parse(text)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [("*", "*"), ("topic:a", "Topic:a"), ("TOPIC:a*b", "Topic:a*"), ("Group:*", "Group:*")],
)
def test_a_resource_is_written_in_one_way(text: str, canonical: str) -> None:
    assert str(Resource.parse(text)) == canonical


@pytest.mark.parametrize(
    ("actions", "decision", "ips"),
    [
        ([], "Allow", []),
        (["Any"], "Allow", []),
        (["Publish"], "Allow", []),
        (["Pub"], "Maybe", []),
        (["Pub"], "Allow", ["10.0.0.0/33"]),
        (["Pub"], "Allow", ["localhost"]),
    ],
)
def test_no_entry(actions: list[str], decision: str, ips: list[str]) -> None:
    with pytest.raises(IllegalAccessEntry):
        Entry.of("Topic:a", actions, decision, ips)


NAMES = st.sampled_from(["root", "alice", "bob"])
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("user"), NAMES, st.sampled_from(UserType), st.sampled_from(UserStatus)),
        st.tuples(st.just("gone"), NAMES, st.none(), st.none()),
        st.tuples(st.just("entry"), NAMES, st.sampled_from(PolicyType), st.none()),
        st.tuples(st.just("no entry"), NAMES, st.sampled_from(PolicyType), st.none()),
    ),
    max_size=20,
)


@given(CHANGES)
def test_no_history_leaves_nobody_in_charge_or_a_policy_of_nobody(changes: list[tuple]) -> None:  # type: ignore[type-arg]
    table = AccessTable().with_user(ROOT)
    for kind, name, one, other in changes:
        before = table
        try:
            if kind == "user":
                table = table.with_user(User(name, one, other))
            elif kind == "gone":
                table = table.without_user(name)
            elif kind == "entry":
                table = table.with_entries(name, one, [entry("Topic:a")])
            else:
                table, _ = table.without_entries(name, one, "Topic:a")
        except PopMQError:
            assert table is before
        assert table.governs()
        assert table.acls.keys() <= table.users.keys()
        assert decode(table.version, encode(table)) == table
        assert changed_users(before, table) <= {name}
