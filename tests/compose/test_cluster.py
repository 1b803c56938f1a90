"""The cluster as a user starts it, from outside: official clients, ours, the README's commands."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import grpc
import httpx
import pytest
from compat.checks import Driver, check_fifo, check_push, check_round_trip
from compat.golang.conftest import golang_driver
from compose.cluster import Cluster, inspect, run
from compose.traffic import bodies, receive, send
from harness.processes import POPMQ, Server

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from apache.rocketmq.v2 import service_pb2_grpc as service_grpc
from popmq import Client, ReceivedMessage

SERVICES = {
    "alertmanager": 1,
    "balancer": 1,
    "broker-a": 1,
    "broker-b": 1,
    "console": 1,
    "nameserver-1": 1,
    "nameserver-2": 1,
    "prometheus": 1,
    "proxy": 2,
    "sources": 1,
}
CONSOLE_PAGES = (
    *("/", "/topics", "/topics/seen", "/groups", "/dead-letters", "/later", "/cluster", "/audit"),
    "/access",
)
START_S = 90.0
README = (Path(__file__).resolve().parents[2] / "README.md").read_text()
pytestmark = [pytest.mark.compose, pytest.mark.timeout(600)]


def test_all_services_are_healthy_soon(cluster: Cluster) -> None:
    containers = {name: cluster.containers(name) for name in SERVICES}
    assert {name: len(found) for name, found in containers.items()} == SERVICES
    for name, found in containers.items():
        assert {inspect(one)["Health"]["Status"] for one in found} == {"healthy"}, name
    print(f"\nall healthy after {cluster.started_s:.1f} s")
    assert cluster.started_s < START_S


@pytest.mark.parametrize(("into", "out_of"), [(0, 1), (1, 0)])
async def test_sent_through_one_proxy_received_through_the_other(
    cluster: Cluster, into: int, out_of: int
) -> None:
    topic, sent = f"through-{into}", bodies(f"body-{into}", 40)
    readers = cluster.group(f"readers-{into}")
    proxies = cluster.proxies()
    async with Client(proxies[into]) as one, Client(proxies[out_of]) as two:
        await send(one, topic, sent)
        got = await receive(two, topic, readers, sent)
    assert sorted(got) == sorted(sent)


async def test_t50_a_route_leads_back_through_the_published_port(cluster: Cluster) -> None:
    """Official clients connect to what the route says, not to what they were told."""
    host, _, port = cluster.endpoint.partition(":")
    asked = v2.Endpoints(scheme=v2.IPv4, addresses=[v2.Address(host=host, port=int(port))])
    async with Client(cluster.endpoint) as client:
        await send(client, "routed", ["one"])
        async with grpc.aio.insecure_channel(cluster.endpoint) as channel:
            route = await service_grpc.MessagingServiceStub(channel).QueryRoute(
                service.QueryRouteRequest(topic=v2.Resource(name="routed"), endpoints=asked),
                metadata=client.connection.metadata(),
                timeout=5,
            )
    assert {queue.broker.name for queue in route.message_queues} == {"broker-a", "broker-b"}
    assert all(queue.broker.endpoints == asked for queue in route.message_queues)


CHECKS = [check_round_trip, check_push, check_fifo]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_official_python_client(
    cluster: Cluster, python_driver: Driver, check: Callable[[Driver, Server], None]
) -> None:
    check(python_driver, cluster.server)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_official_go_client(
    cluster: Cluster, binary: Path, check: Callable[[Driver, Server], None]
) -> None:
    check(golang_driver(binary, tls=False), cluster.server)


def test_the_official_go_client_with_tls(cluster: Cluster, binary: Path) -> None:
    check_round_trip(golang_driver(binary, tls=True), cluster.server)


def test_the_commands_of_the_readme(cluster: Cluster) -> None:
    """A cluster creates nothing on first use: the README says how topics are made."""
    section = README.split("## Run it")[1].split("## ")[0]
    (command,) = re.findall(r"`popmq (topic create [\w-]+)`", section)
    words = [POPMQ, *command.split(), "--endpoint", cluster.endpoint]
    made = subprocess.run(words, capture_output=True, check=True, text=True, timeout=60)
    assert command.split()[-1] in made.stdout


def test_the_ten_lines_of_the_readme(cluster: Cluster, tmp_path: Path) -> None:
    """They print what the README says, and end when they are told."""
    section = README.split("## Ten lines of Python")[1]
    block = r"```python\n(.*?)```\n\n```text\n(.*?)```"
    program, prints = re.findall(block, section, re.DOTALL)[0]
    file = tmp_path / "program.py"
    file.write_text(program.replace("127.0.0.1:8081", cluster.endpoint))
    running = subprocess.Popen([sys.executable, "-u", file], stdout=subprocess.PIPE, text=True)
    try:
        assert running.stdout is not None
        for line in prints.splitlines():
            assert running.stdout.readline().rstrip() == line
    finally:
        running.terminate()
        rest, _ = running.communicate(timeout=60)
    assert (rest, running.returncode) == ("", 0)


async def test_the_console_shows_the_cluster(cluster: Cluster) -> None:
    """Nobody has to set anything up; without accounts there is no login."""
    async with Client(cluster.endpoint) as client:
        await send(client, "seen", ["in the browser"])
    base = f"http://127.0.0.1:{cluster.port('console', 8082)}"
    async with httpx.AsyncClient(base_url=base) as browser:
        pages = {path: await browser.get(path) for path in CONSOLE_PAGES}
    assert {path: page.status_code for path, page in pages.items()} == dict.fromkeys(pages, 200)
    assert all(broker in pages["/cluster"].text for broker in ("broker-a", "broker-b"))
    assert "seen" in pages["/topics"].text
    assert "in the browser" in pages["/topics/seen"].text


async def test_a_handle_outlives_its_proxy(cluster: Cluster) -> None:
    """Received through one proxy, which dies; acked through the other; never seen again."""
    topic, readers, sent = "orphaned", cluster.group("orphans"), bodies("orphan", 4)
    first, second = cluster.containers("proxy")
    async with Client(cluster.address(second)) as two:
        async with Client(cluster.address(first)) as one:
            await send(one, topic, sent)
            held: list[ReceivedMessage] = []
            for _ in range(30):
                held += await one.receive(topic, readers, invisible_s=120, wait_s=1)
                if len(held) == len(sent):
                    break
            assert {message.body.decode() for message in held} == sent
            run("docker", "kill", first)
        await two.ack(*held)
        await send(two, topic, ["after"])
        assert await receive(two, topic, readers, {"after"}) == ["after"]
    cluster.up()
    shown = cluster.server.cli("group", "show", readers)
    assert isinstance(shown, dict)
    assert {int(queue["lag"]) for queue in shown["queues"]} == {0}, shown
