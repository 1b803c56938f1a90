"""kill -9 of the broker under load, again and again: what was answered OK stays so.

make crash RUNS=500
"""

import asyncio
import os
import random
import time
from pathlib import Path

import pytest
from crash.clients import GROUP, TOPIC, Told, receive, send
from crash.record import Record
from harness.processes import Server, cluster

RUNS = int(os.environ.get("CRASH_RUNS", "20"))
SENDERS = 4
RECEIVERS = 4
QUIET_S = 8.0
ENV = {"POPMQ_PROXY_INVISIBLE_MS_MIN": "100", "POPMQ_BROKER_SEGMENT_BYTES": str(1 << 20)}
TELL_EVERY = 50


async def _campaign(server: Server, told: Told, rng: random.Random) -> float:
    """The slowest start, in seconds."""
    stop, done = asyncio.Event(), asyncio.Event()
    broker = server.processes["broker-a"]
    slowest = 0.0
    async with asyncio.TaskGroup() as tasks:
        for number in range(SENDERS):
            tasks.create_task(send(server.endpoint, told, number, stop))
        for _ in range(RECEIVERS):
            tasks.create_task(receive(server.endpoint, told, rng, done))
        for run in range(1, RUNS + 1):
            await asyncio.sleep(rng.uniform(0.2, 1.2))
            await asyncio.to_thread(broker.kill)
            began = time.monotonic()
            await asyncio.to_thread(broker.start)
            slowest = max(slowest, time.monotonic() - began)
            assert not told.undone, told.undone[:10]
            if run % TELL_EVERY == 0:
                print(f"{run} kills, {told.deliveries} deliveries", flush=True)
        await asyncio.sleep(1.0)
        stop.set()
        await told.until_quiet(QUIET_S)
        done.set()
    return slowest


@pytest.mark.timeout(300 + 15 * RUNS)
def test_what_was_answered_ok_survives_kill_9(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    record = Record(tmp_path / "told")
    told = Told(record)
    began = time.monotonic()
    with cluster(tmp_path, ENV, brokers=1, proxies=1) as server:
        server.cli("topic", "create", TOPIC, "--queues", "4")
        server.cli("group", "create", GROUP, "--from", "first", "--max-attempts", "1000")
        slowest = asyncio.run(_campaign(server, told, random.Random(seed)))
    record.close()
    counts = record.counts()
    print(
        f"{RUNS} kills in {time.monotonic() - began:.0f} s, slowest start {slowest:.1f} s; "
        f"answered OK: {dict(counts)}; {told.deliveries} deliveries, {told.failures} failed calls"
    )
    assert counts["sent"] > 5 * RUNS
    assert counts["acked"] > 5 * RUNS
    assert min(counts["changed"], counts["nacked"]) > RUNS // 2
    told.check()
