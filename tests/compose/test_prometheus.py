"""Prometheus asks all services; its alerts are silent on a cluster that is well, and only there."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable

import pytest
from compose.cluster import Cluster, inspect, run
from compose.prometheus import firing, query
from compose.traffic import bodies, send
from compose.webhook import Told

from popmq import Client

ALERT_S = 180.0
"""30 s until ServiceDown fires, or a minute until ProxiesMissing, and a slow machine."""
pytestmark = [pytest.mark.compose, pytest.mark.timeout(600)]


async def until(reached: Callable[[], Awaitable[bool]], seconds: float = ALERT_S) -> None:
    end = time.monotonic() + seconds
    while not await reached():
        assert time.monotonic() < end, f"not within {seconds} s"
        await asyncio.sleep(1)


async def test_it_asks_all_services(cluster: Cluster) -> None:
    async with Client(cluster.endpoint) as client:
        await send(client, "measured", bodies("measured", 16))

    async def up() -> bool:
        rows = await query(cluster, "count by (service) (up == 1)")
        found = {row["metric"]["service"]: int(row["value"][1]) for row in rows}
        one_each = dict.fromkeys(["balancer", "alertmanager", "sources"], 1)
        return found == {"nameserver": 2, "broker": 2, "proxy": 2, **one_each}

    async def stored() -> bool:
        rows = await query(cluster, 'sum(popmq_messages_in_total{topic="measured"})')
        return [int(row["value"][1]) for row in rows] == [16]

    await until(up)
    await until(stored)


async def test_a_proxy_has_one_name_everywhere(cluster: Cluster) -> None:
    """Compose's, which docker ps and the logs have."""
    names = {"proxy-1", "proxy-2"}
    project = os.environ["COMPOSE_PROJECT_NAME"]
    containers = {str(inspect(one, ".Name")) for one in cluster.containers("proxy")}
    assert containers == {f"/{project}-{name}" for name in names}

    async def told() -> bool:
        rows = await query(cluster, 'up{service="proxy"}')
        return {row["metric"]["instance"] for row in rows} == {f"{name}:5557" for name in names}

    async def shown() -> bool:
        status = await asyncio.to_thread(cluster.server.cli, "cluster", "status")
        assert isinstance(status, dict)
        return {proxy["name"] for proxy in status["proxies"]} == names

    await until(told)
    await until(shown)


async def test_the_balancer_shares_connections_out(cluster: Cluster) -> None:
    """Both proxies serve connections of clients, and no check finds one of them ill."""
    for _ in range(4):
        async with Client(cluster.endpoint) as client:
            await client.send("shared", b"one")

    async def both() -> bool:
        serving = 'haproxy_server_status{proxy="proxies",state="UP"} == 1'
        sessions = "haproxy_server_sessions_total > 0"
        return len(await query(cluster, f"({sessions}) and on (server) ({serving})")) == 2

    await until(both)


async def test_alerts_are_silent_then_one_fires_and_is_silent_again(
    cluster: Cluster, told: Told
) -> None:
    """And whoever is to be told of it is told of both."""

    async def silent() -> bool:
        return await firing(cluster) == set()

    async def fires() -> bool:
        return "ServiceDown" in await firing(cluster)

    async def posted(status: str) -> bool:
        return ("ServiceDown", status) in told.alerts

    await until(silent)
    (nameserver,) = cluster.containers("nameserver-2")
    run("docker", "stop", nameserver)
    await until(fires)
    assert await firing(cluster) == {"ServiceDown"}
    await until(lambda: posted("firing"))
    run("docker", "start", nameserver)
    await until(silent)
    await until(lambda: posted("resolved"))
