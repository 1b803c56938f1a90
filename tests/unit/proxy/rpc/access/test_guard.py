"""Is everybody asked who they are and what they may, by every way into the proxy?"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from harness.access import DATE, GuardedProxy, allow, context, signature
from unit.proxy.rpc.access.conftest import ROOT, TwoBrokers

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq_admin.v1 import admin_pb2 as admin
from popmq_common.errors import AccessDenied, CredentialsRefused
from popmq_proxy.rpc.access import guard
from popmq_proxy.rpc.shared.context import CallContext

TOPIC, GROUP = v2.Resource(name="t"), v2.Resource(name="g")
ALICE = context("alice", "alice-secret")


@pytest.fixture
def alice(cluster: TwoBrokers) -> TwoBrokers:
    return with_alice(cluster)


def with_alice(cluster: TwoBrokers) -> TwoBrokers:
    """The topic t and the group g; alice, who may nothing yet."""
    ask = cluster.proxy.ask
    ask(ROOT, "CreateUser", admin.CreateUserRequest(username="alice", secret="alice-secret"))
    ask(ROOT, "CreateTopic", admin.CreateTopicRequest(topic=admin.Topic(name="t", queues=1)))
    ask(ROOT, "CreateGroup", admin.CreateGroupRequest(group=admin.Group(name="g")))
    return cluster


def sending(*topics: str) -> service.SendMessageRequest:
    return service.SendMessageRequest(
        messages=[
            v2.Message(
                topic=v2.Resource(name=topic),
                body=b"x",
                system_properties=v2.SystemProperties(message_id=f"m{number}"),
            )
            for number, topic in enumerate(topics)
        ]
    )


def receiving() -> service.ReceiveMessageRequest:
    return service.ReceiveMessageRequest(
        group=GROUP,
        message_queue=v2.MessageQueue(topic=TOPIC),
        batch_size=1,
        invisible_duration=Duration(seconds=20),
        long_polling_timeout=Duration(),
    )


def code(cluster: TwoBrokers, ctx: CallContext, name: str, request: Any) -> int:
    answer = cluster.proxy.ask(ctx, name, request)
    found: int = answer.code if hasattr(answer, "code") else answer.status.code
    return found


def test_a_user_may_what_policies_allow_and_no_more(alice: TwoBrokers) -> None:
    assert code(alice, ALICE, "SendMessage", sending("t")) == v2.UNAUTHORIZED
    allow(alice.proxy, ROOT, "alice", ("Topic:t", "Pub"))
    assert code(alice, ALICE, "SendMessage", sending("t")) == v2.OK
    assert code(alice, ALICE, "ReceiveMessage", receiving()) == v2.UNAUTHORIZED
    allow(alice.proxy, ROOT, "alice", ("Topic:t", "Pub,Sub"))
    assert code(alice, ALICE, "ReceiveMessage", receiving()) == v2.UNAUTHORIZED  # not of the group
    allow(alice.proxy, ROOT, "alice", ("Group:g", "Sub"))
    assert code(alice, ALICE, "ReceiveMessage", receiving()) == v2.MESSAGE_NOT_FOUND
    assert code(alice, ALICE, "SendMessage", sending("t")) == v2.OK
    assert code(alice, ALICE, "ReceiveMessage", receiving()) == v2.OK


def test_every_topic_of_a_batch_is_looked_at(alice: TwoBrokers) -> None:
    """RocketMQ looks at the first message's alone."""
    allow(alice.proxy, ROOT, "alice", ("Topic:t", "Pub"))
    response = alice.proxy.ask(ALICE, "SendMessage", sending("t", "secret"))
    assert response.status.code == v2.UNAUTHORIZED
    assert "Topic:secret" in response.status.message


@pytest.mark.parametrize(
    "changed",
    [
        {"signature": None},
        {"signature": signature("alice", "wrong-secret")},
        {"signature": signature("nobody", "alice-secret")},
        {"signature": (signature("alice", "alice-secret")[0], b"20261123T101113Z")},
        {"signature": (signature("alice", "alice-secret")[0], b"")},
        {"signature": (b"Bearer root", DATE)},
        {"metadata": {"x-mq-client-id": "c", "x-mq-authorization-ak": "root"}, "signature": None},
    ],
    ids=["none", "wrong", "nobody", "other date", "no date", "other scheme", "reserved header"],
)
def test_who_cannot_prove_who_it_is_is_refused_everywhere(
    alice: TwoBrokers, changed: dict[str, Any]
) -> None:
    allow(alice.proxy, ROOT, "alice", ("*", "All"))
    ctx = ALICE._replace(**changed)
    assert code(alice, ctx, "SendMessage", sending("t")) == v2.UNAUTHORIZED
    assert code(alice, ctx, "ReceiveMessage", receiving()) == v2.UNAUTHORIZED
    with pytest.raises(CredentialsRefused):
        alice.proxy.ask(ctx, "ListTopics", admin.ListTopicsRequest())


def test_one_refused_signature_spoils_no_good_one_and_a_good_one_lets_no_bad_one_in(
    alice: TwoBrokers,
) -> None:
    """RocketMQ's stateful strategy remembers by connection and user."""
    allow(alice.proxy, ROOT, "alice", ("Topic:t", "Pub"))
    bad = ALICE._replace(signature=signature("alice", "wrong-secret"))
    for _ in range(2):
        assert code(alice, bad, "SendMessage", sending("t")) == v2.UNAUTHORIZED
        assert code(alice, ALICE, "SendMessage", sending("t")) == v2.OK


def test_a_disabled_user_is_refused_with_the_next_request(alice: TwoBrokers) -> None:
    allow(alice.proxy, ROOT, "alice", ("Topic:t", "Pub"))
    assert code(alice, ALICE, "SendMessage", sending("t")) == v2.OK
    disable = admin.UpdateUserRequest(username="alice", status="DISABLED")
    alice.proxy.ask(ROOT, "UpdateUser", disable)
    assert code(alice, ALICE, "SendMessage", sending("t")) == v2.UNAUTHORIZED


def test_both_keys_are_taken_while_one_is_replaced(alice: TwoBrokers) -> None:
    allow(alice.proxy, ROOT, "alice", ("Topic:t", "Pub"))
    rotate = admin.RotateUserRequest(username="alice", secret="alice-newer", old_valid_ms=60_000)
    assert alice.proxy.ask(ROOT, "RotateUser", rotate).user.secrets == 2
    newer = ALICE._replace(signature=signature("alice", "alice-newer"))
    assert code(alice, ALICE, "SendMessage", sending("t")) == v2.OK
    assert code(alice, newer, "SendMessage", sending("t")) == v2.OK
    alice.a.clock.advance(60_001)
    assert code(alice, ALICE, "SendMessage", sending("t")) == v2.UNAUTHORIZED
    assert code(alice, newer, "SendMessage", sending("t")) == v2.OK


def test_a_client_certificate_is_as_good_as_a_signature(alice: TwoBrokers) -> None:
    allow(alice.proxy, ROOT, "alice", ("Topic:t", "Pub"))
    shown = ALICE._replace(signature=None, certificate_user="alice")
    assert code(alice, shown, "SendMessage", sending("t")) == v2.OK
    empty = shown._replace(signature=(b"MQv2-HMAC-SHA1 Credential=", DATE))  # Python's client
    assert code(alice, empty, "SendMessage", sending("t")) == v2.OK
    forged = shown._replace(signature=signature("root", "guessed-secret"))
    assert code(alice, forged, "SendMessage", sending("t")) == v2.UNAUTHORIZED


def test_an_entry_for_addresses_is_held_against_the_connections_address(alice: TwoBrokers) -> None:
    put = admin.PutAclRequest(
        subject="alice",
        entries=[
            admin.AclEntry(
                resource="Topic:t", actions=["Pub"], decision="Allow", source_ips=["10.0.0.0/8"]
            )
        ],
    )
    alice.proxy.ask(ROOT, "PutAcl", put)
    assert code(alice, ALICE, "SendMessage", sending("t")) == v2.UNAUTHORIZED
    home = context("alice", "alice-secret", address="10.9.8.7")
    assert code(alice, home, "SendMessage", sending("t")) == v2.OK
    six = home._replace(peer="[2001:db8::1]:99")
    assert code(alice, six, "SendMessage", sending("t")) == v2.UNAUTHORIZED


def test_only_a_super_user_makes_or_changes_one(alice: TwoBrokers) -> None:
    allow(alice.proxy, ROOT, "alice", ("Cluster:*", "All"))
    ask = alice.proxy.ask
    ask(ALICE, "CreateUser", admin.CreateUserRequest(username="bob", secret="bobs-secret"))
    for name, request in (
        ("CreateUser", admin.CreateUserRequest(username="eve", type="SUPER")),
        ("UpdateUser", admin.UpdateUserRequest(username="alice", type="SUPER")),
        ("UpdateUser", admin.UpdateUserRequest(username="root", secret="alices-now")),
        ("RotateUser", admin.RotateUserRequest(username="root", secret="alices-now")),
        ("DeleteUser", admin.DeleteUserRequest(username="root")),
    ):
        with pytest.raises(AccessDenied, match="only a Super user"):
            ask(ALICE, name, request)


def test_clients_of_two_users_never_meet_though_they_call_themselves_the_same(
    alice: TwoBrokers,
) -> None:
    """Neither may end the polls or keep the leases of the other one's client."""
    own, other = (one._replace(user=name) for one, name in ((ALICE, "alice"), (ROOT, "root")))
    assert own.metadata == other.metadata
    assert own.client_id != other.client_id


async def _commands(*sent: service.TelemetryCommand) -> AsyncIterator[service.TelemetryCommand]:
    for one in sent:
        yield one
    await asyncio.sleep(60)


def _settings(topic: str) -> service.TelemetryCommand:
    publishing = v2.Publishing(topics=[v2.Resource(name=topic)])
    settings = v2.Settings(client_type=v2.PRODUCER, publishing=publishing)
    return service.TelemetryCommand(settings=settings)


def test_telemetry_tells_a_refusal_as_a_command_and_ends(alice: TwoBrokers) -> None:
    telemetry = alice.proxy.methods.guard.guarding_telemetry(alice.proxy.methods.client.telemetry)

    async def codes(ctx: CallContext) -> list[int]:
        answers = telemetry(ctx, _commands(_settings("t")))
        return [answer.status.code async for answer in answers]

    assert alice.proxy.run(codes(ALICE)) == [v2.UNAUTHORIZED]
    assert alice.proxy.run(codes(ALICE._replace(signature=None))) == [v2.UNAUTHORIZED]


def test_who_loses_the_right_loses_the_open_stream_and_the_waiting_poll(alice: TwoBrokers) -> None:
    allow(alice.proxy, ROOT, "alice", ("Topic:t", "Pub,Sub"), ("Group:g", "Sub"))
    methods = alice.proxy.methods
    telemetry = methods.guard.guarding_telemetry(methods.client.telemetry)

    async def watch() -> tuple[list[Any], Any]:
        answers = telemetry(ALICE, _commands(_settings("t")))
        codes = [(await anext(answers)).status.code]
        request = receiving()
        request.long_polling_timeout.FromSeconds(15)
        poll = asyncio.ensure_future(methods.answers["ReceiveMessage"](ALICE, request))
        await asyncio.sleep(0.05)
        assert not poll.done()
        revoke = admin.DeleteAclRequest(subject="User:alice")
        await methods.acls.delete(ROOT._replace(user="root"), revoke)
        codes += [answer.status.code async for answer in answers]
        return codes, (await poll).code

    codes, polled = alice.proxy.run(watch())
    assert codes[0] == v2.OK
    assert codes[-1] == v2.UNAUTHORIZED
    assert polled == v2.MESSAGE_NOT_FOUND
    assert code(alice, ALICE, "ReceiveMessage", receiving()) == v2.UNAUTHORIZED


def test_keys_are_shown_once_and_then_never(alice: TwoBrokers) -> None:
    made = alice.proxy.ask(ROOT, "CreateUser", admin.CreateUserRequest(username="bob"))
    assert len(made.secret) >= 32
    listed = alice.proxy.ask(ROOT, "ListUsers", admin.ListUsersRequest())
    assert made.secret not in str(listed)
    assert [user.username for user in listed.users] == ["alice", "bob", "root"]


def test_what_would_be_decided_is_told_with_the_entry(alice: TwoBrokers) -> None:
    allow(alice.proxy, ROOT, "alice", ("Topic:t*", "Pub"))
    ask = alice.proxy.ask

    def test(resource: str, action: str = "Pub", user: str = "alice") -> admin.TestAccessResponse:
        request = admin.TestAccessRequest(username=user, resource=resource, actions=[action])
        response: admin.TestAccessResponse = ask(ROOT, "TestAccess", request)
        return response

    assert test("Topic:two").allowed
    assert test("Topic:two").entry.resource == "Topic:t*"
    assert not test("Topic:two", "Sub").allowed
    assert test("Topic:two", "Sub").reason == "no matched policies"
    assert not test("Topic:two", user="nobody").allowed
    assert test("Topic:x", "Delete", user="root").allowed


def test_everybody_may_ask_what_they_may_do_themselves(alice: TwoBrokers) -> None:
    allow(alice.proxy, ROOT, "alice", ("Topic:t*", "Pub"))

    def ask(resource: str, **more: str) -> admin.TestAccessResponse:
        request = admin.TestAccessRequest(resource=resource, actions=["Pub"], **more)
        response: admin.TestAccessResponse = alice.proxy.ask(ALICE, "TestAccess", request)
        return response

    mine = ask("Topic:two")
    assert (mine.allowed, mine.username) == (True, "alice")
    assert (mine.authentication, mine.authorization) == (True, True)
    assert not ask("Topic:other").allowed
    for name in ("alice", "root", "nobody"):
        with pytest.raises(AccessDenied):
            ask("Topic:two", username=name)
    request = admin.TestAccessRequest(resource="Topic:two", actions=["Pub"])
    with pytest.raises(CredentialsRefused):
        alice.proxy.ask(ALICE._replace(signature=None), "TestAccess", request)


def test_without_authorization_who_asks_may_do_everything(alice: TwoBrokers) -> None:
    only_known = GuardedProxy(alice.a, alice.b, authorization=False)
    only_known.refresh()
    request = admin.TestAccessRequest(resource="Topic:two", actions=["Pub"])
    found = only_known.ask(ALICE, "TestAccess", request)
    assert (found.allowed, found.username, found.authorization) == (True, "alice", False)


def test_without_authorization_who_is_known_may_everything(alice: TwoBrokers) -> None:
    only_known = GuardedProxy(alice.a, alice.b, authorization=False)
    only_known.refresh()
    assert only_known.ask(ALICE, "SendMessage", sending("t")).status.code == v2.OK
    stranger = ALICE._replace(signature=None)
    assert only_known.ask(stranger, "SendMessage", sending("t")).status.code == v2.UNAUTHORIZED


def test_with_policies_nothing_is_made_on_first_use(alice: TwoBrokers) -> None:
    """A right to send to any topic is none to make them."""
    allow(alice.proxy, ROOT, "alice", ("Topic:*", "Pub,Sub"), ("Group:*", "Sub"))
    assert code(alice, ALICE, "SendMessage", sending("new")) == v2.TOPIC_NOT_FOUND
    request = receiving()
    request.group.name = "new"
    assert code(alice, ALICE, "ReceiveMessage", request) == v2.CONSUMER_GROUP_NOT_FOUND
    created = alice.a.broker.state.catalog_state
    assert "new" not in created.topics
    assert "new" not in created.groups


def test_a_right_to_do_one_thing_is_none_to_do_another(alice: TwoBrokers) -> None:
    """What was found for one action is not taken for the next one."""
    allow(alice.proxy, ROOT, "alice", ("Topic:t", "Pub"), ("Group:g", "Sub"))
    for _ in range(2):
        assert code(alice, ALICE, "SendMessage", sending("t")) == v2.OK
        assert code(alice, ALICE, "ReceiveMessage", receiving()) == v2.UNAUTHORIZED


def test_an_rpc_that_nobody_has_thought_about_is_refused(alice: TwoBrokers) -> None:
    async def served(ctx: CallContext, request: Any) -> str:
        return "served"

    handler = alice.proxy.methods.guard.guarding("a.new.Service", "New", served)
    with pytest.raises(AccessDenied, match="no row"):
        alice.proxy.run(handler(ROOT, service.HeartbeatRequest()))


def test_the_audit_trail_has_no_signature(alice: TwoBrokers, tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    proxy = GuardedProxy(alice.a, alice.b, audit_log=str(path))
    proxy.refresh()
    wrong = ALICE._replace(signature=signature("alice", "wrong-secret"))
    for ctx in (ALICE, wrong):
        assert proxy.ask(ctx, "SendMessage", sending("t")).status.code == v2.UNAUTHORIZED
    proxy.methods.audit.close()
    text = path.read_text()
    assert len(text.splitlines()) == 2
    for ctx in (ALICE, wrong):
        assert ctx.signature is not None
        digest = ctx.signature[0].decode().rpartition("=")[2]
        assert digest not in text


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long refused receives were held."""
    found: list[float] = []

    async def sleep(seconds: float) -> None:
        found.append(seconds)

    monkeypatch.setattr("popmq_proxy.rpc.access.guard.asyncio.sleep", sleep)
    return found


def test_who_may_not_receive_does_not_ask_as_often_as_it_can(
    alice: TwoBrokers, pauses: list[float]
) -> None:
    """Go's push consumer waits 20 ms after a refusal, and asks each broker."""
    assert code(alice, ALICE, "ReceiveMessage", receiving()) == v2.UNAUTHORIZED
    assert pauses == [guard.SLOWED_S]
    assert code(alice, ALICE, "SendMessage", sending("t")) == v2.UNAUTHORIZED
    assert pauses == [guard.SLOWED_S]


def test_only_so_many_refusals_are_held(
    alice: TwoBrokers, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "SLOWED_MAX", 0)
    assert code(alice, ALICE, "ReceiveMessage", receiving()) == v2.UNAUTHORIZED
    assert pauses == []


@pytest.mark.parametrize(
    ("language", "has_status"), [("JAVA", True), ("GO", True), ("HTTP", False), ("PYTHON", False)]
)
def test_a_refused_stream_ends_as_its_client_understands_it(
    alice: TwoBrokers, language: str, has_status: bool
) -> None:
    telemetry = alice.proxy.methods.guard.guarding_telemetry(alice.proxy.methods.client.telemetry)
    client = {"x-mq-client-id": "c", "x-mq-language": language}

    async def open_it() -> list[int]:
        stranger = CallContext(client, "192.0.2.7:1", None)
        codes: list[int] = []
        answers = telemetry(stranger, _commands(_settings("t")))
        try:
            async for answer in answers:
                codes.append(answer.status.code)
        except CredentialsRefused:
            codes.append(-1)
        return codes

    wanted = [int(v2.UNAUTHORIZED), -1] if has_status else [int(v2.UNAUTHORIZED)]
    assert alice.proxy.run(open_it()) == wanted
