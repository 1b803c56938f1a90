"""A send like one that was allowed on its connection is not looked at again: is that ever too much?

Each test asks twice before something changes, so that what is remembered would let it pass.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from harness.access import GuardedProxy, allow, context, signature
from unit.proxy.rpc.access.conftest import ROOT, TwoBrokers

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq_admin.v1 import admin_pb2 as admin
from popmq_common.link.sends import OutgoingRecord
from popmq_common.records import hosts
from popmq_proxy.core.sends.send_decoder import DecodedSend
from popmq_proxy.rpc.access.guard import Guard
from popmq_proxy.rpc.shared.client_connection import ClientConnection
from popmq_proxy.rpc.shared.context import CallContext

ALICE = context("alice", "alice-secret")
Change = Callable[["Sender"], None]


class Sender:
    """One connection; counts what gets as far as being sent, and how often it was looked at."""

    def __init__(self, cluster: TwoBrokers, **settings: Any) -> None:
        self.cluster = cluster
        self.proxy = GuardedProxy(cluster.a, cluster.b, **settings)
        self.proxy.refresh()
        self.guard: Guard = self.proxy.methods.guard
        self.connection = ClientConnection()
        self.looks = 0
        found = self.guard._identified

        def identified(ctx: CallContext) -> CallContext:
            self.looks += 1
            return found(ctx)

        self.guard._identified = identified  # type: ignore[method-assign]
        self._guarded = self.guard.guarding_begin(lambda *_: None)

    def sends(self, ctx: CallContext = ALICE, topic: str = "t") -> bool:
        record = OutgoingRecord(b"x", b"", 0, 0, 0, hosts.LOCAL)
        request = DecodedSend(v2.Resource(name=topic).SerializeToString(), [b"m"], [record])
        asked = ctx._replace(connection=self.connection)
        return self._guarded(asked, request, lambda *_: None) is None

    def admin(self, name: str, request: Any) -> None:
        self.cluster.proxy.ask(ROOT, name, request)
        self.proxy.refresh()


@pytest.fixture
def sender(cluster: TwoBrokers) -> Sender:
    return sender_of(cluster)


def sender_of(cluster: TwoBrokers) -> Sender:
    """It has sent twice."""
    ask = cluster.proxy.ask
    for user in ("alice", "bob"):
        ask(ROOT, "CreateUser", admin.CreateUserRequest(username=user, secret=f"{user}-secret"))
    ask(ROOT, "CreateTopic", admin.CreateTopicRequest(topic=admin.Topic(name="t", queues=1)))
    allow(cluster.proxy, ROOT, "alice", ("Topic:t", "Pub"))
    made = Sender(cluster)
    assert made.sends()
    assert made.sends()
    return made


def test_the_second_one_is_found_by_one_look(sender: Sender) -> None:
    assert sender.looks == 1
    again = ALICE._replace(signature=signature("alice", "alice-secret"))  # equal, not the same
    assert sender.sends(again)
    assert sender.looks == 1


def disable(sender: Sender) -> None:
    sender.admin("UpdateUser", admin.UpdateUserRequest(username="alice", status="DISABLED"))


def delete(sender: Sender) -> None:
    sender.admin("DeleteUser", admin.DeleteUserRequest(username="alice"))


def take_the_right(sender: Sender) -> None:
    sender.admin("DeleteAcl", admin.DeleteAclRequest(subject="User:alice"))


def replace_the_secret(sender: Sender) -> None:
    sender.admin("UpdateUser", admin.UpdateUserRequest(username="alice", secret="another-secret"))


@pytest.mark.parametrize("change", [disable, delete, take_the_right, replace_the_secret])
def test_a_change_of_users_is_in_force_with_the_next_send(sender: Sender, change: Change) -> None:
    change(sender)
    assert not sender.sends()


@pytest.mark.parametrize(
    "limits",
    [
        {"messages_per_s": 1},
        {"bytes_per_s": 1},
        {"calls": 1},
        {"connections": 1},
    ],
    ids=["messages", "bytes", "calls", "connections"],
)
def test_a_limit_is_in_force_with_the_next_send(sender: Sender, limits: dict[str, int]) -> None:
    request = admin.SetLimitsRequest(limits=admin.Limits(subject="User:alice", **limits))
    sender.admin("SetLimits", request)
    assert sender.sends()
    if "connections" in limits:
        sender.connection = ClientConnection()
    assert not sender.sends()


def test_limits_of_others_cost_a_sender_nothing(sender: Sender) -> None:
    for subject in ("User:bob", "Topic:other"):
        limits = admin.Limits(subject=subject, messages_per_s=1)
        sender.admin("SetLimits", admin.SetLimitsRequest(limits=limits))
    limits = admin.Limits(subject="User:bob", calls=1, connections=1, waiting_receives=1)
    sender.admin("SetLimits", admin.SetLimitsRequest(limits=limits))
    assert sender.sends()
    before = sender.looks
    assert all(sender.sends() for _ in range(10))
    assert sender.looks == before


@pytest.mark.parametrize(
    "other",
    [
        {"signature": signature("alice", "wrong-secret")},
        {"signature": signature("bob", "bob-secret")},
        {"signature": None},
        {"metadata": {"x-mq-client-id": "client", "x-mq-namespace": "n"}},
    ],
    ids=["wrong", "bob", "none", "namespace"],
)
def test_another_request_on_the_connection_is_looked_at(
    sender: Sender, other: dict[str, Any]
) -> None:
    assert not sender.sends(ALICE._replace(**other))
    assert sender.sends()


def test_another_topic_is_looked_at(sender: Sender) -> None:
    assert not sender.sends(topic="u")
    assert sender.sends()


@pytest.mark.parametrize("window", [False, True])
def test_a_signature_that_ends_is_no_good_behind_its_end(sender: Sender, *, window: bool) -> None:
    """The old secret of two, and a date that grows old."""
    cluster, ctx = sender.cluster, ALICE
    if window:
        sender = Sender(cluster, signature_window_ms=60_000)
        now_s = cluster.a.clock.now_ms() / 1_000
        date = _date(now_s)
        ctx = ALICE._replace(signature=signature("alice", "alice-secret", date))
    else:
        rotate = admin.RotateUserRequest(
            username="alice", secret="another-secret", old_valid_ms=60_000
        )
        sender.admin("RotateUser", rotate)
    assert sender.sends(ctx)
    assert sender.sends(ctx)
    cluster.a.clock.advance(121_000)
    assert not sender.sends(ctx)


def _date(now_s: float) -> bytes:
    return datetime.fromtimestamp(now_s, UTC).strftime("%Y%m%dT%H%M%SZ").encode()


def test_what_a_connection_remembers_is_bounded(sender: Sender) -> None:
    allow(sender.cluster.proxy, ROOT, "alice", ("Topic:*", "Pub"))
    sender.proxy.refresh()
    for number in range(1_000):
        assert sender.sends(topic=f"t{number}")
    assert len(sender.connection.admitted) <= 64
    sender.connection.close()
    assert not sender.connection.admitted
