"""The cluster as a user starts it: containers, killed and started again, seen from outside."""

import asyncio
import json
import os
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

os.environ.setdefault("TESTCONTAINERS_RYUK_DISABLED", "true")  # `down` below cleans up

from harness.processes import Server, free_port
from testcontainers.compose import DockerCompose

from popmq import Client, PopMQClientError

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
SERVICES = {"nameserver", "broker-a", "broker-b", "proxy-1", "proxy-2", "prometheus"}
pytestmark = [pytest.mark.compose, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[DockerCompose]:
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "info"], capture_output=True).returncode:
        pytest.fail("no Docker engine answers: https://docs.docker.com/engine/install")
    ports = {name: str(free_port()) for name in ("POPMQ_PORT_1", "POPMQ_PORT_2", "PROMETHEUS_PORT")}
    with pytest.MonkeyPatch.context() as patch:
        for name, port in ports.items():
            patch.setenv(name, port)
        compose = DockerCompose(str(DEPLOY), "docker-compose.yml", build=True, wait=True)
        with compose:
            address = endpoint(compose, "proxy-1")
            server = Server(address, "")
            server.cli("group", "create", "g", "--from", "first")
            yield compose


def endpoint(cluster: DockerCompose, service: str) -> str:
    return f"127.0.0.1:{cluster.get_service_port(service, 8081)}"


def docker(cluster: DockerCompose, verb: str, service: str) -> None:
    container = cluster.get_container(service, include_all=True).ID
    assert container is not None
    subprocess.run(["docker", verb, container], check=True, capture_output=True, timeout=60)


async def send(client: Client, topic: str, count: int) -> set[str]:
    bodies = {f"{topic}-{i}" for i in range(count)}
    for body in bodies:
        await client.send(topic, body.encode())
    return bodies


async def drain(client: Client, topic: str, count: int, seconds: float = 30) -> list[str]:
    """Receive and ack until `count` messages came; a broker that is down is asked again."""
    got: list[str] = []
    end = time.monotonic() + seconds
    while len(got) < count and time.monotonic() < end:
        try:
            messages = await client.receive(topic, "g", wait_s=1.0)
            if messages:
                await client.ack(*messages)
        except PopMQClientError:
            continue
        got += [message.body.decode() for message in messages]
    return got


def test_all_services_are_up(cluster: DockerCompose) -> None:
    assert {container.Service for container in cluster.get_containers()} == SERVICES


async def test_sent_through_one_proxy_received_through_the_other(cluster: DockerCompose) -> None:
    async with (
        Client(endpoint(cluster, "proxy-1")) as one,
        Client(endpoint(cluster, "proxy-2")) as two,
    ):
        sent = await send(one, "through", 40)
        got = await drain(two, "through", 40)
    assert sorted(got) == sorted(sent)


async def test_one_broker_is_killed_the_other_goes_on(cluster: DockerCompose) -> None:
    async with Client(endpoint(cluster, "proxy-1")) as client:
        before = await send(client, "killed", 40)
        docker(cluster, "kill", "broker-a")
        later = await _send_until(client, "later", 20)
        got = await drain(client, "later", 20)
        assert sorted(set(got)) == sorted(later)
        docker(cluster, "start", "broker-a")
        rest = await drain(client, "killed", 40, seconds=90)
    assert sorted(set(rest)) == sorted(before)


async def _send_until(client: Client, topic: str, count: int) -> set[str]:
    """Sends go on once the routes have noticed; what failed is sent again."""
    end = time.monotonic() + 60
    done: set[str] = set()
    while len(done) < count:
        assert time.monotonic() < end, f"{len(done)} of {count} sent"
        body = f"{topic}-{len(done)}"
        try:
            await client.send(topic, body.encode())
            done.add(body)
        except PopMQClientError:
            await asyncio.sleep(0.2)
    return done


def test_prometheus_sees_all_services(cluster: DockerCompose) -> None:
    port = cluster.get_service_port("prometheus", 9090)
    url = f"http://127.0.0.1:{port}/api/v1/query?query=up"
    end = time.monotonic() + 60
    up: list[str] = []
    while len(up) < 5 and time.monotonic() < end:
        time.sleep(1)  # a scrape interval
        with urllib.request.urlopen(url, timeout=5) as answer:
            rows = json.load(answer)["data"]["result"]
        up = [row["metric"]["instance"] for row in rows if row["value"][1] == "1"]
    assert len(up) == 5, up


def test_the_audit_passes(cluster: DockerCompose) -> None:
    command = ["docker", "compose", "-f", "docker-compose.yml", "run", "--rm", "--build", "audit"]
    done = subprocess.run(command, cwd=DEPLOY, capture_output=True, check=False, timeout=500)
    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()[-3000:]
    assert "PASS" in done.stdout.decode()
