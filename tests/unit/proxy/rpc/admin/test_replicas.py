"""ShowReplicas and MovePrimary: what a proxy makes of what primaries tell, or of their silence."""

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import pytest

from popmq_admin.v1 import admin_pb2 as admin
from popmq_common.errors import BadRequest, BrokerDown, BrokerNotFound, NoBroker, PopMQError
from popmq_internal.v1 import link_pb2 as link
from popmq_internal.v1 import nameserver_pb2 as ns
from popmq_proxy.rpc.admin.replicas import ReplicasHandler
from popmq_proxy.rpc.shared.context import CallContext, Upstream

CONTEXT = CallContext({}, "127.0.0.1:1", None)
GROUP = link.ReplicaGroupReply(
    replica="a1",
    role="taking over",
    epoch=4,
    min_in_sync=2,
    log_end=900,
    commit_point=800,
    members=[
        link.ReplicaMember(replica="a1", role="primary", address="m1:1"),
        link.ReplicaMember(replica="a2", role="in sync", address="m2:1", behind_bytes=7),
    ],
)
DOWN = BrokerDown(broker="broker-a", reason="it is gone")


class FakeUpstream:
    """Brokers, and what each answers."""

    def __init__(
        self,
        infos: list[ns.BrokerInfo],
        answers: Mapping[str, link.ReplicaGroupReply | PopMQError] | None = None,
    ) -> None:
        self.routes = self
        self._infos = infos
        self._answers = answers or {}
        self.calls: list[link.Call] = []

    async def expected(self) -> list[ns.BrokerInfo]:
        return self._infos

    async def call(self, broker: str, call: link.Call, timeout_ms: int) -> link.Reply:
        self.calls.append(call)
        answer = self._answers[broker]
        if isinstance(answer, PopMQError):
            raise answer
        return link.Reply(replica_group=answer)


A = ns.BrokerInfo(name="broker-a", address="m1:1", replica="a1")
B = ns.BrokerInfo(name="broker-b", address="m9:1")


def show(upstream: FakeUpstream, broker: str = "") -> list[admin.ReplicaGroup]:
    handler = ReplicasHandler(cast(Upstream, upstream))
    response = asyncio.run(handler.show(CONTEXT, admin.ShowReplicasRequest(broker=broker)))
    return list(response.groups)


def move(upstream: FakeUpstream, broker: str, to: str = "") -> Any:
    handler = ReplicasHandler(cast(Upstream, upstream))
    return asyncio.run(handler.move(CONTEXT, admin.MovePrimaryRequest(broker=broker, to=to)))


def test_a_group_is_shown_as_its_primary_knows_it() -> None:
    (group,) = show(FakeUpstream([A], {"broker-a": GROUP}))
    assert (group.epoch, group.min_in_sync, group.commit_point) == (4, 2, 800)
    assert [(one.name, one.role) for one in group.replicas] == [
        ("a1", "taking over"),
        ("a2", "in sync"),
    ]
    assert group.replicas[1].behind_bytes == 7


def test_a_broker_without_replicas_is_a_group_of_one_and_is_not_asked() -> None:
    upstream = FakeUpstream([B])
    (group,) = show(upstream)
    assert not group.replicated
    assert [(one.role, one.address) for one in group.replicas] == [("primary", "m9:1")]
    assert upstream.calls == []


def test_a_primary_that_is_silent_is_told_beside_the_others() -> None:
    first, second = show(FakeUpstream([A, B], {"broker-a": DOWN}))
    assert first.replicated
    assert first.failure == f"no primary answers: {DOWN}"
    assert second.failure == ""


def test_one_broker_is_asked_for_or_it_is_unknown() -> None:
    assert [one.broker for one in show(FakeUpstream([A, B]), "broker-b")] == ["broker-b"]
    with pytest.raises(BrokerNotFound):
        show(FakeUpstream([A]), "broker-c")
    with pytest.raises(NoBroker):
        show(FakeUpstream([]))


def test_a_move_tells_what_was_before_and_asks_the_primary_alone() -> None:
    upstream = FakeUpstream([A, B], {"broker-a": GROUP})
    assert move(upstream, "broker-a", "a2").group.epoch == 4
    assert upstream.calls[-1].replica_move.to == "a2"
    with pytest.raises(BrokerNotFound):
        move(upstream, "")
    with pytest.raises(BadRequest, match="no replicas"):
        move(upstream, "broker-b")
    with pytest.raises(BrokerDown):
        move(FakeUpstream([A], {"broker-a": DOWN}), "broker-a")
