"""What every official client must see of a server that asks who it is, and whether it may.

A check gets a session of the client, a cluster, and what is known of the client: where they differ,
docs/security-clients.md says what that means."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from compat.guarded import OPERATOR, OPERATORS_SECRET, SECRET, GuardedCluster, allowed
from compat.session import ClientRefusal, Session

from popmq_admin.v1 import admin_pb2 as admin
from popmq_proxy.core.access import needs

NEW_SECRET = "another secret of the user"
SOON_S = 4.0
"""Within a second, and what a busy machine takes on top of it."""
QUIET_S = 2.0
COMES_S = 20.0


@dataclass(frozen=True, slots=True)
class ClientKind:
    """How a client differs."""

    strangers_reason: bool = True
    """It says why its first call was refused; else only its log does."""
    starts_without_right: bool = False
    """A producer starts although its Telemetry is refused."""
    telemetry_reason: bool = True
    """Its start says why Telemetry was refused, which a command tells it."""
    grpc_reason: bool = True
    """And when a gRPC status does."""
    refused_per_s_max: int = 12
    """How often a push consumer asks that may not receive."""
    looks_at_acks: bool = True
    pushes: bool = True
    """It has a push consumer."""
    changes: bool = True
    """It can change the invisible time."""
    recalls: bool = True
    goodbye_reason: bool = False
    """Its shutdown fails when its goodbye is refused."""


class Scene:
    """A topic, a group, and a user who may not do anything yet."""

    def __init__(self, session: Session, guarded: GuardedCluster, kind: str = "NORMAL") -> None:
        name = uuid4().hex[:8]
        self.topic, self.group, self.user = f"orders-{name}", f"billing-{name}", f"alice-{name}"
        self.other_group = f"{self.group}-too"
        self.session = session
        self.guarded = guarded
        self._number = 0
        guarded.topic(self.topic, kind)
        guarded.group(self.group)
        guarded.group(self.other_group)

    @property
    def everything(self) -> list[str]:
        return [f"Topic:{self.topic} Pub,Sub", f"Group:{self.group} Sub"]

    def start(self, kind: str, user: str | None = None, secret: str = SECRET, **more: Any) -> str:
        """Its name. Consumers connect to the other proxy. Raises `ClientRefusal`."""
        self._number += 1
        name = f"{kind}-{self.topic}-{self._number}"
        server = self.guarded.server
        is_consumer = kind in ("simple", "push")
        asked: dict[str, Any] = {
            "kind": kind,
            "endpoint": server.other_endpoint if is_consumer else server.endpoint,
            "topic": self.topic,
            "group": self.group,
            "user": self.user if user is None else user,
            "secret": secret,
        }
        self.session.do("start", name, **{**asked, **more})
        return name

    def operator(self) -> str:
        """A producer that may do everything."""
        return self.start("producer", OPERATOR, OPERATORS_SECRET)

    def send(self, name: str, body: str = "hello", **more: Any) -> None:
        self.session.do("send", name, topic=self.topic, body=body, **more)

    def refusal(self, what: str, name: str, **more: Any) -> str:
        """What the client says; empty: it was not refused."""
        try:
            self.session.do(what, name, **more)
        except ClientRefusal as refused:
            return str(refused)
        return ""

    def send_refusal(self, name: str) -> str:
        return self.refusal("send", name, topic=self.topic, body="hello")

    def until(self, has_happened: Callable[[], object], seconds: float) -> float:
        """How long it took."""
        began = time.monotonic()
        while not has_happened():
            assert time.monotonic() - began < seconds, "it does not happen"
            time.sleep(0.05)
        return time.monotonic() - began

    def until_taken(self, sender: str, pushed: str) -> None:
        """Sends until the push consumer, whose group may not have started yet, gets one."""

        def is_taken() -> bool:
            self.send(sender)
            return bool(self.session.do("taken", pushed))

        self.until(is_taken, COMES_S)

    def stop(self, *names: str) -> None:
        for name in names:
            self.session.do("stop", name)

    def stop_refused(self, name: str, kind: ClientKind) -> None:
        """One whose goodbye the server does not take."""
        refused = self.refusal("stop", name)
        assert ("UNAUTHORIZED" in refused) == bool(refused) == kind.goodbye_reason, refused


def check_what_is_allowed(session: Session, guarded: GuardedCluster, kind: ClientKind) -> None:
    """A user with Pub and Sub on a topic and Sub on a group does all that clients do, through two
    proxies, and nothing is refused."""
    scene = Scene(session, guarded)
    guarded.user(scene.user, *scene.everything, f"Group:{scene.other_group} Sub")
    before = guarded.refused()
    sender, receiver = scene.start("producer"), scene.start("simple")
    session.do("receive", receiver)  # its group has started when it is answered
    scene.send(sender)
    scene.until(lambda: session.do("receive", receiver), COMES_S)
    if kind.pushes:
        scene.until_taken(sender, scene.start("push", group=scene.other_group))
    for what in ("change", "ack") if kind.changes else ("ack",):
        session.do(what, receiver)
    scene.stop(sender, receiver)
    assert guarded.refused() == before


def check_delayed_and_transactions(
    session: Session, guarded: GuardedCluster, kind: ClientKind
) -> None:
    """Pub suffices to recall a delayed message, and to send in a transaction."""
    later, halves = Scene(session, guarded, "DELAY"), Scene(session, guarded, "TRANSACTION")
    for scene in (later, halves):
        guarded.user(scene.user, f"Topic:{scene.topic} Pub")
    sender = later.start("producer")
    later.send(sender, delay_s=60)
    if kind.recalls:
        session.do("recall", sender, topic=later.topic)
    later.stop(sender)
    sender = halves.start("transactional")
    session.do("transact", sender, topic=halves.topic, body="hello")
    guarded.revoke(halves.user)
    refused = halves.refusal("transact", sender, topic=halves.topic, body="hello")
    assert "has no permission" in refused
    halves.stop(sender)


def matrix(topic: str, group: str) -> list[tuple[list[str], bool, bool]]:
    """(policies, may send, may receive)"""
    both, of_group = f"Topic:{topic} Pub,Sub", f"Group:{group} Sub"
    return [
        ([both, of_group], True, True),
        ([f"Topic:{topic} Pub", of_group], True, False),
        ([f"Topic:{topic} Sub", of_group], False, True),
        ([both], True, False),
        ([f"Topic:{topic}-too Pub,Sub", "Group:* Sub"], False, False),
        (["Topic:* Pub,Sub", "Group:* Sub", "Topic:orders-* Pub,Sub Deny"], False, False),
        (["Topic:orders-* All Deny", both, "Group:* Sub"], True, True),
        (["Topic:* All", "Group:* All", "Group:billing-* Sub Deny"], True, False),
        ([], False, False),
    ]


def check_matrix(session: Session, guarded: GuardedCluster, kind: ClientKind) -> None:
    """Policies × what is done, and the decision model says the same. The clients run, so that each
    call is asked by itself."""
    scene = Scene(session, guarded)
    guarded.user(scene.user, *scene.everything)
    feeder, sender, receiver = scene.operator(), scene.start("producer"), scene.start("simple")
    session.do("receive", receiver)
    to_send = (needs.topic(scene.topic, *needs.PUB),)
    to_receive = (needs.group(scene.group, *needs.SUB), needs.topic(scene.topic, *needs.SUB))
    for entries, may_send, may_receive in matrix(scene.topic, scene.group):
        assert allowed(scene.user, entries, *to_send) == may_send, entries
        assert allowed(scene.user, entries, *to_receive) == may_receive, entries
        guarded.only(scene.user, *entries)
        scene.send(feeder)  # or an allowed receive would wait
        for refused, may in (
            (scene.refusal("receive", receiver), may_receive),
            (scene.send_refusal(sender), may_send),
        ):
            assert (not refused) == may, (entries, refused)
            assert may or f"User:{scene.user} has no permission to access" in refused, refused
    scene.stop(feeder, sender)
    scene.stop_refused(receiver, kind)


def check_strangers(session: Session, guarded: GuardedCluster, kind: ClientKind) -> None:
    """Who is not known may not do anything, and the client says so."""
    scene = Scene(session, guarded)
    guarded.user(scene.user, *scene.everything)
    disabled = f"{scene.user}-disabled"
    guarded.user(disabled, *scene.everything)
    guarded.ask("UpdateUser", admin.UpdateUserRequest(username=disabled, status="DISABLED"))
    for user, secret, reason in (
        (scene.user, "a wrong secret", f"the signature of user {scene.user} is wrong"),
        ("nobody", SECRET, "user nobody is unknown"),
        (disabled, SECRET, f"user {disabled} is disabled"),
        ("", "", "is not signed" if kind.strangers_reason else ""),
    ):
        try:
            refused = scene.send_refusal(scene.start("producer", user, secret))
        except ClientRefusal as at_start:
            refused = str(at_start)
        assert (reason if kind.strangers_reason else "failed to fetch") in refused, refused


def check_start_without_the_right(
    session: Session, guarded: GuardedCluster, kind: ClientKind
) -> None:
    """A producer of a user who may only receive: the route is told, Telemetry is refused, and the
    client does not hang."""
    scene = Scene(session, guarded)
    guarded.user(scene.user, f"Topic:{scene.topic} Sub")
    if kind.starts_without_right:
        refused = scene.send_refusal(scene.start("producer"))
        assert "has no permission" in refused
        return
    try:
        scene.start("producer")
    except ClientRefusal as at_start:
        refused = str(at_start)
    else:
        raise AssertionError("it starts")
    assert ("has no permission" in refused) == kind.telemetry_reason, refused


def check_missing_group(session: Session, guarded: GuardedCluster, kind: ClientKind) -> None:
    """A user may receive, but nobody has made the group: the client does not hang."""
    scene = Scene(session, guarded)
    guarded.user(scene.user, *scene.everything, "Group:nobody-made-it Sub")
    try:
        refused = scene.refusal("receive", scene.start("simple", group="nobody-made-it"))
    except ClientRefusal as at_start:
        refused = str(at_start)
    assert refused
    assert ("Consumer group nobody-made-it does not exist" in refused) == kind.grpc_reason


def check_revoked(session: Session, guarded: GuardedCluster, kind: ClientKind) -> None:
    """A right that is taken away is gone within a second, also at the proxy that was not told, and
    for what was begun before."""
    scene = Scene(session, guarded)
    guarded.user(scene.user, *scene.everything)
    sender, receiver = scene.start("producer"), scene.start("simple")
    session.do("receive", receiver)
    scene.send(sender)
    scene.until(lambda: session.do("receive", receiver), COMES_S)
    guarded.revoke(scene.user)
    assert scene.until(lambda: scene.send_refusal(sender), SOON_S) < SOON_S
    assert scene.until(lambda: scene.refusal("receive", receiver), SOON_S) < SOON_S
    assert scene.send_refusal(sender)
    if kind.changes:
        assert "has no permission" in scene.refusal("change", receiver)
    assert bool(scene.refusal("ack", receiver)) == kind.looks_at_acks
    scene.stop(sender)
    scene.stop_refused(receiver, kind)


def check_push_revoked(session: Session, guarded: GuardedCluster, kind: ClientKind) -> None:
    """A push consumer whose right is taken while it handles a message gets nothing more, and asks
    no faster than is known of it; when the right is back it goes on."""
    scene = Scene(session, guarded)
    guarded.user(scene.user, *scene.everything)
    sender, pushed = scene.operator(), scene.start("push")
    scene.until_taken(sender, pushed)
    scene.send(sender, "slow")
    scene.until(lambda: "slow" in session.do("taken", pushed), COMES_S)
    guarded.revoke(scene.user)
    guarded.settle()
    time.sleep(QUIET_S)  # until it is handled; its ack is refused
    taken, refused = session.do("taken", pushed), guarded.refused()
    scene.send(sender, "after it")
    time.sleep(QUIET_S)
    assert session.do("taken", pushed) == taken
    assert guarded.refused() - refused <= kind.refused_per_s_max * QUIET_S
    guarded.allow(scene.user, *scene.everything)
    scene.until(lambda: "after it" in session.do("taken", pushed), COMES_S)
    scene.stop(sender)


def check_rotated(session: Session, guarded: GuardedCluster, kind: ClientKind) -> None:
    """A client that runs with the old key goes on while both are valid; it is refused when the old
    one is dropped, and one with the new key is not."""
    scene = Scene(session, guarded)
    guarded.user(scene.user, *scene.everything)
    before = scene.start("producer")
    scene.send(before)
    rotate = admin.RotateUserRequest(username=scene.user, secret=NEW_SECRET)
    guarded.ask("RotateUser", rotate)
    guarded.settle()
    after = scene.start("producer", secret=NEW_SECRET)
    scene.send(before)
    scene.send(after)
    guarded.ask("RotateUser", admin.RotateUserRequest(username=scene.user, drop_old=True))
    guarded.settle()
    assert f"the signature of user {scene.user} is wrong" in scene.send_refusal(before)
    scene.send(after)
    scene.stop(after)
    scene.stop_refused(before, kind)


SIGNED_CHECKS = [
    check_what_is_allowed,
    check_delayed_and_transactions,
    check_matrix,
    check_strangers,
    check_start_without_the_right,
    check_missing_group,
    check_revoked,
    check_push_revoked,
    check_rotated,
]
