"""A broker whose disk is lost: told by an alert until somebody accepts it, and at work again."""

import os

import pytest
from compose.cluster import Cluster, run
from compose.prometheus import query
from compose.test_prometheus import until
from compose.traffic import bodies, receive, send, within_true

from popmq import Client

IMAGE = "popmq-test"
BROKER = "broker-b"
pytestmark = [pytest.mark.compose, pytest.mark.timeout(600)]


async def test_a_broker_that_lost_its_disk_is_told_of_until_it_is_accepted(
    cluster: Cluster,
) -> None:
    readers = cluster.group("wiped-readers")
    async with Client(cluster.endpoint) as client:
        await send(client, "wiped", bodies("before", 24))
        (broker,) = cluster.containers(BROKER)
        run("docker", "stop", broker)
        volume = f"{os.environ['COMPOSE_PROJECT_NAME']}_{BROKER}:/data"
        wipe = ["--entrypoint", "sh", "-v", volume, IMAGE, "-c", "rm -rf /data/*"]
        run("docker", "run", "--rm", *wipe)
        run("docker", "start", broker)

        def has_topics() -> bool:
            shown = cluster.server.cli("topic", "show", "wiped")
            assert isinstance(shown, dict)
            return {queue["broker"] for queue in shown["queues"]} == {"broker-a", BROKER}

        await within_true(has_topics)
        sent = bodies("after", 24)
        await send(client, "wiped", sent)
        assert sent <= set(await receive(client, "wiped", readers, sent))

    async def told() -> bool:
        alert = f'ALERTS{{alertname="BrokerReplaced",alertstate="firing",peer="{BROKER}"}}'
        return bool(await query(cluster, alert))

    async def silent() -> bool:
        return not await query(cluster, f'popmq_broker_replaced_peers{{peer="{BROKER}"}} == 1')

    await until(told)
    cluster.server.cli("cluster", "accept", BROKER)
    await until(silent)
