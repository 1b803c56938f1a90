"""Senders and receivers from outside while something breaks; nothing answered OK may be lost."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from compose.cluster import Cluster
from compose.traffic import RECOVER_S
from harness.traffic import GROUP, Ledger, receive, send

SENDERS = RECEIVERS = 2
INVISIBLE_S = 2.0
QUIET_S = 6.0
"""Several invisible times, and a poll."""
SILENCE_S = 60.0
"""What has not come when nothing has for so long does not come. Tens of thousands of messages may
wait, and on a busy machine a shorter silence tells nothing."""
STEP = 20


@dataclass
class Load:
    ledger: Ledger

    async def goes_on(self, within_s: float = RECOVER_S) -> float:
        """Until as much as `STEP` was sent and acked anew; how long that took, in seconds."""
        began = time.monotonic()
        sent, acked = len(self.ledger.sent_ok), len(self.ledger.acked_at)
        while len(self.ledger.sent_ok) < sent + STEP or len(self.ledger.acked_at) < acked + STEP:
            assert time.monotonic() < began + within_s, self.ledger.failures[-5:]
            await asyncio.sleep(0.1)
        return time.monotonic() - began


@asynccontextmanager
async def loaded(cluster: Cluster, what: str) -> AsyncIterator[Load]:
    """Load inside; then everything is drained and held against what clients were told."""
    ledger = Ledger()
    stop, done = asyncio.Event(), asyncio.Event()
    rng = random.Random(7)
    cluster.group(GROUP)
    async with asyncio.TaskGroup() as tasks:
        for _ in range(RECEIVERS):
            tasks.create_task(
                receive(cluster.endpoint, ledger, rng, done, invisible_s=INVISIBLE_S, acked=1.0)
            )
        for _ in range(SENDERS):
            number = rng.getrandbits(60)  # bodies of another test may still lie there
            tasks.create_task(send(cluster.endpoint, ledger, number, stop))
        load = Load(ledger)
        await load.goes_on()
        yield load
        seconds = await load.goes_on()
        stop.set()
        seen, until_s = -1, 0.0
        while ledger.lost() and (seen < ledger.deliveries or time.monotonic() < until_s):
            if seen < ledger.deliveries:
                seen, until_s = ledger.deliveries, time.monotonic() + SILENCE_S
            await asyncio.sleep(0.5)
        await ledger.until_quiet(QUIET_S)
        done.set()
    print(
        f"\n{what}: {len(ledger.sent_ok)} sent, {len(ledger.failures)} calls failed, "
        f"{seconds:.1f} s to go on afterwards"
    )
    for reason, count in Counter(text[:100] for text in ledger.failures).most_common(3):
        print(f"  {count} times {reason}")
    ledger.check(what)
