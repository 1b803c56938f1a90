"""What dies, hangs or is cut off under load: nothing sent is lost, nothing acked is redelivered."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from compose.cluster import Cluster, crash, inspect, run
from compose.load import Load, loaded
from compose.traffic import within_true

pytestmark = [pytest.mark.compose, pytest.mark.timeout(600)]
Fault = Callable[[Cluster, Load], Awaitable[None]]
PAUSED_S = 12.0
"""Longer than the balancer waits for a proxy, and than a call for a broker."""


async def docker(*arguments: str) -> None:
    await asyncio.to_thread(run, "docker", *arguments)


async def is_back(container: str, restarts: int = 0) -> None:
    """Started again by the engine, and healthy."""

    def well() -> bool:
        state = inspect(container)
        healthy = state.get("Health", {}).get("Status") == "healthy"
        return bool(healthy and inspect(container, ".RestartCount") >= restarts)

    await within_true(well)


async def killed(container: str) -> None:
    before = inspect(container, ".RestartCount")
    await asyncio.to_thread(crash, container)
    await is_back(container, before + 1)


async def kill_a_broker(cluster: Cluster, load: Load) -> None:
    await killed(cluster.containers("broker-a")[0])


async def kill_a_proxy(cluster: Cluster, load: Load) -> None:
    await killed(cluster.containers("proxy")[0])


async def kill_a_nameserver(cluster: Cluster, load: Load) -> None:
    await killed(cluster.containers("nameserver-1")[0])


async def kill_both_nameservers(cluster: Cluster, load: Load) -> None:
    """Both are empty then, and topics that are known go on without them."""
    both = [cluster.containers(name)[0] for name in ("nameserver-1", "nameserver-2")]
    await docker("stop", *both)
    await load.goes_on()
    await docker("start", *both)
    for one in both:
        await is_back(one)


async def kill_the_balancer(cluster: Cluster, load: Load) -> None:
    await killed(cluster.containers("balancer")[0])


async def pause_a_broker(cluster: Cluster, load: Load) -> None:
    (broker,) = cluster.containers("broker-b")
    await docker("pause", broker)
    await asyncio.sleep(PAUSED_S)
    await docker("unpause", broker)
    await is_back(broker)


async def pause_a_proxy(cluster: Cluster, load: Load) -> None:
    """Its clients go on through the other one while it hangs."""
    proxy = cluster.containers("proxy")[0]
    failed = len(load.ledger.failures)
    await docker("pause", proxy)
    await asyncio.sleep(PAUSED_S)
    await load.goes_on()
    assert len(load.ledger.failures) > failed, "nobody was its client: nothing was tried"
    await docker("unpause", proxy)
    await is_back(proxy)


async def cut_a_proxy_from_the_brokers(cluster: Cluster, load: Load) -> None:
    """It answers clients, the balancer and probes, but reaches no broker and no nameserver."""
    proxy = cluster.containers("proxy")[0]
    (back,) = [
        name for name in inspect(proxy, ".NetworkSettings.Networks") if name.endswith("_back")
    ]
    failed = len(load.ledger.failures)
    await docker("network", "disconnect", back, proxy)
    await asyncio.sleep(PAUSED_S)
    assert len(load.ledger.failures) > failed, "nobody was its client: nothing was tried"
    await docker("network", "connect", "--alias", "proxy", back, proxy)


async def restart_the_proxies_in_turn(cluster: Cluster, load: Load) -> None:
    for proxy in cluster.containers("proxy"):
        await docker("restart", proxy)
        await is_back(proxy)


async def four_proxies_and_two_again(cluster: Cluster, load: Load) -> None:
    await asyncio.to_thread(cluster.up, "--scale", "proxy=4")
    assert len(cluster.containers("proxy")) == 4
    await load.goes_on()
    await asyncio.to_thread(cluster.up)
    assert len(cluster.containers("proxy")) == 2


FAULTS = [
    kill_a_broker,
    kill_a_proxy,
    kill_a_nameserver,
    kill_both_nameservers,
    kill_the_balancer,
    pause_a_broker,
    pause_a_proxy,
    cut_a_proxy_from_the_brokers,
    restart_the_proxies_in_turn,
    four_proxies_and_two_again,
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
async def test_nothing_is_lost_and_nothing_settled_comes_again(
    cluster: Cluster, fault: Fault
) -> None:
    async with loaded(cluster, fault.__name__) as load:
        await fault(cluster, load)


@pytest.mark.parametrize("name", ["proxy", "broker-b", "nameserver-1", "balancer"])
def test_a_service_stops_when_told(cluster: Cluster, name: str) -> None:
    """Within its grace period, of its own will: exit code 0, not 137."""
    container = cluster.containers(name)[-1]
    run("docker", "stop", "--time", "20", container)
    state = inspect(container)
    cluster.up()
    assert state["ExitCode"] == 0, state
