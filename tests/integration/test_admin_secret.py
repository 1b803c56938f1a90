"""Changes need the admin secret where there is one; looking, and what clients do, does not."""

import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from harness.processes import POPMQ, Server, standalone
from integration.conftest import SERVERS, Raw

from popmq_admin.v1 import admin_pb2 as admin
from popmq_admin.v1 import admin_pb2_grpc as admin_grpc
from popmq_broker.config import BrokerConfig
from popmq_common.process.config import ConfigError
from popmq_proxy.config import ProxyConfig
from popmq_proxy.front.rpcs import ADMIN_METHODS
from popmq_proxy.rpc.admin.permission import CHANGES, LOOKS, read_secret

SECRET = "0123456789abcdef"
REQUESTS: dict[str, Any] = {
    "CreateTopic": admin.CreateTopicRequest(topic=admin.Topic(name="t", queues=1)),
    "UpdateTopic": admin.UpdateTopicRequest(name="t", queues=1),
    "SpreadTopics": admin.SpreadTopicsRequest(),
    "UpdateGroup": admin.UpdateGroupRequest(name="g"),
    "CreateGroup": admin.CreateGroupRequest(group=admin.Group(name="g")),
    "ResetOffsets": admin.ResetOffsetsRequest(group="g", topic="t", earliest=True),
    "RedriveDeadLetters": admin.RedriveDeadLettersRequest(group="g"),
    "Redrive": admin.RedriveRequest(which=admin.RedriveDeadLettersRequest(group="g")),
    "PurgeDeadLetters": admin.PurgeDeadLettersRequest(group="g"),
    "SettleTransaction": admin.SettleTransactionRequest(),
    "AcceptBroker": admin.AcceptBrokerRequest(name="nobody"),
    "MovePrimary": admin.MovePrimaryRequest(broker="nobody"),
    "SetPermission": admin.SetPermissionRequest(broker="nobody", permission="read"),
    "ExportSnapshot": admin.ExportSnapshotRequest(),
    "RebuildQueue": admin.RebuildQueueRequest(topic="t"),
    "CreateUser": admin.CreateUserRequest(username="u"),
    "UpdateUser": admin.UpdateUserRequest(username="u"),
    "RotateUser": admin.RotateUserRequest(username="u"),
    "PutAcl": admin.PutAclRequest(subject="User:u"),
    "DeleteAcl": admin.DeleteAclRequest(subject="User:u"),
    "ListUsers": admin.ListUsersRequest(),
    "ListAcls": admin.ListAclsRequest(),
    "TestAccess": admin.TestAccessRequest(username="u", resource="Topic:t", actions=["Pub"]),
    "SetLimits": admin.SetLimitsRequest(limits=admin.Limits(subject="User:*")),
    "ListLimits": admin.ListLimitsRequest(),
    "ListAuditLines": admin.ListAuditLinesRequest(),
    "DeleteUser": admin.DeleteUserRequest(username="u"),
    "DeleteGroup": admin.DeleteGroupRequest(name="g"),
    "DeleteTopic": admin.DeleteTopicRequest(name="t"),
}


@pytest.fixture(params=SERVERS, ids=["http2", "grpcio"])
async def endpoint(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """Of a server with a secret."""
    path = tmp_path / "secret"
    path.write_text(f"{SECRET}\n")
    broker = BrokerConfig(create_groups=True, data_dir=tmp_path / "data", disk_reserve_bytes=0)
    proxy = ProxyConfig(create_topics=True, port=0, log_level="error", admin_secret_file=path)
    async with request.param(broker, proxy) as port:
        yield f"127.0.0.1:{port}"


async def code(endpoint: str, name: str, request: Any, *shown: str) -> grpc.StatusCode:
    metadata = [("x-popmq-admin-secret", one) for one in shown]
    async with grpc.aio.insecure_channel(endpoint) as channel:
        try:
            await getattr(admin_grpc.AdminStub(channel), name)(request, metadata=metadata)
        except grpc.aio.AioRpcError as refused:
            found: grpc.StatusCode = refused.code()
            return found
    return grpc.StatusCode.OK


async def test_each_change_asks_for_the_secret(endpoint: str) -> None:
    for name, request in REQUESTS.items():
        assert await code(endpoint, name, request) is grpc.StatusCode.UNAUTHENTICATED, name
        for wrong in ("", SECRET[:-1], SECRET + "0"):
            found = await code(endpoint, name, request, wrong)
            assert found is grpc.StatusCode.PERMISSION_DENIED, (name, wrong)
    for name, request in REQUESTS.items():
        found = await code(endpoint, name, request, SECRET)
        assert found not in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)
    assert await code(endpoint, "ListTopics", admin.ListTopicsRequest()) is grpc.StatusCode.OK


async def test_without_a_secret_everybody_may(raw: Raw) -> None:
    assert await code(raw.endpoint, "CreateTopic", REQUESTS["CreateTopic"]) is grpc.StatusCode.OK
    shown = await code(raw.endpoint, "CreateGroup", REQUESTS["CreateGroup"], "whatever")
    assert shown is grpc.StatusCode.OK


def test_every_call_of_the_admin_service_is_a_change_or_a_look() -> None:
    assert set(ADMIN_METHODS) == CHANGES | LOOKS
    assert not CHANGES & LOOKS
    assert set(REQUESTS) == CHANGES


@pytest.mark.parametrize("content", [None, b"", b"short\n"])
def test_a_secret_that_cannot_be_one_is_told_at_the_start(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "secret"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match="admin secret"):
        read_secret(path)


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Server]:
    """A standalone process whose secret lies in `secret`."""
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    env = {"POPMQ_PROXY_ADMIN_SECRET_FILE": str(tmp_path / "secret")}
    with standalone(tmp_path, env) as server:
        yield server


def popmq(*arguments: str, **env: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [POPMQ, *arguments], capture_output=True, text=True, timeout=60, check=False, env=env
    )


def test_the_command_shows_the_secret_of_a_file(guarded: Server, tmp_path: Path) -> None:
    at = ["--endpoint", guarded.endpoint]
    (tmp_path / "other").write_text("fedcba9876543210")
    refused = popmq("group", "create", "g", *at)
    assert refused.returncode != 0
    assert "--secret-file" in refused.stderr
    refused = popmq("group", "create", "g", *at, "--secret-file", str(tmp_path / "other"))
    assert "not permitted" in refused.stderr
    secret = str(tmp_path / "secret")
    assert popmq("group", "create", "g", *at, "--secret-file", secret).returncode == 0
    assert popmq("group", "create", "h", *at, POPMQ_ADMIN_SECRET_FILE=secret).returncode == 0
    assert popmq("topic", "create", "t", *at, "--secret-file", secret).returncode == 0
    reset = ["group", "reset-offset", "g", "t", "--to-earliest", "--yes", *at]
    assert popmq(*reset).returncode != 0
    assert popmq(*reset, "--secret-file", secret).returncode == 0
    assert "g" in popmq("group", "list", *at).stdout
    assert SECRET not in (tmp_path / "standalone.log").read_text()
