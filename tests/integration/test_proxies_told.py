"""Settings and audit lines of a proxy, asked through another one: they have no connection."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import pytest
from harness.console import browsing

from popmq_admin.v1 import admin_pb2 as admin
from popmq_admin.v1 import admin_pb2_grpc as admin_grpc
from popmq_broker.config import BrokerConfig
from popmq_common.process.clock import SystemClock
from popmq_proxy.app import proxy
from popmq_proxy.config import ProxyConfig
from popmq_proxy.rpc.admin import cluster
from popmq_standalone.app import broker_beside

SOON_S = 20.0


class TwoProxies(NamedTuple):
    endpoints: list[str]
    stubs: list[Any]


@pytest.fixture
async def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[TwoProxies]:
    monkeypatch.setattr(cluster, "PRESENCE_S", 0.05)
    async with two_proxies(tmp_path) as both:
        yield both


@asynccontextmanager
async def two_proxies(folder: Path) -> AsyncIterator[TwoProxies]:
    broker = BrokerConfig(data_dir=folder / "data", disk_reserve_bytes=0, link_secret="hunter2" * 3)
    configs = [
        ProxyConfig(port=0, name=name, log_level="error", delay_ms_max=1_000 + at)
        for at, name in enumerate(["north", "south"])
    ]
    clock = SystemClock()
    async with (
        broker_beside(broker, configs[0], clock) as beside,
        proxy(configs[0], clock, nameservers=beside.nameservers, brokers=beside.brokers) as north,
        proxy(configs[1], clock, nameservers=beside.nameservers, brokers=beside.brokers) as south,
    ):
        endpoints = [f"127.0.0.1:{one.port}" for one in (north, south)]
        async with (
            grpc.aio.insecure_channel(endpoints[0]) as first,
            grpc.aio.insecure_channel(endpoints[1]) as second,
        ):
            yield TwoProxies(endpoints, [admin_grpc.AdminStub(one) for one in (first, second)])


async def until(ask: Callable[[], Any], is_so: Callable[[Any], bool]) -> Any:
    deadline_s = time.monotonic() + SOON_S
    while True:
        told = await ask()
        if is_so(told):
            return told
        assert time.monotonic() < deadline_s, told
        await asyncio.sleep(0.02)


async def test_any_proxy_tells_the_settings_of_all(two: TwoProxies) -> None:
    def ask() -> Any:
        return two.stubs[1].ShowSettings(admin.ShowSettingsRequest())

    told = await until(ask, lambda told: len(told.services) == 3)
    names = [(one.role, one.name) for one in told.services]
    assert names == [("broker", "broker-a"), ("proxy", "south"), ("proxy", "north")]
    values = [{one.name: one.value for one in service.settings} for service in told.services]
    assert values[0]["POPMQ_BROKER_LINK_SECRET"] == "set"
    assert "hunter2" not in str(told)
    assert [one["POPMQ_PROXY_DELAY_MS_MAX"] for one in values[1:]] == ["1001", "1000"]
    only = await two.stubs[0].ShowSettings(admin.ShowSettingsRequest(name="south"))
    assert [one.name for one in only.services] == ["south"]
    with pytest.raises(grpc.aio.AioRpcError, match="there are broker-a, north, south"):
        await two.stubs[0].ShowSettings(admin.ShowSettingsRequest(name="west"))


async def test_the_cluster_page_shows_settings_and_marks_what_differs(two: TwoProxies) -> None:
    async with browsing(endpoint=two.endpoints[0]) as browser:
        await until(
            lambda: two.stubs[0].ShowSettings(admin.ShowSettingsRequest()),
            lambda told: len(told.services) == 3,
        )
        await browser.get("/cluster?q=delay_ms_max")
        assert "POPMQ_PROXY_DELAY_MS_MAX differs" in browser.text
        assert "POPMQ_BROKER_FLUSH" not in browser.page
        await browser.get("/cluster?show=differing")
        assert "POPMQ_PROXY_DELAY_MS_MAX" in browser.page
        assert "popmq cluster settings --differing" in browser.page
        seen: set[str] = set()
        for page in range(1, 6):
            await browser.get(f"/cluster?page={page}&sort=name")
            seen |= {word for word in browser.text.split() if word.startswith("POPMQ_")}
        assert {"POPMQ_BROKER_ADVERTISE", "POPMQ_PROXY_TRANSACTION_RECOVERY_MS_MAX"} <= seen
        assert "hunter2" not in browser.page


async def test_changes_at_every_proxy_are_told_by_any(two: TwoProxies) -> None:
    north, south = two.stubs
    await north.CreateTopic(admin.CreateTopicRequest(topic=topic_of("made-at-north")))
    await south.CreateTopic(admin.CreateTopicRequest(topic=topic_of("made-at-south")))
    with pytest.raises(grpc.aio.AioRpcError):
        await south.DeleteTopic(admin.DeleteTopicRequest(name="none"))
    for stub in two.stubs:
        told = await until(
            partial(stub.ListAuditLines, admin.ListAuditLinesRequest()),
            lambda told: len(told.lines) == 3,
        )
        found = [(one.proxy, one.call, one.resource) for one in told.lines]
        assert sorted(found) == [
            ("north", "CreateTopic", "Topic:made-at-north"),
            ("south", "CreateTopic", "Topic:made-at-south"),
            ("south", "DeleteTopic", "Topic:none"),
        ]
        assert [one.at_ms for one in told.lines] == sorted(
            (one.at_ms for one in told.lines), reverse=True
        )
        assert {one.name: one.lines for one in told.proxies} == {"north": 1, "south": 2}
        assert not told.more
        assert not told.silent_brokers
    few = await north.ListAuditLines(admin.ListAuditLinesRequest(text="MADE", count_max=1))
    assert (len(few.lines), few.more) == (1, True)
    assert not (await north.ListAuditLines(admin.ListAuditLinesRequest(what="refused"))).lines


async def test_the_access_page_shows_changes_at_every_proxy(two: TwoProxies) -> None:
    await two.stubs[1].CreateTopic(admin.CreateTopicRequest(topic=topic_of("made-at-south")))
    await until(
        lambda: two.stubs[0].ListAuditLines(admin.ListAuditLinesRequest()),
        lambda told: len(told.lines) == 1,
    )
    async with browsing(endpoint=two.endpoints[0]) as browser:
        await browser.get("/access")
        assert "CreateTopic Topic:made-at-south done south" in browser.text
        assert re.search("north.* south", browser.text)
        await browser.get("/access?trail=nothing-like-it")
        assert "made-at-south" not in browser.page
        await browser.get("/access?what=nonsense&trail=SOUTH")
        assert "made-at-south" in browser.page


async def test_a_list_that_nobody_can_give_is_refused(two: TwoProxies) -> None:
    for wrong in (
        admin.ListAuditLinesRequest(count_max=1_001),
        admin.ListAuditLinesRequest(count_max=-1),
        admin.ListAuditLinesRequest(what="all"),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await two.stubs[0].ListAuditLines(wrong)
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def topic_of(name: str) -> admin.Topic:
    return admin.Topic(name=name, message_type="NORMAL", queues=1)
