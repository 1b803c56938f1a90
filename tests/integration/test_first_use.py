"""What happens when a client uses a topic or group that nobody has created?"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest

from popmq import Client
from popmq.errors import GroupNotFound, RefusedByServer, TopicNotFound
from popmq_admin.v1 import admin_pb2 as admin
from popmq_admin.v1 import admin_pb2_grpc as admin_grpc
from popmq_broker.config import BrokerConfig
from popmq_cli.servers.run_standalone import standalone_configs
from popmq_common.process.clock import SystemClock
from popmq_proxy.config import ProxyConfig
from popmq_standalone.app import standalone

TOO_MANY_REQUESTS = 42_900


@asynccontextmanager
async def serving(broker: BrokerConfig, proxy: ProxyConfig) -> AsyncIterator[str]:
    async with standalone(broker, proxy, SystemClock()) as served:
        yield f"127.0.0.1:{served.proxy.port}"


async def test_by_default_both_must_be_there_and_the_error_says_how(tmp_path: Path) -> None:
    """As in every cluster: popmq broker and popmq proxy have these defaults."""
    broker = BrokerConfig(data_dir=tmp_path, disk_reserve_bytes=0)
    async with (
        serving(broker, ProxyConfig(port=0, log_level="error")) as endpoint,
        Client(endpoint) as client,
    ):
        with pytest.raises(TopicNotFound, match="popmq topic create orders"):
            await client.send("orders", b"x")
        async with grpc.aio.insecure_channel(endpoint) as channel:
            stub = admin_grpc.AdminStub(channel)
            await stub.CreateTopic(admin.CreateTopicRequest(topic=admin.Topic(name="orders")))
        await client.send("orders", b"x")
        with pytest.raises(GroupNotFound, match="popmq group create billing"):
            await client.receive("orders", "billing", wait_s=0)


async def test_first_use_creates_only_so_much_and_commands_more(tmp_path: Path) -> None:
    broker = BrokerConfig(
        data_dir=tmp_path,
        disk_reserve_bytes=0,
        create_groups=True,
        first_use_topics_max=2,
        first_use_groups_max=1,
    )
    proxy = ProxyConfig(port=0, log_level="error", create_topics=True)
    async with serving(broker, proxy) as endpoint, Client(endpoint) as client:
        for topic in ("a", "b"):
            await client.send(topic, b"x")
        with pytest.raises(RefusedByServer, match="FIRST_USE_TOPICS_MAX") as refused:
            await client.send("c", b"x")
        assert refused.value.code == TOO_MANY_REQUESTS
        await client.receive("a", "g", wait_s=0)
        with pytest.raises(RefusedByServer, match="FIRST_USE_GROUPS_MAX") as refused:
            await client.receive("a", "h", wait_s=0)
        assert refused.value.code == TOO_MANY_REQUESTS
        async with grpc.aio.insecure_channel(endpoint) as channel:
            stub = admin_grpc.AdminStub(channel)
            await stub.CreateTopic(admin.CreateTopicRequest(topic=admin.Topic(name="c")))
            await stub.CreateGroup(admin.CreateGroupRequest(group=admin.Group(name="h")))
        await client.send("c", b"x")
        await client.receive("a", "h", wait_s=0)


@pytest.mark.parametrize(
    ("flag", "variables", "topics", "groups"),
    [
        (True, {}, True, True),
        (False, {}, False, True),
        (True, {"POPMQ_PROXY_CREATE_TOPICS": "false"}, False, True),
        (True, {"POPMQ_BROKER_CREATE_GROUPS": "false"}, True, False),
    ],
)
def test_standalone_creates_both_unless_somebody_says_no(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    flag: bool,
    variables: dict[str, str],
    topics: bool,
    groups: bool,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    broker, proxy = standalone_configs(
        host="127.0.0.1", port=0, tls_port=0, data_dir=tmp_path, create_topics=flag, flush="sync"
    )
    assert (proxy.create_topics, broker.create_groups) == (topics, groups)
