"""Delayed messages that wait: what one more costs, and what all of them keep in memory.

A broker's engine in this process, as in extremes/timers.py.
"""

import asyncio
import os
import random
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

from compare import processes
from curves.point import CurvePoint
from extremes.timers import BATCH, DAY_MS, opened, park
from popmq_common.process import logs

BODY_BYTES = 64
LAST = 10
"""Batches at the end whose cost is told."""


def waiting(work: Path, values: Sequence[int]) -> Iterator[CurvePoint]:
    """Each in a process of its own, which has no memory left from the one before."""
    work.mkdir(parents=True, exist_ok=True)
    for count in values:
        fresh = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
        with TemporaryDirectory(dir=work) as folder, fresh as process:
            yield process.submit(_measured, Path(folder), count).result()


def _measured(folder: Path, count: int) -> CurvePoint:
    logs.configure("error")
    return asyncio.run(_with(folder, count))


async def _with(folder: Path, count: int) -> CurvePoint:
    """`count` wait, due between an hour and 40 days from now; then `LAST` batches more."""
    broker = await opened(folder)
    rng, now_ms = random.Random(count), time.time_ns() // 1_000_000

    def dues_ms(batch: int = BATCH) -> list[int]:
        return [now_ms + rng.randrange(DAY_MS // 24, 40 * DAY_MS) for _ in range(batch)]

    await park(broker, dues_ms(), BODY_BYTES)
    before_mib = processes.memory([os.getpid()]).anonymous_mib
    for _ in range(count // BATCH):
        await park(broker, dues_ms(), BODY_BYTES)
    memory_mib = processes.memory([os.getpid()]).anonymous_mib - before_mib
    began_s, cpu_s = time.monotonic(), time.process_time()
    for _ in range(LAST):
        await park(broker, dues_ms(), BODY_BYTES)
    took_s, cpu_s = time.monotonic() - began_s, time.process_time() - cpu_s
    await broker.close()
    more = LAST * BATCH
    return CurvePoint(count, more / took_s, cpu_s * 1e6 / more, None, max(0.0, memory_mib))
