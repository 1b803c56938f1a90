"""The cluster as a user starts it: containers, killed and started again, seen from outside."""

import asyncio
import json
import time
import urllib.request
from typing import Any
from urllib.parse import quote

import grpc
import pytest
from compose.cluster import Cluster, run
from compose.traffic import RECOVER_S, bodies, receive, send, within
from harness.processes import Server

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from apache.rocketmq.v2 import service_pb2_grpc as service_grpc
from popmq import Client, ReceivedMessage

SERVICES = {"nameserver", "broker-a", "broker-b", "proxy-1", "proxy-2", "prometheus"}
PROXIES = ("proxy-1", "proxy-2")
pytestmark = [pytest.mark.compose, pytest.mark.timeout(600)]


def group(cluster: Cluster, name: str) -> str:
    """A group that starts at the oldest message."""
    Server(cluster.endpoint("proxy-2"), "").cli("group", "create", name, "--from", "first")
    return name


def test_all_services_are_healthy(cluster: Cluster) -> None:
    assert {container.Service for container in cluster.compose.get_containers()} == SERVICES
    health = {name: cluster.inspect(name)["Health"]["Status"] for name in SERVICES}
    assert set(health.values()) == {"healthy"}, health


@pytest.mark.parametrize(("into", "out_of"), [PROXIES, PROXIES[::-1]])
async def test_sent_through_one_proxy_received_through_the_other(
    cluster: Cluster, into: str, out_of: str
) -> None:
    topic, sent = f"through-{into}", bodies(into, 40)
    readers = group(cluster, f"readers-{into}")
    async with Client(cluster.endpoint(into)) as one, Client(cluster.endpoint(out_of)) as two:
        await send(one, topic, sent)
        got = await receive(two, topic, readers, sent)
    assert sorted(got) == sorted(sent)


@pytest.mark.parametrize("proxy", PROXIES)
async def test_a_route_leads_through_the_published_port(cluster: Cluster, proxy: str) -> None:
    """Official clients connect to what the route says, not to what they were told."""
    host, _, port = cluster.endpoint(proxy).partition(":")
    asked = v2.Endpoints(scheme=v2.IPv4, addresses=[v2.Address(host=host, port=int(port))])
    async with Client(cluster.endpoint(proxy)) as client:
        await send(client, "routed", ["one"])
        async with grpc.aio.insecure_channel(cluster.endpoint(proxy)) as channel:
            route = await service_grpc.MessagingServiceStub(channel).QueryRoute(
                service.QueryRouteRequest(topic=v2.Resource(name="routed"), endpoints=asked),
                metadata=client.connection.metadata(),
                timeout=5,
            )
    assert {queue.broker.name for queue in route.message_queues} == {"broker-a", "broker-b"}
    assert all(queue.broker.endpoints == asked for queue in route.message_queues)


async def test_a_killed_broker_keeps_its_messages_and_the_other_goes_on(cluster: Cluster) -> None:
    stored, settled = bodies("stored", 40), bodies("settled", 40)
    g = group(cluster, "g")
    async with (
        Client(cluster.endpoint("proxy-1")) as one,
        Client(cluster.endpoint("proxy-2")) as two,
    ):
        await send(one, "killed", settled)
        assert set(await receive(two, "killed", g, settled)) == settled
        await send(one, "killed", stored)

        cluster.docker("kill", "broker-a")
        assert cluster.inspect("broker-a")["ExitCode"] == 137
        meanwhile = {"one": bodies("one", 20), "two": bodies("two", 20)}
        await send(one, "meanwhile", meanwhile["one"])
        await send(two, "meanwhile", meanwhile["two"])
        expected = meanwhile["one"] | meanwhile["two"]
        assert set(await receive(one, "meanwhile", g, expected)) == expected
        there = set(await receive(two, "killed", g, stored, seconds=10))
        assert there
        assert there < stored, "broker-a had none of them: nothing was tried"

        cluster.start("broker-a")
        rest = await receive(one, "killed", g, stored - there)
    assert set(rest) == stored - there, "lost, or settled before the kill and here again"


async def test_a_handle_outlives_its_proxy(cluster: Cluster) -> None:
    """Received through one proxy, which dies; acked through the other; never seen again."""
    topic, readers, sent = "orphaned", group(cluster, "orphans"), bodies("orphan", 4)
    async with Client(cluster.endpoint("proxy-2")) as two:
        async with Client(cluster.endpoint("proxy-1")) as one:
            await send(one, topic, sent)
            held: list[ReceivedMessage] = []
            for _ in range(30):
                held += await one.receive(topic, readers, invisible_s=120, wait_s=1)
                if len(held) == len(sent):
                    break
            assert {message.body.decode() for message in held} == sent
            cluster.docker("kill", "proxy-1")
        await two.ack(*held)
        await send(two, topic, ["after"])
        assert await receive(two, topic, readers, {"after"}) == ["after"]
    cluster.start("proxy-1")
    shown = Server(cluster.endpoint("proxy-1"), "").cli("group", "show", readers)
    assert isinstance(shown, dict)
    assert {int(queue["lag"]) for queue in shown["queues"]} == {0}, shown
    async with Client(cluster.endpoint("proxy-1")) as one:
        await send(one, topic, ["again"])
        assert await receive(one, topic, readers, {"again"}) == ["again"]


async def test_brokers_come_back_to_a_new_nameserver(cluster: Cluster) -> None:
    """It keeps routes in memory only: known topics go on without it, new ones once it is back."""
    async with Client(cluster.endpoint("proxy-1")) as client:
        await send(client, "known", ["before"])
        cluster.docker("kill", "nameserver")
        await client.send("known", b"without")
        cluster.start("nameserver")
        await within(RECOVER_S, lambda: client.send("unknown", b"after"))
        readers = group(cluster, "known-readers")
        expected = {"before", "without"}
        assert set(await receive(client, "known", readers, expected)) == expected


@pytest.mark.parametrize("name", ["proxy-2", "broker-b", "nameserver"])
def test_a_service_stops_when_told(cluster: Cluster, name: str) -> None:
    """Within its grace period, of its own will: exit code 0, not 137."""
    cluster.docker("stop", name)
    state = cluster.inspect(name)
    cluster.start(name)
    assert state["ExitCode"] == 0, state


async def test_prometheus_scrapes_all_services(cluster: Cluster) -> None:
    async with Client(cluster.endpoint("proxy-1")) as client:
        await send(client, "measured", bodies("measured", 16))
    expected = {
        "nameserver:5557",
        "broker-a:5557",
        "broker-b:5557",
        "proxy-1:5557",
        "proxy-2:5557",
    }
    end = time.monotonic() + 60
    up: set[str] = set()
    stored = 0
    while (up, stored) != (expected, 16) and time.monotonic() < end:
        await asyncio.sleep(1)  # a scrape interval
        up = {row["metric"]["instance"] for row in await prometheus(cluster, "up == 1")}
        rows = await prometheus(cluster, 'sum(popmq_messages_in_total{topic="measured"})')
        stored = int(rows[0]["value"][1]) if rows else 0
    assert up == expected
    assert stored == 16


async def prometheus(cluster: Cluster, query: str) -> list[dict[str, Any]]:
    """The rows that answer a query now."""
    port = cluster.port("prometheus", 9090)
    url = f"http://127.0.0.1:{port}/api/v1/query?query={quote(query)}"

    def get() -> list[dict[str, Any]]:
        with urllib.request.urlopen(url, timeout=5) as answer:
            rows: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        return rows

    return await asyncio.to_thread(get)


def test_the_audit_passes_for_both_brokers(cluster: Cluster) -> None:
    said = cluster.compose_command("run", "--rm", "--build", "audit", timeout_s=550)
    verdicts = [line.partition("-2")[0] for line in said.splitlines() if ": snapshot" in line]
    assert verdicts == ["PASS: snapshot broker-a", "PASS: snapshot broker-b"], said


def test_the_image_holds_the_services_and_no_more(cluster: Cluster) -> None:
    def size_bytes(image: str) -> int:
        return int(run("docker", "image", "inspect", image, "--format", "{{.Size}}"))

    ours = size_bytes("popmq-test") - size_bytes("python:3.11-slim-bookworm")
    assert ours < 70_000_000
    shell = ["docker", "run", "--rm", "--read-only", "--entrypoint", "sh", "popmq-test", "-c"]
    assert run(*shell, "id -u").strip() == "10001"
    packages = run(*shell, "ls /opt/popmq/lib/python3.11/site-packages").split()
    assert not {"pip", "pyspark", "pyarrow", "pytest", "mypy", "grpc_tools"} & set(packages)
