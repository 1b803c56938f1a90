"""A broker is added by an override file, on a disk that is small, and fills."""

from collections.abc import Iterator

import pytest
from compose.cluster import DEPLOY, Cluster, run
from compose.prometheus import firing, query
from compose.test_prometheus import until
from compose.traffic import RECOVER_S, bodies, receive, send, within
from testcontainers.compose import DockerCompose

from popmq import Client, PopMQClientError

SMALL = str(DEPLOY.parent / "tests/compose/small-disk.yml")
SHORT = str(DEPLOY.parent / "tests/compose/short.yml")
FILLED_BYTES = 60 << 20
pytestmark = [pytest.mark.compose, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def larger(cluster: Cluster) -> Iterator[Cluster]:
    """The same project with broker-c; it is taken away again."""
    files = ["docker-compose.yml", "broker-c.yml", SHORT, SMALL]
    with_c = Cluster(DockerCompose(str(DEPLOY), files), 0.0)
    with_c.up()
    try:
        yield with_c
    finally:
        with_c.command("rm", "--stop", "--force", "broker-c")
        cluster.up()


async def test_new_topics_have_queues_on_the_added_broker(larger: Cluster) -> None:
    sent = bodies("wide", 48)
    readers = larger.group("wide-readers")

    async def everywhere() -> None:
        larger.server.cli("topic", "create", "wide", "--queues", "4")
        shown = larger.server.cli("topic", "show", "wide")
        assert isinstance(shown, dict)
        brokers = {queue["broker"] for queue in shown["queues"]}
        if brokers != {"broker-a", "broker-b", "broker-c"}:
            raise PopMQClientError(f"queues on {brokers} alone")

    await within(RECOVER_S, everywhere)
    async with Client(larger.endpoint) as client:
        await send(client, "wide", sent)
        assert set(await receive(client, "wide", readers, sent)) == sent


async def test_a_broker_whose_disk_is_full_refuses_and_recovers_by_itself(larger: Cluster) -> None:
    """What was stored is received meanwhile; an alert tells of it, and is silent afterwards."""
    (broker,) = larger.containers("broker-c")
    before, after = bodies("before", 24), bodies("after", 24)
    readers = larger.group("full-readers")

    async def refuses() -> bool:
        rows = await query(larger, 'popmq_disk_state{instance="broker-c:5557"}')
        return [row["value"][1] for row in rows] == ["2"]

    async def told() -> bool:
        return "SendsRefused" in await firing(larger)

    async def silent() -> bool:
        return "SendsRefused" not in await firing(larger)

    async with Client(larger.endpoint) as client:
        await send(client, "wide", before)
        filling = f"head -c {FILLED_BYTES} /dev/zero > /data/filler; true"
        run("docker", "exec", broker, "sh", "-c", filling)
        await until(refuses)
        await until(told)
        refused = []
        for number in range(24):
            try:
                await client.send("wide", f"during-{number}".encode())
            except PopMQClientError as full:
                refused.append(str(full))
        assert all("full" in text for text in refused), refused
        got = await receive(client, "wide", readers, before)
        assert before <= set(got)
        run("docker", "exec", broker, "rm", "/data/filler")
        await until(silent)
        await send(client, "wide", after)
        got += await receive(client, "wide", readers, after)
    print(f"\n{len(refused)} of 24 sends refused while one of three disks was full")
    assert before | after <= set(got)
