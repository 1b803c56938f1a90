"""kill -9 of the broker under load, again and again: what was answered OK stays so."""

import asyncio
import os
import random
from pathlib import Path

import pytest
from harness.processes import Server, cluster
from harness.traffic import GROUP, TOPIC, Ledger, receive, send

RUNS = int(os.environ.get("POPMQ_CRASH_RUNS", "20"))
SENDERS = 4
RECEIVERS = 4
INVISIBLE_S = 2.0
QUIET_S = 8.0
ENV = {"POPMQ_PROXY_INVISIBLE_MS_MIN": "100", "POPMQ_BROKER_SEGMENT_BYTES": str(1 << 20)}


async def _campaign(server: Server, ledger: Ledger, rng: random.Random) -> None:
    stop, done = asyncio.Event(), asyncio.Event()
    broker = server.processes["broker-a"]
    async with asyncio.TaskGroup() as tasks:
        for number in range(SENDERS):
            tasks.create_task(send(server.endpoint, ledger, number, stop))
        for _ in range(RECEIVERS):
            receiving = receive(server.endpoint, ledger, rng, done, invisible_s=INVISIBLE_S)
            tasks.create_task(receiving)
        for _ in range(RUNS):
            await asyncio.sleep(rng.uniform(0.2, 1.2))
            await asyncio.to_thread(broker.kill)
            await asyncio.to_thread(broker.start)
        await asyncio.sleep(1.0)
        stop.set()
        await ledger.until_quiet(QUIET_S)
        done.set()


@pytest.mark.timeout(300)
def test_what_was_answered_ok_survives_kill_9(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    ledger = Ledger()
    with cluster(tmp_path, ENV, brokers=1, proxies=1) as server:
        server.cli("topic", "create", TOPIC, "--queues", "4")
        server.cli("group", "create", GROUP, "--from", "first", "--max-attempts", "1000")
        asyncio.run(_campaign(server, ledger, random.Random(seed)))
    print(
        f"{RUNS} kills: {len(ledger.sent_ok)} sends and {len(ledger.acked_at)} acks answered OK, "
        f"{ledger.deliveries} deliveries, {len(ledger.failures)} failed calls"
    )
    assert len(ledger.sent_ok) > 50 * RUNS
    assert len(ledger.acked_at) > 20 * RUNS
    ledger.check(f"seed {seed}")
