"""Faults that RocketMQ's access control had, and some more, planted: the tests of it find each."""

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from harness.access import signature
from unit.proxy.core.access import test_decide as of_decisions
from unit.proxy.core.access import test_needs as of_needs
from unit.proxy.rpc.access import test_access_tables as of_tables
from unit.proxy.rpc.access import test_admitted_sends as of_sends
from unit.proxy.rpc.access import test_guard as of_guard
from unit.proxy.rpc.access.conftest import TwoBrokers

from popmq_broker.engine.catalog import access as broker_access
from popmq_common.errors import AccessNotKnown, PopMQError
from popmq_proxy.core.access import decide, needs
from popmq_proxy.core.access.limits import Amount
from popmq_proxy.core.access.model import Need, ResourceType, User, UserStatus, UserType
from popmq_proxy.core.access.table import AccessTable
from popmq_proxy.rpc.access import guard
from popmq_proxy.rpc.access.access_tables import AccessTables
from popmq_proxy.rpc.access.audit_trail import AuditTrail
from popmq_proxy.rpc.access.guard import Guard
from popmq_proxy.rpc.shared.context import CallContext

Patch = pytest.MonkeyPatch
Plant = Callable[[Patch], None]


def a_connection_is_remembered_instead_of_a_signature(patch: Patch) -> None:
    """RocketMQ's stateful strategies."""
    seen: dict[str, str] = {}
    found = Guard._user

    def user(self: Guard, ctx: CallContext) -> str:
        client = ctx.metadata.get("x-mq-client-id", "")
        if client not in seen:
            seen[client] = found(self, ctx)
        return seen[client]

    patch.setattr(Guard, "_user", user)


def a_verdict_is_kept_without_its_action(patch: Patch) -> None:
    """RocketMQ 11182: the key of what was decided leaves out what was asked."""
    kept: dict[tuple[str, str], Any] = {}

    def verdict(self: Guard, ctx: CallContext, need: Need) -> Any:
        key = ctx.user, str(need)
        if key not in kept:
            kept[key] = self.test(ctx.user, need, ctx.address)
        return kept[key]

    patch.setattr(Guard, "_verdict", verdict)


def a_header_that_clients_may_bring_names_the_user(patch: Patch) -> None:
    """RocketMQ 11178."""
    found = Guard._user

    def user(self: Guard, ctx: CallContext) -> str:
        return ctx.metadata.get("x-mq-authorization-ak") or found(self, ctx)

    patch.setattr(Guard, "_user", user)


def the_first_message_stands_for_the_batch(patch: Patch) -> None:
    sent = guard._sent

    def first(ctx: CallContext, request: Any) -> dict[str, Amount]:
        topic, amount = next(iter(sent(ctx, request).items()))
        return {topic: amount}

    patch.setattr(guard, "_sent", first)


def the_status_of_users_is_not_looked_at(patch: Patch) -> None:
    """RocketMQ's UserAuthorizationHandler asks the wrong object."""
    enabled = {"status": UserStatus.ENABLED}
    patch.setattr(
        Guard, "_enabled", lambda self, table, name: replace(table.users[name], **enabled)
    )
    found = Guard.test

    def test(self: Guard, username: str, need: Need, address: str) -> Any:
        table = self._tables.current
        users = {name: _enabled(one) for name, one in table.users.items()}
        self._tables._table = replace(table, users=users)
        return found(self, username, need, address)

    patch.setattr(Guard, "test", test)


def _enabled(user: User) -> User:
    return replace(user, status=UserStatus.ENABLED)


def of_two_alike_allow_wins(patch: Patch) -> None:
    """RocketMQ 9784."""
    order = decide._order
    patch.setattr(decide, "_order", lambda entry: (*order(entry)[:3], not order(entry)[3]))


def the_shorter_prefix_wins(patch: Patch) -> None:
    """RocketMQ 9462."""
    order = decide._order

    def shorter(entry: Any) -> Any:
        is_any, pattern, length, deny = order(entry)
        return is_any, pattern, -length, deny

    patch.setattr(decide, "_order", shorter)


def any_resource_is_not_last(patch: Patch) -> None:
    """RocketMQ 9539."""
    order = decide._order
    patch.setattr(decide, "_order", lambda entry: (not order(entry)[0], *order(entry)[1:]))


def an_rpc_without_a_row_is_served(patch: Patch) -> None:
    """RocketMQ 10997, and pulls and offsets before it."""
    patch.setattr(guard, "ROWS", _OpenRows(needs.ROWS))


class _OpenRows(dict[Any, Any]):
    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(key, lambda request, stored: [])


def a_retry_topic_is_a_topic_like_others(patch: Patch) -> None:
    """RocketMQ 9176."""
    patch.setattr(
        needs, "topic", lambda name, *actions: Need(ResourceType.TOPIC, name or "*", actions)
    )


def without_users_everybody_may(patch: Patch) -> None:
    """RocketMQ 10498: what is not known is open."""
    table = AccessTable(users={"root": User("root", UserType.SUPER)})

    def user(self: Guard, ctx: CallContext) -> str:
        try:
            return found(self, ctx)
        except AccessNotKnown:
            self._tables._table = table
            return "root"

    found = Guard._user
    patch.setattr(Guard, "_user", user)


def users_are_not_copied_to_brokers_that_lack_them(patch: Patch) -> None:
    """RocketMQ 3177."""

    async def nothing(self: AccessTables) -> None:
        return

    patch.setattr(AccessTables, "_spread", nothing)


def what_was_found_outlives_a_change(patch: Patch) -> None:
    changed = Guard._changed

    def forgetful(self: Guard, before: AccessTable, after: AccessTable) -> None:
        signatures, verdicts = dict(self._signatures), dict(self._verdicts)
        senders = set(self._senders)
        changed(self, before, after)
        self._senders |= senders
        self._signatures.update(signatures)
        self._verdicts.update(verdicts)

    patch.setattr(Guard, "_changed", forgetful)


def what_was_admitted_on_a_connection_outlives_a_change(patch: Patch) -> None:
    changed = Guard._changed

    def forgetful(self: Guard, before: AccessTable, after: AccessTable) -> None:
        table = self._table
        changed(self, before, after)
        self._table = table

    patch.setattr(Guard, "_changed", forgetful)


def what_was_admitted_on_a_connection_is_for_all_who_use_it(patch: Patch) -> None:
    def was_admitted(self: Guard, ctx: CallContext, request: Any) -> bool:
        return bool(ctx.connection and ctx.connection.admitted.get(request.topic_key))

    patch.setattr(Guard, "_was_admitted", was_admitted)


def clients_of_all_users_share_their_ids(patch: Patch) -> None:
    patch.setattr(CallContext, "client_id", property(lambda self: self.metadata["x-mq-client-id"]))


def a_broker_takes_any_newer_table(patch: Patch) -> None:
    """A change that was answered is undone by one that did not know of it."""
    put = broker_access.AccessRecords.put

    async def blind(self: Any, request: Any) -> Any:
        request.base.version = 1 << 62
        return await put(self, request)

    patch.setattr(broker_access.AccessRecords, "put", blind)


def the_audit_trail_has_the_whole_request(patch: Patch) -> None:
    known = Guard.known

    def told(self: Guard, ctx: CallContext, rpc: str) -> CallContext:
        self._audit.refused("", ctx.address, rpc, str(ctx.signature), "")
        return known(self, ctx, rpc)

    patch.setattr(AuditTrail, "recording", AuditTrail.recording)
    patch.setattr(Guard, "known", told)


def _allowed() -> None:
    of_decisions.test_all_pairs_of_entries_are_decided_as_the_model_does()


def _needs() -> None:
    (mark,) = [one for one in of_needs.test_what_clients_need.pytestmark]
    for name, request, wanted in mark.args[1]:
        of_needs.test_what_clients_need(name, request, wanted)


def _audit(cluster: TwoBrokers) -> None:
    with tempfile.TemporaryDirectory() as folder:
        of_guard.test_the_audit_trail_has_no_signature(of_guard.with_alice(cluster), Path(folder))


def _of(test: Callable[..., None], *more: Any) -> Callable[[TwoBrokers], None]:
    return lambda cluster: test(of_guard.with_alice(cluster), *more)


FOUND = (AssertionError, PopMQError, pytest.fail.Exception)
RESERVED = {"metadata": {"x-mq-client-id": "c", "x-mq-authorization-ak": "root"}, "signature": None}
FOUND_BY: dict[Plant, Callable[..., None]] = {
    a_connection_is_remembered_instead_of_a_signature: _of(
        of_guard.test_one_refused_signature_spoils_no_good_one_and_a_good_one_lets_no_bad_one_in
    ),
    a_verdict_is_kept_without_its_action: _of(
        of_guard.test_a_right_to_do_one_thing_is_none_to_do_another
    ),
    a_header_that_clients_may_bring_names_the_user: _of(
        of_guard.test_who_cannot_prove_who_it_is_is_refused_everywhere, RESERVED
    ),
    the_first_message_stands_for_the_batch: _of(of_guard.test_every_topic_of_a_batch_is_looked_at),
    the_status_of_users_is_not_looked_at: _of(
        of_guard.test_a_disabled_user_is_refused_with_the_next_request
    ),
    of_two_alike_allow_wins: _allowed,
    the_shorter_prefix_wins: _allowed,
    any_resource_is_not_last: _allowed,
    an_rpc_without_a_row_is_served: _of(
        of_guard.test_an_rpc_that_nobody_has_thought_about_is_refused
    ),
    a_retry_topic_is_a_topic_like_others: _needs,
    without_users_everybody_may: of_tables.test_while_no_broker_has_told_nobody_is_let_in,
    users_are_not_copied_to_brokers_that_lack_them: (
        of_tables.test_a_broker_that_is_away_gets_it_when_it_is_back
    ),
    what_was_found_outlives_a_change: _of(
        of_guard.test_a_disabled_user_is_refused_with_the_next_request
    ),
    what_was_admitted_on_a_connection_outlives_a_change: (
        lambda cluster: of_sends.test_a_change_of_users_is_in_force_with_the_next_send(
            of_sends.sender_of(cluster), of_sends.take_the_right
        )
    ),
    what_was_admitted_on_a_connection_is_for_all_who_use_it: (
        lambda cluster: of_sends.test_another_request_on_the_connection_is_looked_at(
            of_sends.sender_of(cluster), {"signature": signature("bob", "bob-secret")}
        )
    ),
    clients_of_all_users_share_their_ids: _of(
        of_guard.test_clients_of_two_users_never_meet_though_they_call_themselves_the_same
    ),
    a_broker_takes_any_newer_table: (
        of_tables.test_a_broker_refuses_a_table_made_from_an_older_one_than_its_own
    ),
    the_audit_trail_has_the_whole_request: _audit,
}


@pytest.mark.parametrize("plant", FOUND_BY, ids=lambda plant: plant.__name__)
def test_a_planted_fault_of_access_is_found(
    plant: Plant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "SLOWED_S", 0.0)
    test = FOUND_BY[plant]
    plant(monkeypatch)
    try:
        if test in (_allowed, _needs):
            test()
        else:
            _with_cluster(test, tmp_path)
    except FOUND as violated:
        print(f"{plant.__name__}: found: {violated!r:.100}")
        return
    raise AssertionError("not found")


def _with_cluster(test: Callable[..., None], folder: Path) -> None:
    cluster = TwoBrokers(folder)
    try:
        cluster.begin()
        test(cluster)
    finally:
        cluster.close()
