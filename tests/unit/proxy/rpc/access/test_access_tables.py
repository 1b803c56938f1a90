"""Is a change of users there after it was answered, on every broker, whoever else changes them?"""

import asyncio
from pathlib import Path
from random import Random

import pytest
from harness.access import GuardedProxy, context
from unit.proxy.rpc.access.conftest import ROOT, TwoBrokers

from popmq_admin.v1 import admin_pb2 as admin
from popmq_broker.engine.journal.catalog_state import CatalogState
from popmq_common.errors import AccessChanged, AccessNotKnown, BrokerUnreachable, UserExists
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.core.access.table import AccessTable, Version, decode


def users_at(state: CatalogState) -> list[str]:
    version, text = state.access
    return sorted(decode(Version(*version), text.encode()).users)


def create(name: str) -> admin.CreateUserRequest:
    return admin.CreateUserRequest(username=name, secret="12345678")


def test_a_change_is_on_every_broker_before_it_is_answered(cluster: TwoBrokers) -> None:
    cluster.proxy.ask(ROOT, "CreateUser", create("alice"))
    for engine in (cluster.a, cluster.b):
        engine.crash(Random(1))
        assert users_at(engine.broker.state.catalog_state) == ["alice", "root"]


def test_a_change_is_in_force_at_other_proxies_with_their_next_look(cluster: TwoBrokers) -> None:
    cluster.proxy.ask(ROOT, "CreateUser", create("alice"))
    assert "alice" not in cluster.other.methods.access.current.users
    cluster.other.refresh()
    assert "alice" in cluster.other.methods.access.current.users


def test_a_broker_that_is_away_gets_it_when_it_is_back(cluster: TwoBrokers) -> None:
    cluster.away.add("b")
    response = cluster.proxy.ask(ROOT, "CreateUser", create("alice"))
    assert list(response.missing_brokers) == ["b"]
    assert users_at(cluster.b.broker.state.catalog_state) == ["root"]
    listed = cluster.proxy.ask(ROOT, "ListUsers", admin.ListUsersRequest())
    assert list(listed.missing_brokers) == ["b"]
    cluster.away.clear()
    listed = cluster.proxy.ask(ROOT, "ListUsers", admin.ListUsersRequest())
    assert list(listed.missing_brokers) == []
    assert users_at(cluster.b.broker.state.catalog_state) == ["alice", "root"]


def test_a_change_that_no_broker_took_has_not_happened(cluster: TwoBrokers) -> None:
    cluster.away |= {"a", "b"}
    with pytest.raises(BrokerUnreachable):
        cluster.proxy.ask(ROOT, "CreateUser", create("alice"))
    cluster.away.clear()
    cluster.proxy.refresh()
    assert sorted(cluster.proxy.methods.access.current.users) == ["root"]


def test_two_proxies_that_change_at_once_both_get_their_way(cluster: TwoBrokers) -> None:
    """Twenty changes each, beside each other: none undoes another one."""

    async def change(proxy: GuardedProxy, name: str) -> None:
        handler = proxy.methods.users.create
        await handler(ROOT._replace(user="root"), create(name))

    async def all_of_them() -> None:
        names = [f"u{number}" for number in range(20)]
        await asyncio.gather(
            *(change(cluster.proxy, f"{name}a") for name in names),
            *(change(cluster.other, f"{name}b") for name in names),
        )

    cluster.proxy.run(all_of_them())
    wanted = sorted(["root", *(f"u{n}{end}" for n in range(20) for end in "ab")])
    cluster.proxy.refresh()
    for engine in (cluster.a, cluster.b):
        assert users_at(engine.broker.state.catalog_state) == wanted


def test_a_broker_refuses_a_table_made_from_an_older_one_than_its_own(cluster: TwoBrokers) -> None:
    has = cluster.a.broker.state.catalog_state.access.version
    put = link.PutAccess(
        version=link.AccessVersion(version=has.version + 1, stamp="x"),
        base=link.AccessVersion(version=has.version - 1, stamp="y"),
        table=b'{"users":[],"acls":[]}',
    )
    with pytest.raises(AccessChanged):
        cluster.a.run(cluster.a.handle(link.Call(put_access=put)))


def test_brokers_that_differ_end_with_the_newest(cluster: TwoBrokers) -> None:
    """Each was changed while the other one was away, by proxies that saw one of them only."""
    lonely = GuardedProxy(cluster.a, cluster.b, away={"a"})
    lonely.refresh()
    cluster.away.add("b")
    cluster.proxy.ask(ROOT, "CreateUser", create("first"))
    cluster.proxy.ask(ROOT, "CreateUser", create("second"))
    lonely.ask(ROOT, "CreateUser", create("third"))
    cluster.away.clear()
    cluster.proxy.refresh()
    for engine in (cluster.a, cluster.b):
        assert users_at(engine.broker.state.catalog_state) == ["first", "root", "second"]


def test_while_no_broker_has_told_nobody_is_let_in(cluster: TwoBrokers) -> None:
    blind = GuardedProxy(cluster.a, cluster.b, away={"a", "b"})
    blind.refresh()
    with pytest.raises(AccessNotKnown):
        blind.ask(ROOT, "ListUsers", admin.ListUsersRequest())


def test_the_last_known_table_holds_while_no_broker_answers(cluster: TwoBrokers) -> None:
    cluster.away |= {"a", "b"}
    cluster.proxy.refresh()
    assert cluster.proxy.ask(ROOT, "ListUsers", admin.ListUsersRequest()).users


def test_the_first_user_is_made_once_and_only_where_there_is_nobody(tmp_path: Path) -> None:
    made = TwoBrokers(tmp_path)
    try:
        access = made.proxy.methods.access
        made.proxy.refresh()
        assert access.current == AccessTable()
        made.begin()
        with pytest.raises(UserExists):
            made.proxy.ask(ROOT, "CreateUser", create("root"))
        assert sorted(made.other.methods.access.current.users) == ["root"]
    finally:
        made.close()


def test_the_start_of_a_proxy_does_not_wait_for_a_broker_that_is_down(cluster: TwoBrokers) -> None:
    late = GuardedProxy(cluster.a, cluster.b, away={"b"})
    late.refresh()
    root = context("root", "root-secret")
    assert late.ask(root, "ListUsers", admin.ListUsersRequest()).users
