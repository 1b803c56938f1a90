"""deploy/replicated.yml by docs/replicas.md: disks are wiped under load, one after the other, and
nothing that was answered OK is lost."""

import asyncio
import os
from collections.abc import Iterator
from typing import Any

import pytest
from compose.cluster import DEPLOY, Cluster, crash, run, started
from compose.conftest import SHORT, named_apart
from compose.load import RECEIVERS, SENDERS, Load, loaded
from compose.test_failures import docker, is_back
from compose.traffic import within_true
from testcontainers.compose import DockerCompose

pytestmark = [pytest.mark.compose, pytest.mark.timeout(1200)]
ETCD = "popmq-etcd-test"
SERVICE_OF = {
    f"{letter}{number}": f"broker-{letter}{number if number > 1 else ''}"
    for letter in "ab"
    for number in (1, 2, 3)
}
"""Replica → service."""
LEASE_OVER = "InvalidReceiptHandle"
"""On a busy machine the load's lease of two seconds may end before its ack."""


@pytest.fixture(scope="module")
def replicated(docker: None, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    run("docker", "build", "--quiet", "--tag", ETCD, str(DEPLOY.parent / "tests/compose/etcd"))
    with pytest.MonkeyPatch.context() as patch:
        named_apart(patch)
        patch.setenv("POPMQ_CREATE_ON_FIRST_USE", "true")
        patch.setenv("POPMQ_ETCD_IMAGE", ETCD)
        compose = DockerCompose(str(DEPLOY), ["docker-compose.yml", "replicated.yml", SHORT])
        try:
            yield started(compose)
            if request.session.testsfailed:
                print(compose.get_logs()[0][-20_000:])
        finally:
            compose.stop()


def group(cluster: Cluster, broker: str) -> dict[str, Any]:
    """What `popmq replica list` tells."""
    shown = cluster.server.cli("replica", "list", broker)
    assert isinstance(shown, dict)
    (found,) = shown["groups"]
    return dict(found)


def roles(cluster: Cluster, broker: str) -> dict[str, str]:
    return {one["name"]: one["role"] for one in group(cluster, broker).get("replicas", [])}


def primary(cluster: Cluster, broker: str) -> str:
    (found,) = [name for name, role in roles(cluster, broker).items() if role == "primary"]
    return found


def container(cluster: Cluster, replica: str) -> str:
    (found,) = cluster.containers(SERVICE_OF[replica])
    return found


async def all_in_sync(cluster: Cluster, broker: str, *, but: str = "") -> None:
    """`but`: it is not primary any more, or is not asked for."""

    def reached() -> bool:
        found = roles(cluster, broker)
        named = sorted(found.values())
        return named == ["in sync", "in sync", "primary"] and found.get(but) != "primary"

    await within_true(reached)


async def wiped(cluster: Cluster, replica: str, load: Load) -> None:
    """Killed and its disk taken away; the others go on; then it gets an empty one. These are the
    commands of docs/replicas.md."""
    service, broker = SERVICE_OF[replica], f"broker-{replica[0]}"
    was_primary = roles(cluster, broker)[replica] == "primary"
    await docker("kill", container(cluster, replica))
    await asyncio.to_thread(cluster.command, "rm", "--stop", "--force", service)
    await docker("volume", "rm", f"{os.environ['COMPOSE_PROJECT_NAME']}_{service}")
    await load.goes_on()
    await asyncio.to_thread(cluster.up, "--no-deps", service)
    await all_in_sync(cluster, broker, but=replica if was_primary else "")
    await load.goes_on()


async def test_it_comes_up_with_three_in_sync(replicated: Cluster) -> None:
    for broker in ("broker-a", "broker-b"):
        await all_in_sync(replicated, broker)
        found = group(replicated, broker)
        assert found["minInSync"] == 2
        assert found["epoch"] >= 1
    told = replicated.server.cli("doctor")
    assert isinstance(told, dict)
    assert not [one for one in told["findings"] if "replica" in str(one)], told


async def test_every_disk_of_a_broker_is_lost_one_after_the_other(replicated: Cluster) -> None:
    async with loaded(replicated, "three disks of each broker wiped") as load:
        for broker, letter in (("broker-a", "a"), ("broker-b", "b")):
            first = primary(replicated, broker)
            others = [name for name in (f"{letter}1", f"{letter}2", f"{letter}3") if name != first]
            for replica in (first, *others):
                await wiped(replicated, replica, load)


async def test_primaries_and_members_of_the_register_die(replicated: Cluster) -> None:
    async with loaded(replicated, "primaries and etcd killed") as load:
        for broker in ("broker-a", "broker-b"):
            await all_in_sync(replicated, broker)
            name = primary(replicated, broker)
            await asyncio.to_thread(crash, container(replicated, name))
            await load.goes_on()
            await is_back(container(replicated, name))
            await all_in_sync(replicated, broker)
        for member in ("etcd-1", "etcd-2", "etcd-3"):
            (etcd,) = replicated.containers(member)
            await docker("kill", etcd)
            await load.goes_on()
            await docker("start", etcd)
            await is_back(etcd)


async def test_an_upgrade_by_hand_over_loses_nothing(replicated: Cluster) -> None:
    """As docs/replicas.md says: the followers first, then the primary moves. The load tries each
    call once: those under way when a primary moves may fail, and no other."""
    async with loaded(replicated, "replicas restarted one after the other") as load:
        for broker, letter in (("broker-a", "a"), ("broker-b", "b")):
            await all_in_sync(replicated, broker)
            first = primary(replicated, broker)
            others = [name for name in (f"{letter}1", f"{letter}2", f"{letter}3") if name != first]
            for replica in others:
                await docker("restart", container(replicated, replica))
                await all_in_sync(replicated, broker)
            replicated.server.cli("replica", "move-primary", broker, "--to", others[0])
            await docker("restart", container(replicated, first))
            await all_in_sync(replicated, broker)
        failed = list(load.ledger.failures)
    assert len([one for one in failed if LEASE_OVER not in one]) <= 2 * (SENDERS + RECEIVERS)
