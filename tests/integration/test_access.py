"""A server that asks who sends: through both fronts, as bytes come over the wire."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from harness.access import signature
from harness.processes import POPMQ, Server, standalone
from integration.conftest import SERVERS

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from apache.rocketmq.v2 import service_pb2_grpc as service_grpc
from popmq_admin.v1 import admin_pb2 as admin
from popmq_admin.v1 import admin_pb2_grpc as admin_grpc
from popmq_broker.config import BrokerConfig
from popmq_common.process import logs
from popmq_common.process.config import ConfigError
from popmq_proxy.config import ProxyConfig
from popmq_proxy.rpc.access import start_checks

LOG = logs.get("proxy")
ROOT = ("root", "root-secret")
ALICE = ("alice", "alice-secret")
UNAUTHENTICATED, DENIED = grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED


@dataclass
class Secured:
    endpoint: str
    audit: Path
    messaging: Any
    operators: Any

    def metadata(self, who: tuple[str, str] | None, second: int = 0) -> list[tuple[str, str]]:
        found = [("x-mq-client-id", "c")]
        if who is not None:
            name, date = signature(*who, f"20261123T1011{second:02}Z".encode())
            found += [("authorization", name.decode()), ("x-mq-date-time", date.decode())]
        return found

    async def ask(self, who: tuple[str, str] | None, name: str, request: Any) -> grpc.StatusCode:
        try:
            await getattr(self.operators, name)(request, metadata=self.metadata(who))
        except grpc.aio.AioRpcError as refused:
            found: grpc.StatusCode = refused.code()
            return found
        return grpc.StatusCode.OK

    async def send(self, who: tuple[str, str] | None, topic: str = "t", second: int = 0) -> int:
        message = v2.Message(
            topic=v2.Resource(name=topic),
            body=b"x",
            system_properties=v2.SystemProperties(message_id="01AB"),
        )
        request = service.SendMessageRequest(messages=[message])
        metadata = self.metadata(who, second)
        answer = await self.messaging.SendMessage(request, metadata=metadata, timeout=10)
        code: int = answer.status.code
        return code

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.audit.read_text().splitlines()]


@pytest.fixture(params=SERVERS, ids=["http2", "grpcio"])
async def secured(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Secured]:
    first = tmp_path / "first.json"
    first.write_text(json.dumps({"username": ROOT[0], "password": ROOT[1]}))
    first.chmod(0o600)
    audit = tmp_path / "audit.jsonl"
    proxy = ProxyConfig(
        create_topics=True,
        port=0,
        log_level="error",
        authentication=True,
        authorization=True,
        init_user_file=first,
        audit_log=str(audit),
    )
    broker = BrokerConfig(create_groups=True, data_dir=tmp_path / "data", disk_reserve_bytes=0)
    async with request.param(broker, proxy) as port:
        endpoint = f"127.0.0.1:{port}"
        async with grpc.aio.insecure_channel(endpoint) as channel:
            messaging = service_grpc.MessagingServiceStub(channel)
            made = Secured(endpoint, audit, messaging, admin_grpc.AdminStub(channel))
            topic = admin.CreateTopicRequest(topic=admin.Topic(name="t", queues=2))
            async with asyncio.timeout(10):  # the first user is made when the broker has told
                while await made.ask(ROOT, "CreateTopic", topic) is not grpc.StatusCode.OK:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
            user = admin.CreateUserRequest(username=ALICE[0], secret=ALICE[1])
            assert await made.ask(ROOT, "CreateUser", user) is grpc.StatusCode.OK
            yield made


def policy(*actions: str) -> admin.PutAclRequest:
    entry = admin.AclEntry(resource="Topic:t", actions=actions, decision="Allow")
    return admin.PutAclRequest(subject="alice", entries=[entry])


async def test_signed_requests_pass_and_no_others(secured: Secured) -> None:
    assert await secured.ask(ROOT, "PutAcl", policy("Pub")) is grpc.StatusCode.OK
    assert await secured.send(ALICE) == v2.OK
    assert await secured.send(ALICE, "other") == v2.UNAUTHORIZED
    assert await secured.send(None) == v2.UNAUTHORIZED
    assert await secured.send(("alice", "wrong-secret")) == v2.UNAUTHORIZED
    assert await secured.send(("nobody", "alice-secret")) == v2.UNAUTHORIZED
    assert await secured.ask(None, "ListTopics", admin.ListTopicsRequest()) is UNAUTHENTICATED
    assert await secured.ask(ALICE, "ListTopics", admin.ListTopicsRequest()) is DENIED


async def test_a_connection_that_was_good_is_asked_again_each_time(secured: Secured) -> None:
    """Blocks of headers that are alike are prepared once; who signs is not part of that."""
    await secured.ask(ROOT, "PutAcl", policy("Pub"))
    for second in range(30):
        assert await secured.send(ALICE, second=second) == v2.OK
        assert await secured.send(("alice", "wrong-secret"), second=second) == v2.UNAUTHORIZED
        assert await secured.send(ROOT, second=second) == v2.OK
        assert await secured.send(None) == v2.UNAUTHORIZED


async def test_a_right_that_is_taken_ends_with_the_next_request(secured: Secured) -> None:
    await secured.ask(ROOT, "PutAcl", policy("Pub"))
    assert await secured.send(ALICE) == v2.OK
    delete = admin.DeleteAclRequest(subject="User:alice")
    assert await secured.ask(ROOT, "DeleteAcl", delete) is grpc.StatusCode.OK
    assert await secured.send(ALICE) == v2.UNAUTHORIZED


async def test_the_audit_trail_has_refusals_and_changes_and_no_secret(secured: Secured) -> None:
    await secured.ask(ROOT, "PutAcl", policy("Pub"))
    for _ in range(5):
        await secured.send(ALICE, "other")
    await secured.send(("alice", "wrong-secret"))
    await secured.ask(ALICE, "DeleteTopic", admin.DeleteTopicRequest(name="t"))
    lines = secured.lines()
    changes = [
        (one["user"], one["call"], one["target"]) for one in lines if one["what"] == "change"
    ]
    assert ("root", "CreateUser", "alice") in changes
    assert ("root", "PutAcl", "alice") in changes
    refused = [one for one in lines if one["what"] == "refused" and one["user"] == "alice"]
    assert [(one["call"], one["resource"]) for one in refused] == [
        ("SendMessage", "Topic:other Pub"),  # once, however often
        ("DeleteTopic", "Topic:t Delete"),
    ]
    assert all(one["address"] == "127.0.0.1" for one in refused)
    text = secured.audit.read_text()
    assert "alice-secret" not in text
    assert "root-secret" not in text
    assert "Signature" not in text
    assert secured.audit.stat().st_mode & 0o077 == 0


async def test_a_poll_of_the_table_of_users_by_its_topics_name_is_refused(secured: Secured) -> None:
    """It has the keys of all users."""
    request = admin.GetMessageRequest(topic="rmq_sys_popmq_catalog", system=True)
    assert await secured.ask(ROOT, "GetMessage", request) is grpc.StatusCode.NOT_FOUND
    find = admin.FindMessagesRequest(topic="rmq_sys_popmq_catalog", key="access", system=True)
    assert await secured.ask(ROOT, "FindMessages", find) is grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize(
    ("content", "mode", "text"),
    [
        (None, 0o600, "cannot be read"),
        ('{"username": "root", "password": "root-secret"}', 0o644, "chmod 600"),
        ('{"username": "root"}', 0o600, "expected"),
        ('{"username": "a b", "password": "root-secret"}', 0o600, "a b"),
        ('{"username": "root", "password": "short"}', 0o600, "less than 8"),
        ("root:root-secret", 0o600, "expected"),
    ],
)
def test_a_first_user_that_cannot_be_is_told_at_the_start(
    tmp_path: Path, content: str | None, mode: int, text: str
) -> None:
    path = tmp_path / "first.json"
    if content is not None:
        path.write_text(content)
        path.chmod(mode)
    config = ProxyConfig(authentication=True, init_user_file=path)
    with pytest.raises(ConfigError, match=text):
        start_checks.check(config, LOG, over_link=False)


def test_policies_without_users_are_no_configuration() -> None:
    with pytest.raises(ConfigError, match="POPMQ_PROXY_AUTHENTICATION=true"):
        start_checks.check(ProxyConfig(authorization=True), LOG, over_link=False)


@pytest.mark.parametrize(
    ("host", "secret", "over_link", "refused"),
    [
        ("0.0.0.0", "", True, True),
        ("10.0.0.7", "", True, True),
        ("0.0.0.0", "a-secret-of-the-link", True, False),
        ("0.0.0.0", "", False, False),  # brokers of the same process
        ("127.0.0.1", "", True, False),
        ("::1", "", True, False),
    ],
)
def test_clients_are_not_asked_who_they_are_in_front_of_an_open_link(
    host: str, secret: str, over_link: bool, refused: bool
) -> None:
    config = ProxyConfig(host=host, link_secret=secret, authentication=True)
    if refused:
        with pytest.raises(ConfigError, match="LINK_SECRET"):
            start_checks.check(config, LOG, over_link=over_link)
    else:
        assert start_checks.check(config, LOG, over_link=over_link) is None


@pytest.mark.parametrize(
    ("host", "told"), [("0.0.0.0", True), ("127.0.0.1", False), ("localhost", False)]
)
def test_a_server_that_everybody_reaches_says_so(host: str, told: bool) -> None:
    events: list[str] = []
    log: Any = SimpleNamespace(warning=lambda event, **fields: events.append(event))
    start_checks.check(ProxyConfig(host=host), log, over_link=True)
    assert events == (["proxy.open"] if told else [])


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A process of its own."""
    first = tmp_path / "first.json"
    first.write_text(json.dumps({"username": ROOT[0], "password": ROOT[1]}))
    first.chmod(0o600)
    env = {
        "POPMQ_PROXY_AUTHENTICATION": "true",
        "POPMQ_PROXY_AUTHORIZATION": "true",
        "POPMQ_PROXY_INIT_USER_FILE": str(first),
    }
    with standalone(tmp_path, env) as started:
        yield started


def test_the_command_is_told_that_it_must_say_who_it_is(server: Server, tmp_path: Path) -> None:
    refused = subprocess.run(
        [POPMQ, "topic", "list", "--endpoint", server.endpoint],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert refused.returncode != 0
    assert "not signed" in refused.stderr
    assert "root-secret" not in (tmp_path / "standalone.log").read_text()
