"""One of several processes goes away under load: what do clients see, what becomes of messages?"""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from harness.processes import Server, cluster
from harness.traffic import GROUP, TOPIC, Ledger, receive, send

from popmq_proxy.config import Front

INVISIBLE_S = 1.0
QUIET_S = 2.5
ENV = {"POPMQ_PROXY_INVISIBLE_MS_MIN": "100"}
SENDERS, RECEIVERS = 2, 2
PAUSE_S = 0.01
"""Between sends: some 200 messages a second cross every kill."""


@asynccontextmanager
async def load(
    endpoint: str,
    ledger: Ledger,
    rng: random.Random,
    *,
    attempts: int,
    acked: float,
    invisible_s: float = INVISIBLE_S,
) -> AsyncIterator[None]:
    """Senders and receivers beside what is done inside; at the end everything is drained."""
    stop, done = asyncio.Event(), asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        for number in range(SENDERS):
            sends = send(endpoint, ledger, number, stop, attempts=attempts, pause_s=PAUSE_S)
            tasks.create_task(sends)
        for _ in range(RECEIVERS):
            tasks.create_task(
                receive(endpoint, ledger, rng, done, invisible_s=invisible_s, acked=acked)
            )
        yield
        stop.set()
        await ledger.until_quiet(QUIET_S)
        done.set()


def prepare(server: Server) -> tuple[Ledger, random.Random]:
    server.cli("topic", "create", TOPIC, "--queues", "4")
    server.cli("group", "create", GROUP, "--from", "first", "--max-attempts", "1000")
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    return Ledger(), random.Random(seed)


@pytest.mark.timeout(180)
def test_t25_a_killed_broker_of_two_repeats_nothing_for_ever(tmp_path: Path) -> None:
    """The other one goes on; nothing that was acked comes again, nothing comes without end."""

    async def campaign(server: Server, ledger: Ledger, rng: random.Random) -> int:
        broker = server.processes["broker-b"]
        async with load(server.endpoint, ledger, rng, attempts=1, acked=0.9):
            await asyncio.sleep(1.5)
            await asyncio.to_thread(broker.kill)
            before = len(ledger.acked_at)
            await asyncio.sleep(3 * INVISIBLE_S)
            went_on = len(ledger.acked_at) - before
            await asyncio.to_thread(broker.start)
            await asyncio.sleep(1.5)
        return went_on

    with cluster(tmp_path, ENV, brokers=2, proxies=1) as server:
        ledger, rng = prepare(server)
        assert asyncio.run(campaign(server, ledger, rng)) > 20
    ledger.check()
    assert max(map(len, ledger.received.values())) < 10


@pytest.mark.parametrize("front", [front.value for front in Front])
@pytest.mark.timeout(180)
def test_t47_proxies_are_restarted_one_by_one_and_no_client_sees_an_error(
    tmp_path: Path, front: str
) -> None:
    """Clients know both addresses, as behind any load balancer."""

    async def campaign(server: Server, ledger: Ledger, rng: random.Random) -> None:
        proxies = [server.processes[name] for name in ("proxy-1", "proxy-2")]
        endpoint = ";".join(f"127.0.0.1:{proxy.port}" for proxy in proxies)
        lease_s = 60.0  # all is acked; on a busy machine that may take its time
        async with load(endpoint, ledger, rng, attempts=3, acked=1.0, invisible_s=lease_s):
            for proxy in proxies:
                await asyncio.sleep(1.5)
                assert await asyncio.to_thread(proxy.stop) == 0
                await asyncio.sleep(1.0)
                await asyncio.to_thread(proxy.start)
            await asyncio.sleep(1.5)

    with cluster(tmp_path, ENV, brokers=1, proxies=2, front=front) as server:
        ledger, rng = prepare(server)
        asyncio.run(campaign(server, ledger, rng))
    assert ledger.failures == []
    assert len(ledger.acked_at) > 100
    ledger.check()
