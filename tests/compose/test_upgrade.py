"""deploy/upgrade: another image comes in under load, a container at a time."""

import asyncio
import json
import os
import subprocess
import time
from collections.abc import Iterator
from functools import partial

import pytest
from compose.cluster import BUILD_S, DEPLOY, Cluster, inspect, run
from compose.load import loaded
from compose.traffic import RECOVER_S, within_true
from harness.processes import POPMQ
from testcontainers.compose import DockerCompose

IMAGE = "popmq-test"
BEFORE = "popmq-test-before"
SHORT = str(DEPLOY.parent / "tests/compose/short.yml")
SERVICES = ["broker-a", "broker-b", "broker-c", "proxy", "nameserver-1", "nameserver-2"]
pytestmark = [pytest.mark.compose, pytest.mark.timeout(1800)]


@pytest.fixture
def larger(cluster: Cluster) -> Iterator[Cluster]:
    """Three proxies, and a broker of an override file; afterwards the image is that of before."""
    files = ["docker-compose.yml", "broker-c.yml", SHORT]
    with_c = Cluster(DockerCompose(str(DEPLOY), files), 0.0)
    with_c.up("--scale", "proxy=3", "--force-recreate")  # other tests' were made with other files
    accepted(with_c, "broker-c")  # another test's had another disk
    run("docker", "tag", IMAGE, BEFORE)
    try:
        yield with_c
    finally:
        run("docker", "tag", BEFORE, IMAGE)
        run("docker", "rmi", "--no-prune", BEFORE)
        with_c.command("rm", "--stop", "--force", "broker-c")
        cluster.up()


def accepted(cluster: Cluster, broker: str) -> None:
    """Once proxies know it."""
    words = [POPMQ, "cluster", "accept", broker, "--endpoint", cluster.endpoint]
    end = time.monotonic() + RECOVER_S
    while (done := subprocess.run(words, capture_output=True, timeout=60)).returncode:
        assert time.monotonic() < end, done.stderr.decode()
        time.sleep(1)


def another_image(*lines: str) -> str:
    """In the place of the one that runs; returns its id."""
    dockerfile = "\n".join([f"FROM {BEFORE}", f"LABEL round={os.urandom(4).hex()}", *lines])
    build = ["docker", "build", "--quiet", "--tag", IMAGE, "-"]
    made = subprocess.run(build, input=dockerfile, capture_output=True, text=True, check=True)
    return made.stdout.strip()


def upgrade(*words: str, code: int = 0, files: str = "") -> str:
    """As an operator runs it: with the project's name, and no word of its counts."""
    named = {"COMPOSE_FILE": files} if files else {}
    done = subprocess.run(
        [str(DEPLOY / "upgrade"), "--no-build", *words],
        cwd="/",
        env={**os.environ, **named, "POPMQ_UPGRADE_WAIT_S": "60"},
        capture_output=True,
        text=True,
        timeout=BUILD_S,
    )
    print("\n" + done.stdout)
    assert done.returncode == code, f"{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def replaced(said: str) -> list[str]:
    """Containers in their order, without the project's name."""
    project = os.environ["COMPOSE_PROJECT_NAME"]
    names = [line.split()[-1] for line in said.splitlines() if " replacing " in line]
    return [name.removeprefix(f"{project}-") for name in names]


def images(cluster: Cluster, service: str) -> set[str]:
    return {inspect(one, ".Image") for one in cluster.containers(service)}


async def test_a_rolling_upgrade_is_no_outage(larger: Cluster) -> None:
    """Of the proxies no call fails; of the brokers nothing is lost, and all else goes on."""
    new = another_image()
    async with loaded(larger, "the proxies are upgraded") as load:
        before = len(load.ledger.failures)
        await asyncio.to_thread(upgrade, "proxy")
        await load.goes_on()
        assert load.ledger.failures[before:] == []
    assert images(larger, "proxy") == {new}
    assert images(larger, "broker-a") != {new}
    async with loaded(larger, "all is upgraded"):
        said = await asyncio.to_thread(upgrade)
    for service in SERVICES:
        assert images(larger, service) == {new}, service
    assert len(larger.containers("proxy")) == 3
    assert replaced(said)[:5] == [
        *("broker-a-1", "broker-b-1", "broker-c-1", "nameserver-1-1", "nameserver-2-1")
    ]
    assert "done: 0 replaced" in upgrade()
    project = os.environ["COMPOSE_PROJECT_NAME"]
    names = {
        str(inspect(one, ".Name")).removeprefix(f"/{project}-")
        for one in larger.containers("proxy")
    }

    def named() -> bool:
        """What else status finds, of other tests' groups, does not matter here."""
        words = [POPMQ, "cluster", "status", "--json", "--endpoint", larger.endpoint]
        status = subprocess.run(words, capture_output=True, timeout=60).stdout
        return {proxy["name"] for proxy in json.loads(status)["proxies"]} == names

    await within_true(named)


async def test_an_up_after_an_upgrade_replaces_nothing(larger: Cluster) -> None:
    """Else it would make all proxies anew at the same time."""
    another_image()
    await asyncio.to_thread(upgrade)
    before = {service: larger.containers(service) for service in SERVICES}
    unused = f"{os.environ['COMPOSE_PROJECT_NAME']}_grafana"
    assert unused not in run("docker", "volume", "ls", "--quiet").split()
    larger.up("--scale", "proxy=3")
    assert {service: larger.containers(service) for service in SERVICES} == before


async def test_a_broker_that_was_removed_is_not_started_again(
    cluster: Cluster, larger: Cluster
) -> None:
    """What was made while it was there does not change, and still names its file."""
    larger.command("rm", "--stop", "--force", "broker-c")
    cluster.up("--scale", "proxy=3")
    said = await asyncio.to_thread(upgrade, code=1)
    assert "broker-c.yml, and later" in said
    files = ":".join([str(DEPLOY / "docker-compose.yml"), SHORT])
    assert f"COMPOSE_FILE={files} " in said
    assert "done: 0 replaced" in await asyncio.to_thread(partial(upgrade, files=files))
    assert cluster.containers("broker-c") == []


async def test_it_stops_at_the_first_that_does_not_become_healthy(larger: Cluster) -> None:
    another_image("USER root", "RUN rm /usr/local/bin/proxy", "USER popmq")
    before = images(larger, "proxy")
    said = await asyncio.to_thread(upgrade, "proxy", code=1)
    assert "did not become healthy" in said
    assert len(replaced(said)) == 1
    states = [inspect(one)["Health"]["Status"] for one in larger.containers("proxy")]
    assert states.count("healthy") == 2, states
    run("docker", "tag", BEFORE, IMAGE)
    upgrade("proxy")
    assert images(larger, "proxy") == before
